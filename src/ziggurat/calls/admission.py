"""Admission: whether budgets allow a call, and what has been spent of them."""

from collections.abc import Iterable, Sequence
from decimal import Decimal

from msgspec.structs import replace

from ziggurat.core.codec import as_type, encode
from ziggurat.core.context import Context
from ziggurat.core.errors import (
    ConfigurationError,
    Denied,
    InvalidArguments,
    JournalError,
    LimitExceeded,
    Suspend,
    ToolError,
    fact_of,
)
from ziggurat.core.failures import call_given
from ziggurat.core.path import is_beneath, is_tool_call, parent_of
from ziggurat.core.protocols import usage_of
from ziggurat.core.scope import Key
from ziggurat.journal.entries import Record, Tried
from ziggurat.journal.journal import journal_of
from ziggurat.messages.budget import ASSUMED_OUTPUT, TOKENS_AND_REQUESTS, Budget, Price, limits_of
from ziggurat.messages.model import ModelRequest, ToolSpec
from ziggurat.messages.parts import ToolResult
from ziggurat.messages.stops import BudgetExceeded
from ziggurat.messages.usage import Usage, as_usage, estimate_tokens


class _Meter:
    """What is spent of one limit on model calls, and what is reserved for those that run."""

    __slots__ = ("kind", "limit", "measure", "reserved", "spent")

    def __init__(self, kind: str, limit: float, measure: Price) -> None:
        self.kind = kind
        self.limit = limit
        self.measure = measure
        self.spent: float = 0
        self.reserved: float = 0

    def expect(self, names: Sequence[str], usage: Usage) -> float:
        """Return what a call of this estimated usage needs: of one that may ask several models, of the dearest."""
        needs: list[float] = []
        for name in names:
            need = self.measure(name, usage)
            if need is None:
                raise ConfigurationError(
                    f"Budget(cost=...) needs to know what {name!r} costs, and no price of it is listed; "
                    "pass Budget(cost=..., price=lambda model, usage: ...)"
                )
            needs.append(_number(need))
        return max(needs)

    def check(self, need: float, own: float = 0) -> None:
        """Raise LimitExceeded if `need` is more than is left, where `own` is reserved for this call already."""
        used = self.spent + self.reserved - own
        if used + need > self.limit:
            raise LimitExceeded(self.kind, self.limit, used)

    def amount(self, name: str, usage: Usage) -> float:
        """Return what a call has used; an unknown price counts as zero."""
        return _number(self.measure(usage.model or name, usage) or 0)


def _number(amount: float | Decimal) -> float:
    return float(amount) if isinstance(amount, Decimal) else amount


def _meter(kind: str, limit: float, price: Price | None) -> _Meter:
    count = TOKENS_AND_REQUESTS.get(kind)
    if count is not None:
        return _Meter(kind, limit, lambda name, usage: count(usage))
    assert price is not None
    return _Meter(kind, limit, price)


