"""What calls have cost, in tokens; unknown stays unknown and is never zero."""

__all__ = ["Tally", "Usage", "estimate_tokens"]

from msgspec import Struct

from ziggurat.core.codec import Raw, decode
from ziggurat.core.entries import Result


class Usage(Struct, frozen=True, gc=False, omit_defaults=True):
    """Tokens of one or several model calls. None means unknown; adding keeps what is known.

    Attributes:
        input: Tokens read, cached ones included.
        output: Tokens written, reasoning included.
        cache_read: Of `input`, those read from the provider's cache.
        cache_write: Of `input`, those written to the provider's cache.
        reasoning: Of `output`, those spent on reasoning.
        requests: How many calls this is.
    """

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None
    requests: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            _sum(self.input, other.input),
            _sum(self.output, other.output),
            _sum(self.cache_read, other.cache_read),
            _sum(self.cache_write, other.cache_write),
            _sum(self.reasoning, other.reasoning),
            self.requests + other.requests,
        )

    @property
    def total(self) -> int:
        """Input and output together, unknown counted as nothing."""
        return (self.input or 0) + (self.output or 0)


def _sum(one: int | None, other: int | None) -> int | None:
    if one is None:
        return other
    return one if other is None else one + other


def _total(usages: list[Usage]) -> Usage:
    def known(values: list[int | None]) -> int | None:
        counted = [value for value in values if value is not None]
        return sum(counted) if counted else None

    return Usage(
        known([usage.input for usage in usages]),
        known([usage.output for usage in usages]),
        known([usage.cache_read for usage in usages]),
        known([usage.cache_write for usage in usages]),
        known([usage.reasoning for usage in usages]),
        sum([usage.requests for usage in usages]),
    )


class Tally:
    """Adds up usage as it comes and hands it on to the tally of the run that this one is part of.

    Sums are made when somebody asks, so that a run that is not asked pays for an append.
    """

    __slots__ = ("_calls", "_outer", "_sum", "_waiting", "tool_calls")

    def __init__(self, outer: "Tally | None" = None) -> None:
        self._outer = outer
        self._sum = Usage()
        self._calls = 0
        self._waiting: list[Usage] = []
        self.tool_calls = 0

    def add(self, cost: object) -> None:
        """Count a model call by its usage, or a tool call by its outcome, here and in every run around this one."""
        if isinstance(cost, Raw):
            cost = decode(cost, Usage)
        tally: Tally | None = self
        if isinstance(cost, Usage):
            while tally is not None:
                tally._waiting.append(cost)
                tally = tally._outer
        elif isinstance(cost, Result) and cost.path.rpartition("/")[2].startswith("tool-"):
            while tally is not None:
                tally.tool_calls += 1
                tally = tally._outer

    @property
    def usage(self) -> Usage:
        """All of it."""
        waiting = self._waiting
        if waiting:
            self._calls += len(waiting)
            self._sum = _total([self._sum, *waiting])
            waiting.clear()
        return self._sum

    @property
    def model_calls(self) -> int:
        """How many model calls were counted, failed tries that had a cost included."""
        return self._calls + len(self._waiting)


def estimate_tokens(text: str) -> int:
    """Guess how many tokens a text is: a quarter of its characters, rounded down, at least 1 unless empty."""
    return max(1, len(text) // 4) if text else 0
