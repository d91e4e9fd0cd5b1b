"""Budget: limits on what a run and all agents below it spend together."""

__all__ = ["ASSUMED_OUTPUT", "Budget", "Price"]

from collections.abc import Callable, Mapping
from decimal import Decimal

from msgspec import Struct

from ziggurat.core.errors import ConfigurationError
from ziggurat.messages.usage import Usage

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
