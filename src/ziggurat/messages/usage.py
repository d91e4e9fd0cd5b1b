"""Token usage of model calls; an unknown figure is None, never zero."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from ziggurat.core.codec import Raw, decode
from ziggurat.core.errors import JournalCorrupt
from ziggurat.core.path import is_tool_call
from ziggurat.journal.entries import Result
from ziggurat.journal.record import RunRecord

_MOST = 2**53 - 1
"""The largest figure that all readers of JSON read exactly; a provider that states more does not count."""

_FIGURES = ("input", "output", "cache_read", "cache_write", "reasoning", "requests")


class Usage(Struct, frozen=True, gc=False, omit_defaults=True):
    """Tokens of one or several model calls. None means unknown; a sum has the known figures.

    A figure that cannot be, such as a negative one, is unknown. The usage of a model call in a run is complete: what
    the model did not state is estimated from the texts, or if it did not reply, it is what budgets reserve for a call.

    Attributes:
        input: Tokens read, cached ones included.
        output: Tokens written, reasoning included.
        cache_read: Of `input`, those read from the provider's cache.
        cache_write: Of `input`, those written to the provider's cache.
        reasoning: Of `output`, those spent on reasoning.
        requests: The number of model calls.
        model: The name of the model, if the call could ask several, as that of a fallback can; empty in sums.
        estimated: Whether the model did not state all tokens, so that some are estimated; in a sum, those of any call.
    """

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None
    requests: int = 0
    model: str = ""
    estimated: bool = False

    def __post_init__(self) -> None:
        # Nearly all are right, and many are made in a run, so this is one look at each figure.
        for figure in (self.input, self.output, self.cache_read, self.cache_write, self.reasoning, self.requests):
            if figure is not None and (type(figure) is not int or not 0 <= figure <= _MOST):
                break
        else:
            return
        for name in _FIGURES:
            figure = getattr(self, name)
            if type(figure) is not int or not 0 <= figure <= _MOST:
                force_setattr(self, name, None)
        force_setattr(self, "requests", self.requests or 1)  # else it would say that nothing was used

    def __add__(self, other: "Usage") -> "Usage":
        return sum_of(self, other)

    def __mul__(self, times: int) -> "Usage":
        return sum_of(*[self] * times)

    def spent_by(self, model: str) -> "Usage":
        """Return it as that of the model of this name, unless it is known whose it is, or nothing was used."""
        return self if self.model or not model or self == _NOTHING else replace(self, model=model)

    @property
    def total(self) -> int:
        """Input and output together; unknown figures count as zero."""
        return (self.input or 0) + (self.output or 0)


_NOTHING = Usage()


class _Sum(Struct, gc=False):
    """A sum of usage to which more is added; a figure that nothing added has stays unknown."""

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None
    requests: int = 0
    estimated: bool = False

    def add(self, usage: Usage) -> None:
        self.requests = min(self.requests + usage.requests, _MOST)
        self.estimated = self.estimated or usage.estimated
        if usage.input is not None:
            self.input = min(usage.input + (self.input or 0), _MOST)
        if usage.output is not None:
            self.output = min(usage.output + (self.output or 0), _MOST)
        if usage.cache_read is not None:
            self.cache_read = min(usage.cache_read + (self.cache_read or 0), _MOST)
        if usage.cache_write is not None:
            self.cache_write = min(usage.cache_write + (self.cache_write or 0), _MOST)
        if usage.reasoning is not None:
            self.reasoning = min(usage.reasoning + (self.reasoning or 0), _MOST)

    def so_far(self) -> Usage:
        tokens = (self.input, self.output, self.cache_read, self.cache_write, self.reasoning)
        return Usage(*tokens, self.requests, "", self.estimated)


def sum_of(*usages: Usage) -> Usage:
    """Return the usage of several calls together; a figure that none of them has stays unknown."""
    if len(usages) == 1:
        return replace(usages[0], model="") if usages[0].model else usages[0]
    total = _Sum()
    for usage in usages:
        total.add(usage)
    return total.so_far()


def as_usage(cost: object) -> Usage | None:
    """Return a cost, perhaps as it was read from a record, as usage; None if it is something else, of the user's."""
    if isinstance(cost, Raw):
        try:
            return decode(cost, Usage)
        except JournalCorrupt:
            return None
    return cost if isinstance(cost, Usage) else None


class Tally:
    """A sum of usage, in all and by model, and of calls, that also adds to the tally of the enclosing run."""

    __slots__ = ("_sums", "ended", "model_calls", "outer", "tool_calls")

    def __init__(self, outer: "Tally | None" = None) -> None:
        self.outer: Tally | None = outer
        self._sums: dict[str, _Sum] = {}  # by model
        self.model_calls: int = 0
        self.tool_calls: int = 0
        self.ended: Sequence[set[str]] = ()  # of each budget in effect, the paths of the tool calls that have ended

    def add(self, cost: object, name: str = "", /) -> None:
        """Count a model call by its usage, or a tool call by its recorded outcome, here and in all enclosing runs."""
        usage = cost if isinstance(cost, Usage) else as_usage(cost)
        if usage is None:
            if isinstance(cost, Result) and is_tool_call(cost.path):
                self.recall(cost.value)
                add_tool_call(self, cost.path)
            return
        model = usage.model or name
        tally: Tally | None = self
        while tally is not None:
            sums = tally._sums
            if model not in sums:
                sums[model] = _Sum()
            sums[model].add(usage)
            tally.model_calls += 1
            tally = tally.outer

    def recall(self, result: object) -> None:
        """Tell the budgets in effect of the recorded result of a tool call; there are none here."""

    @property
    def usage(self) -> Usage:
        return sum_of(*self.by_model.values())

    @property
    def by_model(self) -> dict[str, Usage]:
        return {model: known.so_far() for model, known in self._sums.items()}


def add_tool_call(tally: Tally | None, path: str) -> None:
    """Count a tool call that has ended in a tally and those of all enclosing runs."""
    while tally is not None:
        for ended in tally.ended:
            ended.add(path)
        tally.tool_calls += 1
        tally = tally.outer


def tally_of(journal: RunRecord) -> Tally:
    """Return the usage and the calls on record, those of nested agents and failed tries included."""
    tally = Tally()
    for tried, costs in journal.spent(""):
        for cost in costs:
            tally.add(cost, tried.name)
    return tally


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text: a quarter of its characters, rounded down, at least 1 unless empty."""
    return max(1, len(text) // 4) if text else 0
