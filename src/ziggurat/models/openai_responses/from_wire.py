"""Read a whole reply of the Responses API: the body of a plain call, or the last event of a stream."""

from typing import Any

import msgspec
from msgspec import Raw, Struct

from ziggurat.core.errors import ModelError
from ziggurat.messages.message import Fold, Message
from ziggurat.messages.model import FinishReason, ModelResponse
from ziggurat.messages.usage import Usage
from ziggurat.models.http.dialect import Dialect
from ziggurat.models.http.failures import failure_of
from ziggurat.models.http.stated import count, latest, part_of, read
from ziggurat.models.openai_responses.items import (
    Content,
    FunctionCall,
    Item,
    OtherItem,
    OutputMessage,
    deltas_of_items,
    item_of,
)


class _Incomplete(Struct, gc=False):
    reason: str | None = None


class ResponseObject(Struct):
    """The fields of a reply that are read."""

    id: str | None = None
    model: str | None = None
    status: str | None = None
    output: list[Raw] | None = None
    usage: Any = None
    error: Any = None
    incomplete_details: _Incomplete | None = None
    service_tier: str | None = None

    def items(self) -> list[Item]:
        return [item for raw in self.output or () if (item := item_of(raw)) is not None]


_INCOMPLETE: dict[str | None, FinishReason] = {"max_output_tokens": "length", "content_filter": "content_filter"}
_ANSWERED = ("completed", "complete", "incomplete")
"""The statuses of replies that contain an answer."""

_CUT = "your last reply was cut short within a tool call, which was not made; make it again, and briefly"
_PLAIN_TIERS = (None, "auto", "default")


def unreadable(dialect: Dialect, why: object) -> ModelError:
    return ModelError(f"{dialect.name} answered with something that is not a reply: {why}", kind="malformed")


def raise_failure(reply: ResponseObject, dialect: Dialect) -> None:
    """Raise the error that a reply reports instead of an answer, if any."""
    error: ModelError | None = None
    if reply.error is not None and reply.status not in _ANSWERED:
        error = failure_of(reply.error, dialect)
    elif reply.status in ("failed", "cancelled"):
        error = ModelError(f"{dialect.name}: the reply {reply.id or ''} {reply.status}", kind="server")
    if error is not None:
        error.usage = None if reply.usage is None else _usage_of(reply.usage)
        raise error
    if reply.status is None and reply.output is None:
        raise unreadable(dialect, "it has neither output nor status")


def response_of(reply: ResponseObject, items: list[Item], message: Message | None = None) -> ModelResponse:
    if message is None:
        fold = Fold()
        for delta in deltas_of_items(items):
            fold.push(delta)
        message = fold.message()
    contents = [each for item in items if isinstance(item, OutputMessage) for each in item.contents()]
    refusal = "".join([each.refusal or "" for each in contents])
    finish = "malformed" if _is_cut_within_a_call(reply, items) else _finish(reply, message, refusal)
    raw = _raw(reply, items, contents, refusal)
    if finish == "malformed":
        raw["malformed"] = _CUT
    return ModelResponse(message, finish, _usage_of(reply.usage), reply.model or "", reply.id or "", raw or None)


def _finish(reply: ResponseObject, message: Message, refusal: str) -> FinishReason:
    status = reply.status or "completed"
    if status == "incomplete":
        return _INCOMPLETE.get(reply.incomplete_details.reason if reply.incomplete_details else None, "other")
    if status not in ("completed", "complete"):
        return "other"
    if message.tool_calls:
        return "tool_calls"
    return "refusal" if refusal else "stop"


def _is_cut_within_a_call(reply: ResponseObject, items: list[Item]) -> bool:
    """Return whether a call's arguments may be incomplete; such a reply must not be acted on."""
    if reply.status != "incomplete" or not items:
        return False
    return isinstance(items[-1], FunctionCall) or any(
        isinstance(each, FunctionCall) and each.status != "completed" for each in items
    )


def _usage_of(stated: object) -> Usage:
    usage = latest({}, stated)
    given, written = part_of(usage, "input_tokens_details"), part_of(usage, "output_tokens_details")
    return Usage(
        count(usage.get("input_tokens")),
        count(usage.get("output_tokens")),
        count(given.get("cached_tokens")),
        count(given.get("cache_write_tokens")),
        count(written.get("reasoning_tokens")),
        requests=1,
    )


def _raw(reply: ResponseObject, items: list[Item], contents: list[Content], refusal: str) -> dict[str, Any]:
    """Return the fields without a place in the response; empty for most replies."""
    raw: dict[str, Any] = {}
    if reply.status != "completed":
        raw["status"] = reply.status
    if reply.incomplete_details is not None and reply.incomplete_details.reason is not None:
        raw["incomplete_reason"] = reply.incomplete_details.reason
    if reply.service_tier not in _PLAIN_TIERS:
        raw["service_tier"] = reply.service_tier
    if refusal:
        raw["refusal"] = refusal
    others = [msgspec.json.decode(item.written) for item in items if isinstance(item, OtherItem)]
    if others:
        raw["items"] = others
    annotations = [one for each in contents if isinstance(each.annotations, list) for one in each.annotations]
    if annotations:
        raw["annotations"] = annotations
    return raw


_reply = msgspec.json.Decoder(ResponseObject)


def from_wire(body: bytes, dialect: Dialect) -> ModelResponse:
    """Read a plain reply of the Responses API."""
    # A reply that was cut off within a call, such as by its length limit, finishes ``malformed``, because the call's
    # arguments are incomplete. ``raw["malformed"]`` is the text that tells the model.
    try:
        reply = read(_reply, body)
        raise_failure(reply, dialect)
        if reply.output is None and reply.status in _ANSWERED:
            raise unreadable(dialect, "it has no output")
        return response_of(reply, reply.items())
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise unreadable(dialect, error) from error
