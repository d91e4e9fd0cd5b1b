"""Admission: whether budgets allow a call, and what has been spent of them."""

from decimal import Decimal
from math import inf
from typing import cast

from msgspec.structs import replace

from ziggurat.core import errors
from ziggurat.core.codec import as_type
from ziggurat.core.context import BUDGETS, Context, Key
from ziggurat.core.failures import call_given
from ziggurat.core.path import is_beneath, is_question, is_tool_call, parent_of
from ziggurat.core.service import ALTERNATIVES, fact
from ziggurat.journal.entries import Intent, Result
from ziggurat.journal.journal import journal_of
from ziggurat.messages import usage
from ziggurat.messages.message import ToolResult
from ziggurat.messages.model import Model, ModelRequest
from ziggurat.messages.stops import BudgetExceeded

_NOTHING = usage.Usage()


class _Meter:
    """What is spent of one limit on model calls, and what is reserved for those that run."""

    def __init__(self, kind: str, limit: float, price: usage.Price | None) -> None:
        count = usage.TOKENS_AND_REQUESTS.get(kind)
        self.kind = kind
        self.limit = limit
        self.measure = price if count is None else lambda name, used: count(used)
        self.spent: float = 0
        self.reserved: float = 0  # for tries that go on

    def amount(self, name: str, used: usage.Usage) -> float:
        """Return what a call of this usage takes of the limit; the model is `name`, unless the usage names another."""
        name = used.model or name
        assert self.measure is not None  # a limit on costs has a price
        amount = self.measure(name, used)
        if amount is None:
            raise errors.ConfigurationError(
                f"Budget(cost=...) needs to know what {name!r} costs, and no price of it is listed; "
                "pass Budget(cost=..., price=lambda model, usage: ...)"
            )
        number = float(amount) if isinstance(amount, Decimal) else amount
        if not isinstance(number, (int, float)) or not 0 <= number < inf:
            raise errors.ConfigurationError(
                f"Budget(price=...) returned {amount!r:.200} for {name!r}; a price is 0 or more"
            )
        return number

    def check(self, need: float) -> None:
        if self.spent + self.reserved + need > self.limit:
            raise errors.LimitExceeded(self.kind, self.limit, self.spent)


class Spending:
    """The amounts spent of a budget in one run: recorded calls at the start, then live ones when they end."""

    def __init__(self, budget: usage.Budget) -> None:
        self.budget = budget
        self.meters: dict[str, _Meter] = {
            kind: _Meter(kind, limit, budget.price) for kind, limit in usage.limits_of(budget).items()
        }
        self.steps: set[str] = set()  # the paths of those whose models were called
        self.calls: dict[str, set[str]] = {}  # the paths of the calls of each tool
        self.so_far: set[str] = set()  # the paths of those that have ended as far as this process has come
        self.limited: bool = False  # whether a tool call was refused because of the limit on all of them
        self._longest = usage.ASSUMED_OUTPUT

    def recall_refusal(self, recorded: object) -> None:
        """Note that a recorded result, which is used again, is that of a call that the limit on all of them refused."""
        if self.budget.tool_calls is not None and not self.limited:
            self.limited = as_type(recorded, ToolResult).text == self._refusal()

    def add(self, cost: object, name: str = "", /) -> None:
        used = usage.as_usage(cost)
        if used is None or used == _NOTHING:  # nothing was sent
            return
        if used.input is None or used.output is None or not used.requests:  # an embedder has no output
            used = replace(used, input=used.input or 0, output=used.output or 0, requests=used.requests or 1)
        self._longest = max(self._longest, used.output or 0)
        for meter in self.meters.values():
            meter.spent += meter.amount(name, used)

    def admit(self, request: ModelRequest, ctx: Context, name: str = "", models: tuple[str, ...] = ()) -> "Reservation":
        limit = self.budget.steps
        estimate = usage.expected_usage(request, self._longest)
        needs = [max(meter.amount(each, estimate) for each in models or (name,)) for meter in self.meters.values()]
        for meter, need in zip(self.meters.values(), needs, strict=True):
            meter.check(need)
        step = ""
        if limit is not None and is_question(ctx.path) and parent_of(ctx.path) not in self.steps:
            if len(self.steps) >= limit:
                raise errors.LimitExceeded("steps", limit, len(self.steps))
            step = parent_of(ctx.path)
            self.steps.add(step)
        return Reservation(self, name, estimate, needs, step)

    def check_tool(self, name: str, path: str) -> None:
        """Raise ToolError, whose message the model gets, if a tool may not be called again."""
        budget, calls = self.budget, self.calls.get(name, ())
        if path in calls:
            return  # it was started before
        limit = budget.tools.get(name)
        if limit is not None and len(calls) >= limit:
            raise errors.ToolError(
                f"not executed: {name} may be called {limit} times in this run; go on without", kind="denied"
            )
        if budget.tool_calls is not None and sum(map(len, self.calls.values())) >= budget.tool_calls:
            self.limited = True
            raise errors.ToolError(self._refusal(), kind="denied")

    def _refusal(self) -> str:
        return f"not executed: this run may call tools {self.budget.tool_calls} times"

    def reached(self, *, on_record: bool) -> BudgetExceeded | None:
        """Return the stop if the limit on tool calls is reached by those that have ended so far, or all on record."""
        # Once one was refused because of the limit, those that go on count too, such as the call of the agent itself.
        limit = self.budget.tool_calls
        if limit is None:
            return None
        counts_all = on_record or self.limited
        calls = sum(counts_all or path in self.so_far for paths in self.calls.values() for path in paths)
        if calls < limit:
            return None
        return BudgetExceeded("tool_calls", float(limit), float(calls))


