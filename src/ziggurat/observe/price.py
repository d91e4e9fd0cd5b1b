"""Prices of model calls in US dollars; an unknown price stays unknown and is never zero."""

__all__ = ["Costs", "cost", "price_of_call"]

from datetime import datetime
from decimal import Decimal
from types import ModuleType

from ziggurat.core.errors import MissingExtra
from ziggurat.core.event import Event
from ziggurat.core.settings import NonEmptyText, checked
from ziggurat.messages.events import ModelEnded
from ziggurat.messages.usage import Usage

_KNOWN_AS = {"openai-responses": "openai", "xai": "x-ai", "gemini": "google"}


@checked
def cost(
    usage: Usage, model: str, provider: NonEmptyText | None = None, *, at: datetime | None = None
) -> Decimal | None:
    """Return what a model call has cost, by the list prices of its provider.

    Cached tokens: `usage.input` counts all input tokens. Of these, `cache_read` and `cache_write` are charged at their
    own prices and the rest at the full price. If the provider has no such price, or the counts are unknown, they are
    charged in full, so the result is at most too high.

    Use it for one call: where a price depends on the length of a request, the sum of several would be charged wrongly.
    For a run, listen with `Costs`.

    Args:
        usage: The usage of the call.
        model: The provider's name of the model; ``provider:model`` names both.
        provider: The provider that answered; by default derived from the model's name.
        at: The time of the call, as prices change; now by default.

    Returns:
        US dollars; None if the model or one of its prices is not listed, or the token counts are unknown.

    Raises:
        ConfigurationError: an argument has a wrong type.
        MissingExtra: the extra ``prices`` is not installed.

    >>> cost(Usage(input=1_000_000, output=0), "openai:gpt-4o") == Decimal("2.5")
    True
    """
    return price_of_call(usage, model, provider, at)


def price_of_call(usage: Usage, model: str, provider: str | None = None, at: datetime | None = None) -> Decimal | None:
    """Return what `cost` does, of values that a model reported and that need no check.

    Raises:
        MissingExtra: the extra ``prices`` is not installed.
    """
    library = _library()
    if usage.input is None or usage.output is None:
        return None
    name, who, address = _split_name(model, provider)
    tokens = library.Usage(
        input_tokens=usage.input,
        output_tokens=usage.output,
        cache_read_tokens=usage.cache_read,
        cache_write_tokens=usage.cache_write,
    )
    try:
        price = library.calc_price(tokens, name, provider_id=who, provider_api_url=address, genai_request_timestamp=at)
    except (LookupError, ValueError):  # the model is not listed, or more tokens were cached than read
        return None
    prices = price.model_price
    if (usage.input and prices.input_mtok is None) or (usage.output and prices.output_mtok is None):
        return None  # the library counts a price that is not listed as zero
    total: Decimal = price.total_price
    return total


def _split_name(model: str, provider: str | None) -> tuple[str, str | None, str | None]:
    """Return the model's name, the provider's name, and the provider's URL if only that is known."""
    if provider is None and ":" in model:
        scheme, _, rest = model.partition(":")
        if "@" in scheme:
            address, _, name = model.partition("@")[2].rpartition(":")
            return name, None, address
        known = scheme.isidentifier() or scheme == "openai-responses"
        if known:
            provider, model = scheme, rest
    return model, _KNOWN_AS.get(provider, provider) if provider else None, None


def _library() -> ModuleType:
    try:
        import genai_prices
    except ImportError as error:
        raise MissingExtra("The price of a call", "prices") from error
    return genai_prices


class Costs:
    """Add up the costs of a run's model calls, including those of nested agents.

    Each call is charged by the name that the answering model reports. Replayed answers cost nothing now and are not
    counted; failed attempts report no usage and are not counted either.

    Args:
        provider: The provider, if all models have the same; by default derived from the models' names.

    Raises:
        ConfigurationError: the provider is no text, or empty.

    Attributes:
        unknown: The number of calls without a known price, by model.

    >>> costs = Costs()                                           # doctest: +SKIP
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
        price = price_of_call(response.usage, response.model, self._provider)
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
