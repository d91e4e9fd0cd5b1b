"""What a run and all agents beneath it may spend together."""

__all__ = ["Budget", "Spending", "budgeted"]

from collections.abc import Iterable

from msgspec import Struct

from ziggurat.core.codec import as_type
from ziggurat.core.context import JOURNAL, Context
from ziggurat.core.errors import ConfigurationError, LimitExceeded
from ziggurat.core.recorder import ADMISSION
from ziggurat.messages.model import ModelRequest
from ziggurat.messages.usage import Usage, estimate_tokens

ASSUMED_OUTPUT = 1024
"""Tokens reserved for a reply whose greatest length nobody set."""


class Budget(Struct, frozen=True):
    """Limits upon what an agent and all agents beneath it spend together.

    Before a model is called, what it may cost at most is reserved, so calls that run at once cannot overspend.

    Attributes:
        tokens: Input and output together.
        requests: Model calls.
    """

    tokens: int | None = None
    requests: int | None = None

    def __post_init__(self) -> None:
        for name in ("tokens", "requests"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise ConfigurationError(f"Budget({name}=...) must be a whole number of at least 1, got {value!r}")
        if self.tokens is None and self.requests is None:
            raise ConfigurationError("Budget() limits nothing: give tokens=..., requests=... or both")


class Spending:
    """What was spent of a budget in one run: recorded calls at first, live ones as they are settled."""

    def __init__(self, budget: Budget, spent: Iterable[Usage]) -> None:
        self.budget = budget
        self.tokens = 0
        self.requests = 0
        self.reserved = 0
        self.running = 0
        for usage in spent:
            self._add(usage)

    def _add(self, usage: Usage) -> None:
        self.tokens += usage.total
        self.requests += max(1, usage.requests)

    def admit(self, request: object, ctx: Context, /) -> "_Reserved":
        """Reserve what a model call may cost; other calls cost nothing.

        Raises:
            LimitExceeded: it might go over the budget.
        """
        if not isinstance(request, ModelRequest):
            return _Reserved(self, 0, 0)
        budget = self.budget
        need = request.messages.size() // 4 + estimate_tokens(request.instructions or "")
        need += request.settings.max_tokens or ASSUMED_OUTPUT
        if budget.tokens is not None and self.tokens + self.reserved + need > budget.tokens:
            raise LimitExceeded("tokens", budget.tokens, self.tokens + self.reserved)
        if budget.requests is not None and self.requests + self.running >= budget.requests:
            raise LimitExceeded("requests", budget.requests, self.requests + self.running)
        self.reserved += need
        self.running += 1
        return _Reserved(self, need, 1)


class _Reserved:
    """The reservation of one call."""

    __slots__ = ("calls", "need", "spending")

    def __init__(self, spending: Spending, need: int, calls: int) -> None:
        self.spending = spending
        self.need = need
        self.calls = calls

    def settle(self, usage: Iterable[object], /) -> None:
        """Replace the reservation by what was really spent."""
        self.spending.reserved -= self.need
        self.spending.running -= self.calls
        for each in usage:
            if isinstance(each, Usage):
                self.spending._add(each)


def budgeted(ctx: Context, budget: Budget) -> Context:
    """Return a context in which all model calls beneath also count against `budget`."""
    recorded = ctx.scope[JOURNAL].spent(ctx.path)
    spending = Spending(budget, (as_type(usage, Usage) for usage in recorded))
    return ctx.within(ADMISSION, (*(ctx.scope.get(ADMISSION) or ()), spending))
