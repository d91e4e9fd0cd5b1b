"""List prices for budgets that limit cost and have no price function of their own."""

__all__ = ["priced"]

from decimal import Decimal

from msgspec.structs import replace

from ziggurat.messages.budget import Budget
from ziggurat.messages.usage import Usage


def priced(budget: Budget) -> Budget:
    """Return a budget that knows what calls cost: the list prices of providers, where it limits cost and knows none.

    Raises:
        MissingExtra: the extra ``prices`` is not installed.
    """
    if budget.cost is None or budget.price is not None:
        return budget
    _listed("", Usage(0, 0))  # so that what is missing shows here
    return replace(budget, price=_listed)


def _listed(model: str, usage: Usage) -> Decimal | None:
    from ziggurat.observe.price import cost

    return cost(usage, model)
