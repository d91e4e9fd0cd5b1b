"""What a try of a model call has cost: as it was stated, completed by what can be known of it.

Unknown is not zero. If the model replied, its tokens are estimated from the texts; if it was refused, there are none;
otherwise the try has cost what budgets reserve for it.
"""

from msgspec.structs import replace

from ziggurat.core.errors import (
    CallerError,
    Denied,
    InvalidArguments,
    JournalError,
    LimitExceeded,
    ModelError,
    Suspend,
    fact_of,
)
from ziggurat.core.protocols import asked_of
from ziggurat.messages.budget import request_tokens
from ziggurat.messages.conversation import characters
from ziggurat.messages.message import Message
from ziggurat.messages.model import ModelRequest, ModelResponse
from ziggurat.messages.usage import Usage

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
