"""Token usage of model calls, what it costs, and budgets; an unknown figure or price is None, never zero."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta, Struct

from ziggurat.core import errors
from ziggurat.core.codec import Raw, decode, encode
from ziggurat.core.event import warn_once
from ziggurat.core.failures import asked_of
from ziggurat.core.path import is_tool_call
from ziggurat.core.settings import CheckedStruct, PositiveFloat, PositiveInt, checked
from ziggurat.journal.entries import Result
from ziggurat.journal.record import RunRecord
from ziggurat.messages.conversation import characters
from ziggurat.messages.message import Message

if TYPE_CHECKING:
    from ziggurat.messages.model import ModelRequest, ModelResponse


_MOST = 2**53 - 1
"""The largest figure that all readers of JSON read exactly; a provider that states more does not count."""

_FIGURES = ("input", "output", "cache_read", "cache_write", "reasoning", "requests")


class Usage(Struct, frozen=True, gc=False, omit_defaults=True):
    """Tokens of one or several model calls. None means unknown; a sum has the known figures.

    A figure that cannot be, such as a negative one, is unknown. The usage of a model call in a run is complete: what
    the model did not state is estimated from the texts, or if it did not reply, it is what budgets reserve for a call.

    Attributes:
        input: Tokens read, cached ones included.
        output: Tokens written, reasoning included.
        cache_read: Of `input`, those read from the provider's cache.
        cache_write: Of `input`, those written to the provider's cache.
        reasoning: Of `output`, those spent on reasoning.
        requests: The number of model calls.
        model: The name of the model, if the call could ask several, as that of a fallback can; empty in sums.
        estimated: Whether the model did not state all tokens, so that some are estimated; in a sum, those of any call.
    """

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None
    requests: int = 0
    model: str = ""
    estimated: bool = False

    def __post_init__(self) -> None:
        # Nearly all are right, and many are made in a run, so this is one look at each figure.
        for figure in (self.input, self.output, self.cache_read, self.cache_write, self.reasoning, self.requests):
            if figure is not None and (type(figure) is not int or not 0 <= figure <= _MOST):
                break
        else:
            return
        for name in _FIGURES:
            figure = getattr(self, name)
            if type(figure) is not int or not 0 <= figure <= _MOST:
                msgspec.structs.force_setattr(self, name, None)
        msgspec.structs.force_setattr(self, "requests", self.requests or 1)  # else it would say that nothing was used

    def __add__(self, other: "Usage") -> "Usage":
        return sum_of(self, other)

    def spent_by(self, model: str) -> "Usage":
        """Return it as that of the model of this name, unless it is known whose it is, or nothing was used."""
        return self if self.model or not model or self == _NOTHING else msgspec.structs.replace(self, model=model)

    @property
    def total(self) -> int:
        """Input and output together; unknown figures count as zero."""
        return (self.input or 0) + (self.output or 0)


_NOTHING = Usage()


def sum_of(*usages: Usage) -> Usage:
    """Return the usage of several calls together; a figure that none of them has stays unknown."""
    sums: list[int | None] = []
    for name in _FIGURES:
        known = [figure for figure in map(attrgetter(name), usages) if figure is not None]
        sums.append(min(sum(known), _MOST) if known else None)
    read, written, cached, stored, reasoning, requests = sums
    estimated = any(map(attrgetter("estimated"), usages))
    return Usage(read, written, cached, stored, reasoning, requests or 0, estimated=estimated)


def as_usage(cost: object) -> Usage | None:
    if isinstance(cost, Raw):
        try:
            return decode(cost, Usage)
        except errors.JournalCorrupt:
            return None
    return cost if isinstance(cost, Usage) else None


class Tally:
    """A sum of usage, in all and by model, and of calls, that also adds to the tally of the enclosing run."""

    __slots__ = ("_spent", "ended", "model_calls", "outer", "tool_calls")

    def __init__(self, outer: "Tally | None" = None) -> None:
        self.outer: Tally | None = outer
        self._spent: dict[str, list[Usage]] = {}  # by model; a list is added up when it is read
        self.model_calls: int = 0
        self.tool_calls: int = 0
        self.ended: Sequence[set[str]] = ()  # of each budget in effect, the paths of the tool calls that have ended

    def add(self, cost: object, name: str = "", /) -> None:
        usage = cost if isinstance(cost, Usage) else as_usage(cost)
        if usage is None:
            if isinstance(cost, Result) and is_tool_call(cost.path):
                self.recall(cost.value)
                self.add_tool_call(cost.path)
            return
        model = usage.model or name
        tally: Tally | None = self
        while tally is not None:
            tally._spent.setdefault(model, []).append(usage)
            tally.model_calls += 1
            tally = tally.outer

    def add_tool_call(self, path: str) -> None:
        tally: Tally | None = self
        while tally is not None:
            for ended in tally.ended:
                ended.add(path)
            tally.tool_calls += 1
            tally = tally.outer

    def recall(self, result: object) -> None:
        """Tell the budgets in effect of the recorded result of a tool call; there are none here."""

    @property
    def by_model(self) -> dict[str, Usage]:
        sums: dict[str, Usage] = {}
        for model, usages in [*self._spent.items()]:
            count = len(usages)  # a thread may add more meanwhile
            sums[model] = sum_of(*usages[:count])
            usages[:count] = [sums[model]]
        return sums

    @property
    def usage(self) -> Usage:
        return sum_of(*self.by_model.values())


def tally_of(journal: RunRecord) -> Tally:
    tally = Tally()
    for tried, costs in journal.spent(""):
        for cost in costs:
            tally.add(cost, tried.name)
    return tally


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text: a quarter of its characters, rounded down, at least 1 unless empty."""
    return max(1, len(text) // 4) if text else 0


_KNOWN_AS = {"openai-responses": "openai", "xai": "x-ai", "gemini": "google"}


@checked
def cost(usage: Usage, model: str, *, at: datetime | None = None) -> Decimal | None:
    """Return what a model call has cost, by the list prices of its provider.

    Cached tokens: `usage.input` counts all input tokens. Of these, `cache_read` and `cache_write` are charged at their
    own prices and the rest at the full price. If the provider has no such price, or the counts are unknown, they are
    charged in full, so the result is at most too high.

    Use it for one call: where a price depends on the length of a request, the sum of several would be charged wrongly.
    For a run, see `AgentRun.cost`.

    Args:
        model: The name of the model, as ``provider:model``; without a provider, it is derived from the name. ``demo``
            and ``local:model`` run in this process and cost nothing.
        at: The time of the call, as prices change.

    Returns:
        US dollars; None if the model or one of its prices is not listed, or the token counts are unknown.

    Raises:
        ConfigurationError: an argument has a wrong type.
        MissingExtra: the extra ``prices`` is not installed.

    >>> cost(Usage(input=1_000_000, output=0), "openai:gpt-4o") == Decimal("2.5")
    True
    """
    if _is_local(model):
        return Decimal(0)
    price = _calculated(usage, model, at)
    return None if price is None else Decimal(price.total_price)


def price_of_calls(usage: Usage, model: str) -> Decimal | None:
    if usage == _NOTHING or _is_local(model):  # an answer from a cache, or of a model in this process
        return Decimal(0)
    price, calls = _calculated(usage, model), usage.requests
    if price is None:
        return None
    if calls > 1 and any(isinstance(each, _library().types.TieredPrices) for each in vars(price.model_price).values()):
        mean = Usage(*[figure and figure // calls for figure in msgspec.structs.astuple(sum_of(usage))])
        each = price_of_calls(mean, model)
        return None if each is None else each * calls
    return Decimal(price.total_price)


def total_of(usages: Mapping[str, Usage]) -> Decimal | None:
    """Return what the usage of several models has cost together; None, with a warning once, without known prices."""
    try:
        prices = [price_of_calls(usage, model) for model, usage in usages.items()]
    except errors.MissingExtra as error:
        warn_once(f"the cost is None: {error}")
        return None
    return sum([price for price in prices if price is not None], Decimal(0)) if None not in prices else None


def cost_text(usages: Mapping[str, Usage]) -> str:
    if not any(usage.total for usage in usages.values()):
        return ""
    try:
        prices = [price_of_calls(usage, model) for model, usage in usages.items()]
    except errors.MissingExtra:
        return "unpriced"
    return dollars(prices)


def dollars(prices: Sequence[Decimal | None]) -> str:
    """Return the sum of prices as text, which says whether some are unknown."""
    known = [price for price in prices if price is not None]
    if not known:
        return "unpriced"
    return f"{'at least ' if len(known) < len(prices) else ''}${sum(known, Decimal(0)).normalize():f}"


def _is_local(name: str) -> bool:
    return name.partition(":")[0] in ("demo", "local")


def _calculated(usage: Usage, model: str, at: datetime | None = None) -> Any:
    library = _library()
    if usage.input is None or usage.output is None:
        return None
    name, provider = _split_name(model)
    tokens = library.Usage(
        input_tokens=usage.input,
        output_tokens=usage.output,
        cache_read_tokens=usage.cache_read,
        cache_write_tokens=usage.cache_write,
    )
    try:
        price = library.calc_price(tokens, name, provider_id=provider, genai_request_timestamp=at)
    except (LookupError, ValueError):  # the model is not listed, or more tokens were cached than read
        return None
    prices = price.model_price
    if (usage.input and prices.input_mtok is None) or (usage.output and prices.output_mtok is None):
        return None  # the library counts a price that is not listed as zero
    return price


def _split_name(model: str) -> tuple[str, str | None]:
    """Return the model's own name and its provider, as far as a name says it."""
    provider, colon, name = model.partition(":")
    if colon and (provider.isidentifier() or provider == "openai-responses"):
        return name, _KNOWN_AS.get(provider, provider)
    return model, None


def _library() -> Any:
    try:
        import genai_prices
    except ImportError as error:
        raise errors.MissingExtra("The price of a call", "prices") from error
    return genai_prices


_PositiveDecimal = Annotated[Decimal, Meta(gt=0)]

ASSUMED_OUTPUT = 1024  # tokens reserved for a reply without `max_tokens`, until a longer reply has been seen

Price = Callable[[str, Usage], float | Decimal | None]
"""Returns the cost of a call from the model's name and the usage; None if the price is unknown."""


class Budget(CheckedStruct, frozen=True):
    """Limits on what an agent and all agents below it spend together::

        Agent(model, tools=[search], budget=Budget(tokens=50_000, cost=0.25, tools={"search": 3}))

    Before a model call its estimated maximum is reserved, so concurrent calls cannot overspend. A run whose next
    model call would exceed the budget stops with `BudgetExceeded` and the result so far. What was spent is read from
    the run's record, failed tries included, so it survives a suspension.

    Time is not part of a budget: a budget refuses calls before they start, but a time limit must stop running ones.
    Use ``Agent(timeout=...)``, which also applies to all agents below.

    Attributes:
        tokens: Input and output together. If a provider states no usage, it is estimated; see `Usage`.
        input: Input tokens alone, cached ones included.
        output: Output tokens alone, reasoning included.
        requests: Model calls.
        tool_calls: Tool calls. Further ones are refused, with a result that tells the model so, and the run stops
            once the results of that step are complete.
        steps: Steps of all loops together; ``max_steps`` limits each agent separately.
        cost: Money, in the currency of `price`.
        tools: Calls of each tool, by its name. Further ones are refused, and the run continues.
        price: Returns the cost of a call. An `Agent` uses the providers' list prices in US dollars by default.
    """

    tokens: PositiveInt | None = None
    input: PositiveInt | None = None
    output: PositiveInt | None = None
    requests: PositiveInt | None = None
    tool_calls: PositiveInt | None = None
    steps: PositiveInt | None = None
    cost: PositiveFloat | _PositiveDecimal | None = None
    tools: Annotated[Mapping[str, PositiveInt], Meta(description="such as {'search': 3}")] = {}
    price: Annotated[Price, Meta(description="called with the name of a model and a Usage")] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if all(getattr(self, name) is None for name in _LIMITS) and not self.tools:
            named = ", ".join(f"{name}=..." for name in _LIMITS)
            raise errors.ConfigurationError(
                f"Budget() limits nothing: give {named} or tools={{...}}; for time there is Agent(timeout=...)"
            )


TOKENS_AND_REQUESTS: Mapping[str, Callable[[Usage], int]] = {
    "tokens": lambda usage: usage.total,
    "input": lambda usage: usage.input or 0,
    "output": lambda usage: usage.output or 0,
    "requests": lambda usage: usage.requests,
}
"""What each limit on the usage of model calls counts, by its name in `Budget`; `cost` needs a price, too."""

_LIMITS = (*TOKENS_AND_REQUESTS, "tool_calls", "steps", "cost")


def limits_of(budget: Budget) -> dict[str, float]:
    limits: dict[str, float] = {
        name: limit for name in TOKENS_AND_REQUESTS if (limit := getattr(budget, name)) is not None
    }
    if budget.cost is not None:
        if budget.price is None:
            raise errors.ConfigurationError(
                "Budget(cost=...) needs a price=..., a function of a model's name and a Usage, "
                "such as ziggurat.observe.cost"
            )
        limits["cost"] = float(budget.cost)
    return limits


def request_tokens(request: "ModelRequest") -> int:
    tools = _tokens_of_tools(request) if request.tools else 0
    instructions = estimate_tokens(request.instructions) if request.instructions else 0
    return request.messages.size() // 4 + instructions + tools


def _tokens_of_tools(request: "ModelRequest") -> int:
    # Noted with the conversation, as its tools are mostly those of the call before, and their schemas are long.
    known: list[Any] = request.messages.note("tokens of tools", lambda: [None, 0])
    if known[0] is not request.tools:
        known[:] = [request.tools, len(encode(request.tools)) // 4]
    return int(known[1])


def expected_usage(request: "ModelRequest", longest: int = ASSUMED_OUTPUT) -> Usage:
    """Estimate the maximum usage of a call: the request's length, and the longest reply allowed or seen so far."""
    return Usage(request_tokens(request), request.settings.max_tokens or longest, requests=1, estimated=True)


def expected_tokens(request: "ModelRequest") -> int:
    """Estimate the maximum tokens of a request and its reply: the request's length plus the longest reply allowed."""
    return expected_usage(request).total


def used_tokens(outcome: object) -> int | None:
    """Return the tokens that a response or an error says were used, or None, for ``rate_limit(measure=...)``."""
    usage = getattr(outcome, "usage", None)
    if not isinstance(usage, Usage) or (usage.input is None and usage.output is None):
        return None
    return usage.total


_ONE_CALL = Usage(requests=1)
_REFUSED = Usage(0, 0, requests=1)

_NOT_SENT = (
    errors.LimitExceeded,
    errors.Denied,
    errors.InvalidArguments,
    errors.CallerError,
    errors.JournalError,
    errors.Suspend,
)
"""Errors that say that nothing was sent to the model."""

_REFUSALS = frozenset(
    ("authentication", "permission", "not_found", "invalid_request", "context_overflow", "rate_limited", "overloaded")
)
"""The kinds of failure in which a model has read and written nothing."""


def with_usage(response: "ModelResponse", request: "ModelRequest") -> "ModelResponse":
    if _is_complete(response.usage):
        return response
    usage = _completed(response.usage, request_tokens(request), characters(response.message) // 4)
    return msgspec.structs.replace(response, usage=usage)


def cost_of(cost: object, expected: Usage) -> object | None:
    """Return what a try has cost whose usage or error is given; None if nothing was sent to the model."""
    if isinstance(cost, BaseException):
        if isinstance(cost, _NOT_SENT) or errors.fact_of(cost, "sent", bool) is False:
            return None
        partial = errors.fact_of(cost, "partial", Message)
        if partial is not None and partial.parts:
            expected = msgspec.structs.replace(expected, output=characters(partial) // 4)
        stated = errors.fact_of(cost, "usage", Usage) or (_REFUSED if _is_refusal(cost) else _ONE_CALL)
        cost = stated.spent_by(asked_of(cost))
    if not isinstance(cost, Usage) or _is_complete(cost):
        return cost
    return _completed(cost, expected.input or 0, expected.output or 0)


def _is_refusal(error: BaseException) -> bool:
    if not isinstance(error, errors.ModelError):
        return False
    return error.kind in _REFUSALS or ((error.status or 0) >= 400 and error.kind != "timeout")


def _is_complete(usage: object) -> bool:
    if not isinstance(usage, Usage):
        return False
    if usage.input is None or usage.output is None or not usage.requests:
        return usage == _NOTHING
    cached = (usage.cache_read or 0) + (usage.cache_write or 0)
    return cached <= usage.input and (usage.reasoning or 0) <= usage.output


def _completed(stated: object, read: int, written: int) -> Usage:
    """Return usage with tokens and requests; what was read and written takes the place of what it does not state."""
    usage = stated if isinstance(stated, Usage) else _ONE_CALL
    estimated = usage.estimated or usage.input is None or usage.output is None
    read = read if usage.input is None else usage.input
    written = written if usage.output is None else usage.output
    fits = (usage.cache_read or 0) + (usage.cache_write or 0) <= read  # a part is not larger than the whole
    cached = (usage.cache_read, usage.cache_write) if fits else (None, None)
    reasoning = usage.reasoning if (usage.reasoning or 0) <= written else None
    return Usage(read, written, *cached, reasoning, usage.requests or 1, usage.model, estimated)
