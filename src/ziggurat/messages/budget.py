"""Budget: limits on what a run and all agents below it spend together."""

__all__ = ["ASSUMED_OUTPUT", "Budget", "Price"]

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Annotated

from msgspec import Meta, Struct

from ziggurat.core.errors import ConfigurationError
from ziggurat.core.settings import PositiveFloat, PositiveInt, check_fields
from ziggurat.messages.usage import Usage

PositiveDecimal = Annotated[Decimal, Meta(gt=0)]

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

    tokens: PositiveInt | None = None
    requests: PositiveInt | None = None
    tool_calls: PositiveInt | None = None
    steps: PositiveInt | None = None
    cost: PositiveFloat | PositiveDecimal | None = None
    tools: Annotated[Mapping[str, PositiveInt], Meta(description="such as {'search': 3}")] = {}
    price: Annotated[Price, Meta(description="called with the name of a model and a Usage")] | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        limits = (self.tokens, self.requests, self.tool_calls, self.steps, self.cost, self.tools or None)
        if all(limit is None for limit in limits):
            raise ConfigurationError(
                "Budget() limits nothing: give tokens=..., requests=..., tool_calls=..., steps=..., cost=... or "
                "tools={...}; for time there is Agent(timeout=...)"
            )
