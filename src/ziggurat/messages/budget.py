"""Budget: limits on what a run and all agents below it spend together, and what a try of a model call has cost."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Annotated, Any

from msgspec import Meta
from msgspec.structs import replace

from ziggurat.core.codec import encode
from ziggurat.core.errors import (
    CallerError,
    ConfigurationError,
    Denied,
    InvalidArguments,
    JournalError,
    LimitExceeded,
    ModelError,
    Suspend,
    fact_of,
)
from ziggurat.core.failures import asked_of
from ziggurat.core.settings import CheckedStruct, PositiveFloat, PositiveInt
from ziggurat.messages.conversation import characters
from ziggurat.messages.message import Message
from ziggurat.messages.model import ModelRequest, ModelResponse
from ziggurat.messages.usage import Usage, estimate_tokens

_PositiveDecimal = Annotated[Decimal, Meta(gt=0)]

ASSUMED_OUTPUT = 1024
"""Tokens reserved for a reply without `max_tokens`, until a longer reply has been seen."""

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
            raise ConfigurationError(
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
    """Return the limits on the usage of model calls that a budget sets, by name: tokens, requests and cost."""
    limits: dict[str, float] = {
        name: limit for name in TOKENS_AND_REQUESTS if (limit := getattr(budget, name)) is not None
    }
    if budget.cost is not None:
        if budget.price is None:
            raise ConfigurationError(
                "Budget(cost=...) needs a price=..., a function of a model's name and a Usage, "
                "such as ziggurat.observe.cost"
            )
        limits["cost"] = float(budget.cost)
    return limits


def request_tokens(request: ModelRequest) -> int:
    """Estimate the tokens of a request: its messages, instructions and tools."""
    tools = _tokens_of_tools(request) if request.tools else 0
    return request.messages.size() // 4 + estimate_tokens(request.instructions or "") + tools


def _tokens_of_tools(request: ModelRequest) -> int:
    # Noted with the conversation, as its tools are mostly those of the call before, and their schemas are long.
    known: list[Any] = request.messages.note("tokens of tools", list)
    if not known or known[0] is not request.tools:
        known[:] = [request.tools, len(encode(request.tools)) // 4]
    return int(known[1])


def expected_usage(request: ModelRequest, longest: int = ASSUMED_OUTPUT) -> Usage:
    """Estimate the maximum usage of a call: the request's length, and the longest reply allowed or seen so far."""
    return Usage(request_tokens(request), request.settings.max_tokens or longest, requests=1, estimated=True)


def expected_tokens(request: ModelRequest) -> int:
    """Estimate the maximum tokens of a request and its reply: the request's length plus the longest reply allowed."""
    return expected_usage(request).total


def used_tokens(outcome: object) -> int | None:
    """Return the tokens used by a response or a failed call; None if unknown."""
    usage = getattr(outcome, "usage", None)
    if not isinstance(usage, Usage) or (usage.input is None and usage.output is None):
        return None
    return usage.total


_NOTHING = Usage()
_ONE_CALL = Usage(requests=1)
_REFUSED = Usage(0, 0, requests=1)

_NOT_SENT = (LimitExceeded, Denied, InvalidArguments, CallerError, JournalError, Suspend)
"""Errors that say that nothing was sent to the model."""

_REFUSALS = frozenset(
    ("authentication", "permission", "not_found", "invalid_request", "context_overflow", "rate_limited", "overloaded")
)
"""The kinds of failure in which a model has read and written nothing."""


def with_usage(response: ModelResponse, request: ModelRequest) -> ModelResponse:
    """Return a reply with complete usage; what is not stated is estimated from the texts."""
    if _is_complete(response.usage):
        return response
    usage = _completed(response.usage, request_tokens(request), _tokens(response.message))
    return replace(response, usage=usage)


def cost_of(cost: object, expected: Usage) -> object | None:
    """Return what a try has cost whose usage or error is given; None if nothing was sent to the model.

    Args:
        cost: The usage or the error, or the usage of a service that counts otherwise.
        expected: What is reserved for the try.
    """
    if isinstance(cost, BaseException):
        if isinstance(cost, _NOT_SENT) or fact_of(cost, "sent", bool) is False:
            return None
        partial = fact_of(cost, "partial", Message)
        if partial is not None and partial.parts:
            expected = replace(expected, output=_tokens(partial))
        stated = fact_of(cost, "usage", Usage) or (_REFUSED if _is_refusal(cost) else _ONE_CALL)
        cost = stated.spent_by(asked_of(cost))
    return _completed(cost, expected.input or 0, expected.output or 0) if isinstance(cost, Usage) else cost


def _is_refusal(error: BaseException) -> bool:
    """Return whether an error is the model's own reply, which it has given without reading or writing anything."""
    if not isinstance(error, ModelError):
        return False
    return error.kind in _REFUSALS or ((error.status or 0) >= 400 and error.kind != "timeout")


def _is_complete(usage: object) -> bool:
    """Return whether usage says what one or several calls have used, or that nothing was used."""
    if not isinstance(usage, Usage):
        return False
    if usage.input is None or usage.output is None or not usage.requests:
        return usage == _NOTHING
    cached = (usage.cache_read or 0) + (usage.cache_write or 0)
    return cached <= usage.input and (usage.reasoning or 0) <= usage.output


def _completed(stated: object, read: int, written: int) -> Usage:
    """Return usage with tokens and requests; what was read and written takes the place of what it does not state."""
    usage = stated if isinstance(stated, Usage) else _ONE_CALL
    if _is_complete(usage):
        return usage
    estimated = usage.estimated or usage.input is None or usage.output is None
    read = read if usage.input is None else usage.input
    written = written if usage.output is None else usage.output
    fits = (usage.cache_read or 0) + (usage.cache_write or 0) <= read  # a part is not larger than the whole
    cached = (usage.cache_read, usage.cache_write) if fits else (None, None)
    reasoning = usage.reasoning if (usage.reasoning or 0) <= written else None
    return Usage(read, written, *cached, reasoning, usage.requests or 1, usage.model, estimated)


def _tokens(message: Message) -> int:
    return characters(message) // 4 if message.parts else 0
