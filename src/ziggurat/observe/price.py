"""A listener that adds up what model calls have cost."""

from decimal import Decimal

from ziggurat.core.event import Event
from ziggurat.core.settings import NonEmptyText, checked
from ziggurat.messages.events import ModelEnded
from ziggurat.messages.price import price_of_calls


class Costs:
    """Add up the costs of a run's model calls, including those of nested agents.

    Each call is charged by the name that the answering model reports; answers from a cache cost nothing. Replayed
    answers cost nothing now and are not counted; failed attempts report no usage and are not counted either.

    Args:
        provider: The provider, if all models have the same; by default derived from the models' names.

    Raises:
        ConfigurationError: the provider is no text, or empty.

    Attributes:
        unknown: The number of calls without a known price, by model.

    >>> costs = Costs()
    >>> run = await agent.run("Hello", listeners=[costs])         # doctest: +SKIP
    >>> costs.total                                               # doctest: +SKIP
    Decimal('0.00031')
    """

    @checked
    def __init__(self, provider: NonEmptyText | None = None) -> None:
        self._provider = provider
        self._known = Decimal(0)
        self._calls = 0
        self.unknown: dict[str, int] = {}

    async def __call__(self, event: Event) -> None:
        """Count the cost of a model's answer; other events are ignored."""
        if not isinstance(event, ModelEnded) or event.replayed:
            return
        response = event.response
        self._calls += 1
        price = price_of_calls(response.usage, response.model, self._provider)
        if price is None:
            self.unknown[response.model] = self.unknown.get(response.model, 0) + 1
        else:
            self._known += price

    @property
    def total(self) -> Decimal | None:
        """US dollars for all calls; None if there were none, or a price is unknown."""
        return self._known if self._calls and not self.unknown else None

    @property
    def at_least(self) -> Decimal | None:
        """US dollars for the calls with a known price; None if there were none."""
        return self._known if self._calls > sum(self.unknown.values()) else None
