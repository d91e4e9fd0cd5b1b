"""Admission: whether budgets allow a call, and what has been spent of them."""

__all__ = ["ADMISSION", "Reservation", "Spending", "admit", "admit_tool", "budgeted", "is_refusal", "metered"]

from collections.abc import Iterable, Sequence

from ziggurat.core.codec import as_type, encode
from ziggurat.core.context import Context
from ziggurat.core.entries import Failure, Outcome, Result
from ziggurat.core.errors import (
    ConfigurationError,
    Denied,
    InvalidArguments,
    JournalError,
    LimitExceeded,
    Suspend,
    ToolError,
)
from ziggurat.core.journal import journal_of
from ziggurat.core.json_lines import as_error
from ziggurat.core.path import is_tool_call, parent_of
from ziggurat.core.scope import Key
from ziggurat.messages.budget import ASSUMED_OUTPUT, Budget
from ziggurat.messages.model import ModelRequest, ToolSpec
from ziggurat.messages.parts import ToolResult
from ziggurat.messages.usage import Usage, estimate_tokens


class Spending:
    """The amounts spent of a budget in one run: recorded calls at the start, then live ones when they end."""

    def __init__(self, budget: Budget, spent: Iterable[Usage] = ()) -> None:
        self.budget = budget
        self.tokens = 0
        self.requests = 0
        self.cost = 0.0
        self.steps: set[str] = set()
        self.tool_calls: dict[str, int] = {}
        self.reserved = 0
        self.reserved_cost = 0.0
        self.running = 0
        self._longest = ASSUMED_OUTPUT
        self._specs: tuple[tuple[ToolSpec, ...], int] = ((), 0)
        for usage in spent:
            self._add(usage, "")

    def recall(self, outcome: Outcome, costs: Iterable[object]) -> None:
        """Count a recorded call."""
        for usage in costs:
            self._add(as_type(usage, Usage), outcome.name)
        refused = isinstance(outcome, Failure) and isinstance(as_error(outcome.error), LimitExceeded)
        if _is_step(outcome.path) and not refused:
            self.steps.add(outcome.path)
        elif isinstance(outcome, Result) and is_tool_call(outcome.path) and _has_run(outcome):
            self.tool_calls[outcome.name] = self.tool_calls.get(outcome.name, 0) + 1

    def _add(self, usage: Usage, name: str) -> None:
        self.tokens += usage.total
        self.requests += max(1, usage.requests)
        self._longest = max(self._longest, usage.output or 0)
        if self.budget.cost is not None:
            self.cost += self._price(name, usage) or 0.0

    def _price(self, name: str, usage: Usage) -> float | None:
        price = None if self.budget.price is None else self.budget.price(name, usage)
        return None if price is None else float(price)

    def admit(self, request: ModelRequest, ctx: Context, name: str = "") -> "Reservation":
        """Reserve the estimated maximum of a model call.

        Raises:
            LimitExceeded: the call might exceed the budget.
            ConfigurationError: there is a limit on cost, and the price of the model is unknown.
        """
        budget = self.budget
        question = request.messages.size() // 4 + estimate_tokens(request.instructions or "") + self._tools(request)
        answer = request.settings.max_tokens or self._longest
        need = question + answer
        if budget.tokens is not None and self.tokens + self.reserved + need > budget.tokens:
            raise LimitExceeded("tokens", budget.tokens, self.tokens + self.reserved)
        if budget.requests is not None and self.requests + self.running >= budget.requests:
            raise LimitExceeded("requests", budget.requests, self.requests + self.running)
        begins = _is_step(ctx.path) and ctx.path not in self.steps
        if budget.steps is not None and begins and len(self.steps) >= budget.steps:
            raise LimitExceeded("steps", budget.steps, len(self.steps))
        amount = 0.0 if budget.cost is None else self._check_cost(name, Usage(question, answer, requests=1))
        if begins and budget.steps is not None:
            self.steps.add(ctx.path)
        self.reserved += need
        self.reserved_cost += amount
        self.running += 1
        return Reservation(self, name, need, amount)

    def _check_cost(self, name: str, usage: Usage) -> float:
        """Return the estimated maximum cost of a call in money; raise LimitExceeded if less is left."""
        amount = self._price(name, usage)
        if amount is None:
            raise ConfigurationError(
                f"Budget(cost=...) needs to know what {name!r} costs, and no price of it is listed; "
                "pass Budget(cost=..., price=lambda model, usage: ...)"
            )
        limit = float(self.budget.cost or 0)
        if self.cost + self.reserved_cost + amount > limit:
            raise LimitExceeded("cost", limit, self.cost + self.reserved_cost)
        return amount

    def _tools(self, request: ModelRequest) -> int:
        """Estimate the tokens of the tool specs; computed once while the tools stay the same."""
        if request.tools is not self._specs[0]:
            self._specs = (request.tools, len(encode(request.tools)) // 4 if request.tools else 0)
        return self._specs[1]

    def check_tool(self, name: str) -> None:
        """Raise ToolError, whose message the model gets, if a tool may not be called again."""
        budget, made = self.budget, self.tool_calls
        limit = budget.tools.get(name)
        if limit is not None and made.get(name, 0) >= limit:
            raise ToolError(
                f"not executed: {name} may be called {limit} times in this run; go on without", kind="denied"
            )
        if budget.tool_calls is not None and sum(made.values()) >= budget.tool_calls:
            raise ToolError(f"not executed: this run may call tools {budget.tool_calls} times", kind="denied")

    def count_tool(self, name: str) -> None:
        """Count a tool call."""
        self.tool_calls[name] = self.tool_calls.get(name, 0) + 1


class Reservation:
    """The reservation of one call."""

    __slots__ = ("amount", "name", "need", "spending", "tries")

    def __init__(self, spending: Spending, name: str, need: int, amount: float) -> None:
        self.spending = spending
        self.name = name
        self.need = need
        self.amount = amount
        self.tries = 1

    def admit_try(self, error: BaseException) -> None:
        """Count a failed try, which may be made again.

        Raises:
            LimitExceeded: the budget allows no more requests.
        """
        if is_refusal(error):
            return
        spending, limit = self.spending, self.spending.budget.requests
        used = spending.requests + spending.running
        if limit is not None and used >= limit:
            raise LimitExceeded("requests", limit, used)
        self.tries += 1
        spending.running += 1

    def settle(self, usage: Iterable[object]) -> None:
        """Replace the reservation by the actual usage."""
        self.spending.reserved -= self.need
        self.spending.reserved_cost -= self.amount
        self.spending.running -= self.tries
        for each in usage:
            if isinstance(each, Usage):
                self.spending._add(each, self.name)


def is_refusal(error: BaseException) -> bool:
    """Return whether an error says that nothing was sent to the model."""
    return isinstance(error, (LimitExceeded, Denied, InvalidArguments, ConfigurationError, JournalError, Suspend))


def metered(spent: Sequence[object]) -> tuple[object, ...]:
    """Return the usage of tries; a failed one whose usage is unknown counts as a request."""
    if not spent:
        return ()
    return tuple(
        Usage(requests=1) if isinstance(cost, BaseException) else cost
        for cost in spent
        if not (isinstance(cost, BaseException) and is_refusal(cost))
    )


def _is_step(path: str) -> bool:
    """Return whether `path` is that of the first model call of a step."""
    return path.endswith("/model") and parent_of(path).rpartition("/")[2].startswith("step-")


def _has_run(outcome: Result) -> bool:
    """Return whether a recorded tool call was made; refused ones do not count."""
    result = as_type(outcome.value, ToolResult)
    return result.error not in _REFUSED and not (result.error == "interrupted" and result.text.startswith(_NOT_MADE))


_REFUSED = ("denied", "invalid_arguments", "not_found")
_NOT_MADE = "not executed"

ADMISSION: Key[tuple[Spending, ...]] = Key("admission")
"""What was spent of all budgets in effect, those of the outermost agent first."""


def admit(request: ModelRequest, name: str, ctx: Context) -> list[Reservation]:
    """Reserve for a live model call in all budgets.

    Raises:
        LimitExceeded: the call might exceed one of them; nothing is reserved then.
        ConfigurationError: there is a limit on cost, and the price of the model is unknown.
    """
    reserved: list[Reservation] = []
    try:
        for spending in ctx.scope.get(ADMISSION) or ():
            reserved.append(spending.admit(request, ctx, name))
    except BaseException:
        for each in reserved:
            each.settle(())
        raise
    return reserved


def admit_tool(name: str, ctx: Context) -> None:
    """Count a live tool call in all budgets.

    Raises:
        ToolError: a limit is reached; the call counts in none of them.
    """
    budgets = ctx.scope.get(ADMISSION) or ()
    for spending in budgets:
        spending.check_tool(name)
    for spending in budgets:
        spending.count_tool(name)


def budgeted(ctx: Context, budget: Budget) -> Context:
    """Return a context in which all calls below also count against `budget`.

    Raises:
        ConfigurationError: the budget limits cost and has no `price`.
    """
    if budget.cost is not None and budget.price is None:
        raise ConfigurationError("Budget(cost=...) needs price=..., a function of a model's name and a Usage")
    spending = Spending(budget)
    for outcome, costs in journal_of(ctx).spent(ctx.path):
        spending.recall(outcome, costs)
    return ctx.within(ADMISSION, (*(ctx.scope.get(ADMISSION) or ()), spending))