class Reservation:
    """What is reserved for one call in each limit: the maximum of each of its tries that go on."""

    def __init__(
        self, spending: Spending, name: str, estimate: usage.Usage, needs: list[float], step: str = ""
    ) -> None:
        self._spending = spending
        self._name = name
        self._needs = needs
        self._step = step  # the path of the step that was counted for the call
        self._tries = 0
        self.estimate: usage.Usage = estimate
        self.hold(1)

    def check(self) -> None:
        for meter, need in zip(self._spending.meters.values(), self._needs, strict=True):
            meter.check(need)

    def hold(self, tries: int) -> None:
        self._tries += tries
        for meter, need in zip(self._spending.meters.values(), self._needs, strict=True):
            meter.reserved += need * tries

    def end(self, cost: object, tries: int) -> None:
        """Count what was used in place of what is reserved for as many tries."""
        self.hold(-tries)
        self._spending.add(cost, self._name)

    def release(self, *, sent: bool) -> None:
        """End the reservation; the step does not count if nothing was sent to the model."""
        self.hold(-self._tries)
        if self._step and not sent:
            self._spending.steps.discard(self._step)


ADMISSION: Key[tuple[Spending, ...]] = cast("Key[tuple[Spending, ...]]", BUDGETS)
"""What was spent of all budgets in effect; `BUDGETS` is this key, with the type that lower rooms know."""


def admit(model: Model, request: ModelRequest, name: str, ctx: Context) -> list[Reservation]:
    """Reserve for a live model call in all budgets: as much as the dearest of the models takes that it may ask."""
    reserved: list[Reservation] = []
    try:
        for spending in ctx.scope.get(ADMISSION) or ():
            reserved.append(spending.admit(request, ctx, name, fact(model, ALTERNATIVES)))
    except BaseException:
        for each in reserved:
            each.release(sent=False)
        raise
    return reserved


def admit_tool(name: str, ctx: Context, *, begun: bool = False) -> None:
    """Count a live tool call in all budgets, once however often it is begun."""
    path, budgets = ctx.path, ctx.scope.get(ADMISSION) or ()
    for spending in () if begun else budgets:
        spending.check_tool(name, path)
    for spending in budgets:
        spending.calls.setdefault(name, set()).add(path)


def budgeted(ctx: Context, budget: usage.Budget) -> Context:
    """Return a context in which all calls below also count against `budget`."""
    price = budget.price
    if price is not None:
        budget = replace(budget, price=lambda name, used: call_given(price, ctx, name, used))
    spending, journal = Spending(budget), journal_of(ctx)
    for tried, costs in journal.spent(ctx.path):
        for cost in costs:
            spending.add(cost, tried.name)
            if cost is not tried and is_question(tried.path):  # its model was called
                spending.steps.add(parent_of(tried.path))
    for path in journal.paths():
        if not is_tool_call(path) or not is_beneath(path, ctx.path) or (record := journal.find(path)) is None:
            continue
        made: Intent | Result | None = record.intent
        result = record.result  # one that was refused has no intent
        if made is None and result is not None and as_type(result.value, ToolResult).error is None:
            made = result
        if made is not None:
            spending.calls.setdefault(made.name, set()).add(path)
    return ctx.within(ADMISSION, (*(ctx.scope.get(ADMISSION) or ()), spending))
