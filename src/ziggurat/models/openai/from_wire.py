"""Read a plain reply of Chat Completions."""

from typing import Any

import msgspec

from ziggurat.core.errors import ModelError
from ziggurat.messages.delta import Fold, PartDelta, TextDelta, ToolCallDelta, WholePart
from ziggurat.messages.model import FinishReason, ModelResponse
from ziggurat.models.http.dialect import Dialect
from ziggurat.models.http.failures import failure_of, redacted
from ziggurat.models.http.stated import read
from ziggurat.models.openai.reading import (
    arguments_of,
    content_deltas,
    finish_of,
    mark_cut_calls,
    media_deltas,
    part_of_audio,
    usage_of,
)
from ziggurat.models.openai.reasoning import signature_delta, thought_deltas
from ziggurat.models.openai.shapes import (
    ChatCompletion,
    Chunk,
    ReplyChoice,
    ReplyMessage,
    ToolPiece,
    name_of,
    usage_shape,
)

_DECODER = msgspec.json.Decoder(ChatCompletion)

_KEPT = ("service_tier", "system_fingerprint", "provider", "citations", "search_results")


def from_wire(body: bytes, dialect: Dialect) -> ModelResponse:
    """Read a whole reply of Chat Completions."""
    try:
        reply = read(_DECODER, body)
    except ValueError as error:
        raise _malformed(f"it is not a reply of {dialect.name}: {error}", body) from None
    if reply.error or reply.object == "error":
        raise failure_of(reply.error or {"message": reply.message}, dialect, status=200)
    choice = _chosen(reply, body)
    if choice.error:
        raise failure_of(choice.error, dialect, status=200)
    message = choice.message or ReplyMessage()
    deltas, custom = _deltas(message, dialect)
    fold = Fold()
    for delta in deltas:
        fold.push(delta)
    answer = fold.message()
    finish = finish_of(choice.finish_reason, calls=bool(answer.tool_calls), refused=bool(message.refusal))
    usage, own = usage_of(usage_shape(reply.usage))
    raw = raw_of(reply, finish, choice.finish_reason, choice.native_finish_reason)
    fields = {
        "usage": own,
        "refusal": message.refusal,
        "annotations": message.annotations,
        "transcript": message.audio.get("transcript") if isinstance(message.audio, dict) else None,
        "logprobs": choice.logprobs,
        "custom_calls": custom,
    }
    raw.update((name, value) for name, value in fields.items() if value)
    return ModelResponse(
        mark_cut_calls(answer, finish), finish, usage, reply.model or "", name_of(reply.id), raw or None
    )


def _malformed(why: str, body: bytes) -> ModelError:
    beginning = redacted(body[:200].decode("utf-8", "replace"))
    return ModelError(f"the reply cannot be read: {why}; it begins {beginning!r}", kind="malformed")


def _chosen(reply: ChatCompletion, body: bytes) -> ReplyChoice:
    choices = reply.choices
    if not choices:
        raise _malformed("it holds no choices", body)
    return next((choice for choice in choices if choice.index == 0), choices[0])


def raw_of(reply: ChatCompletion | Chunk, finish: FinishReason, end: str | None, native: str | None) -> dict[str, Any]:
    """Return the few provider-specific fields that are worth keeping."""
    raw: dict[str, Any] = {name: value for name in _KEPT if (value := getattr(reply, name))}
    if end != finish:
        raw["finish_reason"] = end
    if native and native != end:
        raw["native_finish_reason"] = native
    if (usage := usage_shape(reply.usage)) is not None and usage.cost is not None:
        raw["cost"] = usage.cost
    return raw


def _deltas(message: ReplyMessage, dialect: Dialect) -> tuple[list[PartDelta], list[str]]:
    """Return all parts of a message as deltas, and the ids of calls whose input is free text."""
    deltas: list[PartDelta] = []
    if message.reasoning_content or message.reasoning or message.reasoning_details:
        deltas.extend(thought_deltas(message.reasoning, message.reasoning_content, message.reasoning_details, dialect))
    deltas.extend(content_deltas(message.content))
    if message.refusal:
        deltas.append(TextDelta(message.refusal))
    if message.images:
        deltas.extend(media_deltas(message.images))
    sound = part_of_audio(message.audio, "audio/wav") if message.audio else None
    if sound is not None:
        deltas.append(WholePart(sound))
    signature = signature_delta(message.extra_content) if message.extra_content else None
    if signature is not None:
        deltas.append(signature)
    legacy = message.function_call
    if legacy is not None and legacy.name:
        deltas.append(ToolCallDelta(-1, arguments_of(legacy.arguments), "", legacy.name))
    custom: list[str] = []
    for index, call in enumerate(message.tool_calls or ()):
        deltas.extend(_call_deltas(index, call, custom))
    return deltas, custom


def _call_deltas(index: int, call: ToolPiece, custom: list[str]) -> list[PartDelta]:
    deltas: list[PartDelta] = []
    signature = signature_delta(call.extra_content) if call.extra_content else None
    if signature is not None:
        deltas.append(signature)
    function = call.function
    identity = name_of(call.id)
    if call.custom is not None and call.custom.name and (function is None or not function.name):
        custom.append(identity)
        deltas.append(ToolCallDelta(index, call.custom.input or "", identity, call.custom.name))
    elif function is not None:
        deltas.append(ToolCallDelta(index, arguments_of(function.arguments), identity, function.name or ""))
    return deltas
