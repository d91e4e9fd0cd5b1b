"""Token usage of model calls; an unknown figure is None, never zero."""

__all__ = ["TOOL_CALL", "Tally", "Usage", "estimate_tokens"]

from msgspec import Struct

from ziggurat.core.codec import Raw, decode
from ziggurat.core.entries import Result
from ziggurat.core.path import is_tool_call


class Usage(Struct, frozen=True, gc=False, omit_defaults=True):
    """Tokens of one or several model calls. None means unknown; a sum has the known figures.

    Attributes:
        input: Tokens read, cached ones included.
        output: Tokens written, reasoning included.
        cache_read: Of `input`, those read from the provider's cache.
        cache_write: Of `input`, those written to the provider's cache.
        reasoning: Of `output`, those spent on reasoning.
        requests: The number of model calls.
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

    def __mul__(self, times: int) -> "Usage":
        return Usage(
            None if self.input is None else self.input * times,
            None if self.output is None else self.output * times,
            None if self.cache_read is None else self.cache_read * times,
            None if self.cache_write is None else self.cache_write * times,
            None if self.reasoning is None else self.reasoning * times,
            self.requests * times,
        )

    @property
    def total(self) -> int:
        """Input and output together; unknown figures count as zero."""
        return (self.input or 0) + (self.output or 0)


def _sum(one: int | None, other: int | None) -> int | None:
    if one is None:
        return other
    return one if other is None else one + other


_NONE = Usage()

TOOL_CALL = object()
"""Passed to `Tally.add` for a live tool call."""


class Tally:
    """A sum of usage and calls that also adds to the tally of the enclosing run.

    Usage is summed when it is read, so that adding costs next to nothing.
    """

    __slots__ = ("_last", "_sum", "_times", "model_calls", "outer", "tool_calls")

    def __init__(self, outer: "Tally | None" = None) -> None:
        self.outer = outer
        self._sum = _NONE
        self._last = self._sum  # models without figures return the same Usage object every time
        self._times = 0
        self.model_calls = 0
        self.tool_calls = 0

    def add(self, cost: object) -> None:
        """Count a model call by its usage, or a tool call by its outcome, here and in all enclosing runs."""
        tally: Tally | None = self
        if cost is TOOL_CALL:
            while tally is not None:
                tally.tool_calls += 1
                tally = tally.outer
            return
        if isinstance(cost, Raw):
            cost = decode(cost, Usage)
        if isinstance(cost, Usage):
            while tally is not None:
                if cost is not tally._last:
                    tally._settle(cost)
                tally._times += 1
                tally.model_calls += 1
                tally = tally.outer
        elif isinstance(cost, Result) and is_tool_call(cost.path):
            self.add(TOOL_CALL)

    def _settle(self, following: Usage) -> None:
        if self._times:
            last = self._last * self._times
            self._sum = last if self._sum is _NONE else self._sum + last
        self._last, self._times = following, 0

    @property
    def usage(self) -> Usage:
        """The sum of all usage."""
        self._settle(self._last)
        return self._sum


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text: a quarter of its characters, rounded down, at least 1 unless empty."""
    return max(1, len(text) // 4) if text else 0
