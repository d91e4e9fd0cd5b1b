"""Prices of model calls in US dollars; an unknown price is None, and only a model in this process costs nothing."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from types import ModuleType
from typing import Any

from msgspec.structs import astuple

from ziggurat.core.errors import MissingExtra
from ziggurat.core.event import warn_once
from ziggurat.core.settings import NonEmptyText, checked
from ziggurat.messages.usage import Usage, sum_of

_NONE = Usage()
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
    For a run, see `AgentRun.cost`.

    Args:
        usage: The usage of the call.
        model: The provider's name of the model; ``provider:model`` names both. ``demo`` and ``local:model`` run in
            this process and cost nothing.
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
    if _is_local(provider or model):
        return Decimal(0)
    price = _calculated(usage, model, provider, at)
    return None if price is None else Decimal(price.total_price)


def price_of_calls(usage: Usage, model: str) -> Decimal | None:
    """Return what one or several calls of a model have cost together; None if that is unknown."""
    if usage == _NONE or _is_local(model):  # an answer from a cache, or of a model in this process
        return Decimal(0)
    price, calls = _calculated(usage, model), usage.requests
    if price is None:
        return None
    if calls > 1 and any(isinstance(each, _library().types.TieredPrices) for each in vars(price.model_price).values()):
        mean = Usage(*[figure and figure // calls for figure in astuple(sum_of(usage))])
        each = price_of_calls(mean, model)
        return None if each is None else each * calls
    return Decimal(price.total_price)


def total_of(usages: Mapping[str, Usage]) -> Decimal | None:
    """Return what the usage of several models has cost together; None, with a warning once, without known prices."""
    try:
        prices = [price_of_calls(usage, model) for model, usage in usages.items()]
    except MissingExtra as error:
        warn_once(f"the cost is None: {error}")
        return None
    return sum([price for price in prices if price is not None], Decimal(0)) if None not in prices else None


def cost_text(usages: Mapping[str, Usage]) -> str:
    """Return what the usage of several models has cost as text; empty if no tokens are known."""
    if not any(usage.total for usage in usages.values()):
        return ""
    try:
        prices = [price_of_calls(usage, model) for model, usage in usages.items()]
    except MissingExtra:
        return "unpriced"
    return dollars(prices)


def dollars(prices: Sequence[Decimal | None]) -> str:
    """Return the sum of prices as text, which says whether some are unknown.

    >>> dollars([Decimal("0.10"), Decimal("0.02")]), dollars([Decimal(2), None]), dollars([None])
    ('$0.12', 'at least $2', 'unpriced')
    """
    known = [price for price in prices if price is not None]
    if not known:
        return "unpriced"
    return f"{'at least ' if len(known) < len(prices) else ''}${sum(known, Decimal(0)).normalize():f}"


def _is_local(name: str) -> bool:
    """Return whether a model, or the models of a provider, run in this process."""
    return name.partition(":")[0] in ("demo", "local")


def _calculated(usage: Usage, model: str, provider: str | None = None, at: datetime | None = None) -> Any:
    """Return the library's price of a call; None if the model or one of its prices is not listed."""
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
    return price


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
