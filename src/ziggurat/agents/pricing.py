"""List prices for budgets that limit cost and have no price function."""

__all__ = ["with_prices"]

from decimal import Decimal

from msgspec.structs import replace

from ziggurat.messages.budget import Budget
from ziggurat.messages.usage import Usage


def with_prices(budget: Budget) -> Budget:
    """Return a budget with the providers' list prices if it limits cost and has no price function.

    Raises:
        MissingExtra: the extra ``prices`` is not installed.
    """
    if budget.cost is None or budget.price is not None:
        return budget
    _listed("", Usage(0, 0))  # raises MissingExtra here rather than during a run
    return replace(budget, price=_listed)


def _listed(model: str, usage: Usage) -> Decimal | None:
    from ziggurat.observe.price import cost

    return cost(usage, model)
