"""Budgets: limits on what a run and all agents below it spend together."""

__all__ = ["ASSUMED_OUTPUT", "Budget", "Price", "Spending", "budgeted"]

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal

from msgspec import Struct

from ziggurat.core.codec import as_type, encode
from ziggurat.core.context import JOURNAL, Context
from ziggurat.core.entries import Failure, Outcome, Result
from ziggurat.core.errors import ConfigurationError, LimitExceeded, ToolError
from ziggurat.core.json_lines import as_error
from ziggurat.core.path import is_tool_call, parent_of
from ziggurat.core.recorder import ADMISSION
from ziggurat.core.service import Service
from ziggurat.messages.middleware import Middleware, given
from ziggurat.messages.model import ModelRequest, ToolSpec
from ziggurat.messages.parts import ToolCall, ToolResult
from ziggurat.messages.usage import Usage, estimate_tokens

ASSUMED_OUTPUT = 1024
"""Tokens reserved for a reply without `max_tokens`, until a longer reply has been seen."""

Price = Callable[[str, Usage], float | Decimal | None]
"""Returns the cost of a call from the model's name and the usage; None if the price is unknown."""


class Budget(Struct, frozen=True):
    """Limits on what an agent and all agents below it spend together::

        Agent(model, tools=[search], budget=Budget(tokens=50_000, cost=0.25, tools={"search": 3}))

    Before a model call its estimated maximum is reserved, so concurrent calls cannot overspend. A run whose next
    model call would exceed the budget stops with `BudgetExceeded` and the result so far. What was spent is read from
    the run's record, failed tries included, so it survives a suspension.

    Time is not part of a budget: a budget refuses calls before they start, but a time limit must stop running ones.
    Use ``Agent(timeout=...)``, which also applies to all agents below.

    Attributes:
        tokens: Input and output together; if a provider reports no usage, it counts as zero.
        requests: Model calls.
        tool_calls: Tool calls. Further ones are refused, with a result that tells the model so, and the run stops
            once the results of that step are complete.
        steps: Steps of all loops together; ``max_steps`` limits each agent separately.
        cost: Money, in the currency of `price`.
        tools: Calls of each tool, by its name. Further ones are refused, and the run continues.
        price: Returns the cost of a call. An `Agent` uses the providers' list prices in US dollars by default.
    """

    tokens: int | None = None
    requests: int | None = None
    tool_calls: int | None = None
    steps: int | None = None
    cost: float | Decimal | None = None
    tools: Mapping[str, int] = {}
    price: Price | None = None

    def __post_init__(self) -> None:
        for name in ("tokens", "requests", "tool_calls", "steps"):
            value = getattr(self, name)
            if value is not None and not _is_count(value):
                raise ConfigurationError(f"Budget({name}=...) must be a whole number of at least 1, got {value!r}")
        number = isinstance(self.cost, (int, float, Decimal)) and not isinstance(self.cost, bool)
        if self.cost is not None and not (number and 0 < self.cost < float("inf")):
            raise ConfigurationError(f"Budget(cost=...) must be a positive amount, got {self.cost!r}")
        tools = self.tools.items() if isinstance(self.tools, Mapping) else [(self.tools, 0)]
        if not all(isinstance(name, str) and _is_count(limit) for name, limit in tools):
            raise ConfigurationError(
                f"Budget(tools=...) maps names to limits, such as {{'search': 3}}; got {self.tools!r}"
            )
        if self.price is not None and not callable(self.price):
            raise ConfigurationError(
                f"Budget(price=...) is a function of a model's name and a Usage, got {self.price!r}"
            )
        limits = (self.tokens, self.requests, self.tool_calls, self.steps, self.cost, self.tools or None)
        if all(limit is None for limit in limits):
            raise ConfigurationError(
                "Budget() limits nothing: give tokens=..., requests=..., tool_calls=..., steps=..., cost=... or "
                "tools={...}; for time there is Agent(timeout=...)"
            )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


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
        elif isinstance(outcome, Result) and is_tool_call(outcome.path):
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

    def admit(self, request: object, ctx: Context, name: str = "", /) -> "_Reservation":
        """Reserve the estimated maximum of a model call; for other calls reserve nothing.

        Raises:
            LimitExceeded: the call might exceed the budget.
            ConfigurationError: there is a limit on cost, and the price of the model is unknown.
        """
        if not isinstance(request, ModelRequest):
            return _Reservation(self, name, 0, 0, 0.0)
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
        return _Reservation(self, name, need, 1, amount)

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

    def admit_tool(self, name: str) -> None:
        """Count a tool call.

        Raises:
            ToolError: the limit is reached; the model gets the message.
        """
        budget, made = self.budget, self.tool_calls
        limit = budget.tools.get(name)
        if limit is not None and made.get(name, 0) >= limit:
            raise ToolError(
                f"not executed: {name} may be called {limit} times in this run; go on without", kind="denied"
            )
        if budget.tool_calls is not None and sum(made.values()) >= budget.tool_calls:
            raise ToolError(f"not executed: this run may call tools {budget.tool_calls} times", kind="denied")
        made[name] = made.get(name, 0) + 1


class _Reservation:
    """The reservation of one call."""

    __slots__ = ("amount", "calls", "name", "need", "spending")

    def __init__(self, spending: Spending, name: str, need: int, calls: int, amount: float) -> None:
        self.spending = spending
        self.name = name
        self.need = need
        self.calls = calls
        self.amount = amount

    def settle(self, usage: Iterable[object], /) -> None:
        """Replace the reservation by the actual usage."""
        self.spending.reserved -= self.need
        self.spending.reserved_cost -= self.amount
        self.spending.running -= self.calls
        for each in usage:
            if isinstance(each, Usage):
                self.spending._add(each, self.name)


class _ToolLimits(Middleware):
    """Counts the tool calls of one run; used only if tools are limited."""

    def __init__(self, spending: Spending) -> None:
        self.spending = spending

    async def wrap_tool(self, call: ToolCall, ctx: Context, tool: Service[ToolCall, ToolResult]) -> ToolResult:
        self.spending.admit_tool(call.name)
        return await tool(call, ctx)


def _is_step(path: str) -> bool:
    """Return whether `path` is that of the first model call of a step."""
    return path.endswith("/model") and parent_of(path).rpartition("/")[2].startswith("step-")


def budgeted(ctx: Context, budget: Budget) -> Context:
    """Return a context in which all calls below also count against `budget`.

    Raises:
        ConfigurationError: the budget limits cost and has no `price`.
    """
    if budget.cost is not None and budget.price is None:
        raise ConfigurationError("Budget(cost=...) needs price=..., a function of a model's name and a Usage")
    spending = Spending(budget)
    for outcome, costs in ctx.scope[JOURNAL].spent(ctx.path):
        spending.recall(outcome, costs)
    ctx = ctx.within(ADMISSION, (*(ctx.scope.get(ADMISSION) or ()), spending))
    return given(ctx, _ToolLimits(spending)) if budget.tools or budget.tool_calls is not None else ctx