class Spending:
    """The amounts spent of a budget in one run: recorded calls at the start, then live ones when they end."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.meters: dict[str, _Meter] = {
            kind: _meter(kind, limit, budget.price) for kind, limit in limits_of(budget).items()
        }
        self.steps: set[str] = set()
        self.calls: dict[str, set[str]] = {}  # the paths of the calls of each tool
        self.so_far: set[str] = set()  # the paths of those that have ended as far as this process has come
        self.limited: bool = False  # whether a tool call was refused because of the limit on all of them
        self._longest = ASSUMED_OUTPUT
        self._specs: tuple[tuple[ToolSpec, ...], int] = ((), 0)

    def recall(self, tried: Tried, costs: Iterable[object]) -> None:
        """Count what a recorded try has cost; a step counts if its model was called."""
        for cost in costs:
            usage = as_usage(cost)
            if usage is not None:
                self.add(usage, tried.name)
            if _is_step(tried.path):
                self.steps.add(tried.path)

    def recall_tool(self, path: str, record: Record) -> None:
        """Count a recorded tool call, if it was made: refused ones do not count."""
        name = _name_of_made(record)
        if name:
            self.calls.setdefault(name, set()).add(path)

    def recall_refusal(self, recorded: object) -> None:
        """Note that a recorded result, which is used again, is that of a call that the limit on all of them refused."""
        if self.budget.tool_calls is not None and not self.limited:
            self.limited = as_type(recorded, ToolResult).text == self._refusal()

    def add(self, usage: Usage, name: str) -> None:
        """Count what a model call has used."""
        usage = _of_a_call(usage)
        self._longest = max(self._longest, usage.output or 0)
        for meter in self.meters.values():
            meter.spent += meter.amount(name, usage)

    def admit(self, request: ModelRequest, ctx: Context, name: str = "", models: tuple[str, ...] = ()) -> "Reservation":
        """Reserve the estimated maximum of a model call, which may ask one of several models."""
        limit = self.budget.steps
        question = request.messages.size() // 4 + estimate_tokens(request.instructions or "") + self._tools(request)
        estimate = Usage(question, request.settings.max_tokens or self._longest, requests=1)
        needs = [meter.expect(models or (name,), estimate) for meter in self.meters.values()]
        for meter, need in zip(self.meters.values(), needs, strict=True):
            meter.check(need)
        step = ""
        if limit is not None and _is_step(ctx.path) and ctx.path not in self.steps:
            if len(self.steps) >= limit:
                raise LimitExceeded("steps", limit, len(self.steps))
            step = ctx.path
            self.steps.add(step)
        return Reservation(self, name, needs, step)

    def _tools(self, request: ModelRequest) -> int:
        """Estimate the tokens of the tool specs; computed once while the tools stay the same."""
        if request.tools is not self._specs[0]:
            self._specs = (request.tools, len(encode(request.tools)) // 4 if request.tools else 0)
        return self._specs[1]

    def check_tool(self, name: str, path: str) -> None:
        """Raise ToolError, whose message the model gets, if a tool may not be called again."""
        budget, calls = self.budget, self.calls.get(name, ())
        if path in calls:
            return  # it was started before
        limit = budget.tools.get(name)
        if limit is not None and len(calls) >= limit:
            raise ToolError(
                f"not executed: {name} may be called {limit} times in this run; go on without", kind="denied"
            )
        if budget.tool_calls is not None and sum(map(len, self.calls.values())) >= budget.tool_calls:
            self.limited = True
            raise ToolError(self._refusal(), kind="denied")

    def _refusal(self) -> str:
        return f"not executed: this run may call tools {self.budget.tool_calls} times"

    @property
    def tool_calls(self) -> dict[str, int]:
        """How often each tool was called, in this process and before."""
        return {name: len(paths) for name, paths in self.calls.items()}

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
    """What is reserved for one call in each limit: the usage of its failed tries, and the maximum of the next one."""

    __slots__ = ("_held", "_needs", "_step", "name", "spending")

    def __init__(self, spending: Spending, name: str, needs: Sequence[float], step: str = "") -> None:
        self.spending: Spending = spending
        self.name: str = name
        self._needs = needs
        self._step = step  # the path of the step that was counted for the call
        self._held: list[float] = [0] * len(needs)
        self._hold(needs)

    def _hold(self, amounts: Sequence[float]) -> None:
        for at, (meter, amount) in enumerate(zip(self.spending.meters.values(), amounts, strict=True)):
            meter.reserved += amount
            self._held[at] += amount

    def lose(self, before: object) -> None:
        """Hold what a try has used whose usage or error is given."""
        if isinstance(before, BaseException):
            if _is_refusal(before):
                return
            before = usage_of(before)
        usage = _of_a_call(before if isinstance(before, Usage) else Usage(requests=1))
        self._hold([meter.amount(self.name, usage) for meter in self.spending.meters.values()])

    def check_try(self, *, beside: bool) -> None:
        """Check that the maximum of another try is left, of one beside those that go on, or of one instead of the
        last."""
        for meter, need in zip(self.spending.meters.values(), self._needs, strict=True):
            meter.check(need, 0 if beside else need)

    def hold_another(self) -> None:
        """Hold the maximum of another try."""
        self._hold(self._needs)

    def settle(self, usage: Sequence[object]) -> None:
        """Replace the reservation by the actual usage, which is empty if nothing was sent to the model."""
        self._hold([-amount for amount in self._held])
        if self._step and not usage:
            self.spending.steps.discard(self._step)
        for each in usage:
            if isinstance(each, Usage):
                self.spending.add(each, self.name)


class AdmitTry:
    """Admits another try of a model call in all budgets."""

    __slots__ = ("_reserved", "times")

    def __init__(self, reserved: Sequence[Reservation]) -> None:
        self._reserved = reserved
        self.times: int = 0

    def __call__(self, before: object, /) -> None:
        """Admit a try after one whose usage or error is given; without it, beside those that go on."""
        beside = before is None
        for each in () if beside else self._reserved:
            each.lose(before)
        for each in self._reserved:
            each.check_try(beside=beside)
        for each in self._reserved if beside else ():
            each.hold_another()
        self.times += 1


def _of_a_call(usage: Usage) -> Usage:
    """Return the usage of a model call, which is at least one request, unless it is empty: nothing was sent then."""
    return usage if usage.requests or usage == Usage() else replace(usage, requests=1)


def _is_refusal(error: BaseException) -> bool:
    """Return whether an error says that nothing was sent to the model."""
    return isinstance(error, (LimitExceeded, Denied, InvalidArguments, ConfigurationError, JournalError, Suspend))


def metered(spent: Sequence[object]) -> tuple[object, ...]:
    """Return the usage of tries; a failed one whose usage is unknown counts as a request."""
    if not spent:
        return ()
    return tuple(
        Usage(requests=1, model=fact_of(cost, "asked", str) or "") if isinstance(cost, BaseException) else cost
        for cost in spent
        if not (isinstance(cost, BaseException) and _is_refusal(cost))
    )


def _is_step(path: str) -> bool:
    """Return whether `path` is that of the first model call of a step."""
    return path.endswith("/model") and parent_of(path).rpartition("/")[2].startswith("step-")


def _name_of_made(record: Record) -> str:
    """Return the name of a tool whose recorded call was made, empty if it was refused: it has no intent then."""
    if record.intent is not None:
        return record.intent.name
    result = record.result
    return result.name if result is not None and as_type(result.value, ToolResult).error is None else ""


ADMISSION: Key[tuple[Spending, ...]] = Key("admission")
"""What was spent of all budgets in effect, those of the outermost agent first."""


def admit(request: ModelRequest, name: str, ctx: Context, models: tuple[str, ...] = ()) -> list[Reservation]:
    """Reserve for a live model call in all budgets; it may ask one of several models, if their names are given."""
    reserved: list[Reservation] = []
    try:
        for spending in ctx.scope.get(ADMISSION) or ():
            reserved.append(spending.admit(request, ctx, name, models))
    except BaseException:
        for each in reserved:
            each.settle(())
        raise
    return reserved


def admit_tool(name: str, ctx: Context, *, begun: bool = False) -> None:
    """Count a live tool call in all budgets, once however often it is begun."""
    path, budgets = ctx.path, ctx.scope.get(ADMISSION) or ()
    for spending in () if begun else budgets:
        spending.check_tool(name, path)
    for spending in budgets:
        spending.calls.setdefault(name, set()).add(path)


def _noting_mistakes(budget: Budget, ctx: Context) -> Budget:
    """Return a budget whose price function, if it raises an error, has made a mistake."""
    price = budget.price
    if price is None:
        return budget
    return replace(budget, price=lambda name, usage: call_given(price, ctx, name, usage))


def budgeted(ctx: Context, budget: Budget) -> Context:
    """Return a context in which all calls below also count against `budget`."""
    spending, journal = Spending(_noting_mistakes(budget, ctx)), journal_of(ctx)
    for tried, costs in journal.spent(ctx.path):
        spending.recall(tried, costs)
    for path in journal.paths():
        if is_tool_call(path) and is_beneath(path, ctx.path) and (record := journal.find(path)) is not None:
            spending.recall_tool(path, record)
    return ctx.within(ADMISSION, (*(ctx.scope.get(ADMISSION) or ()), spending))
