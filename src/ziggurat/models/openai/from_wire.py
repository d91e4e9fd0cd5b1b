"""Read a reply of Chat Completions: plain, or streamed, event by event.

A streamed reply is finished if the server sent a finish reason or ``[DONE]``; otherwise it was cut off. If only
``[DONE]`` was sent, calls whose arguments are not a JSON object count as cut off too.

Thoughts are read in the various forms of the dialects, and written back. Each of the ``reasoning_details``
(OpenRouter) becomes one `Thinking`: its text, signature or encrypted data unchanged, and everything else about it
(type, format, index, id) as JSON in the `id`, so that the list can be sent back unchanged and in order. Gemini's
signatures come before the tool call that they sign.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from ziggurat.core import codec
from ziggurat.core.codec import canonical
from ziggurat.core.errors import ModelError, StreamInterrupted
from ziggurat.http.sse import ServerEvent
from ziggurat.messages.message import (
    Fold,
    Message,
    PartDelta,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolCallDelta,
)
from ziggurat.messages.model import FinishReason, ModelResponse
from ziggurat.messages.usage import Usage
from ziggurat.models.brackets import Brackets
from ziggurat.models.http.dialect import Dialect
from ziggurat.models.http.failures import failure, failure_of, redacted
from ziggurat.models.http.fitting import is_object
from ziggurat.models.http.stated import count, latest, part_of, read


class FunctionPiece(Struct, gc=False):
    """A name and arguments; arguments are text, but some servers send an object."""

    name: str | None = None
    arguments: Any = None


class ToolPiece(Struct, gc=False):
    index: int | None = None
    id: str | int | None = None
    function: FunctionPiece | None = None
    extra_content: Any = None


class ChunkDelta(Struct, gc=False):
    role: Any = None
    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    tool_calls: list[ToolPiece] | None = None
    refusal: str | None = None
    reasoning_details: Any = None
    annotations: Any = None
    extra_content: Any = None


class Choice(Struct, gc=False):
    index: int | None = None
    finish_reason: str | None = None
    native_finish_reason: str | None = None
    error: Any = None
    delta: ChunkDelta | None = None
    message: ChunkDelta | None = None


class Chunk(Struct, gc=False):
    id: str | int | None = None
    model: str | None = None
    choices: list[Choice] | None = None
    usage: Any = None
    error: Any = None
    object: str | None = None
    message: Any = None
    service_tier: Any = None
    system_fingerprint: Any = None
    provider: Any = None
    citations: Any = None
    search_results: Any = None


def name_of(identity: str | int | None) -> str:
    return identity if isinstance(identity, str) else "" if identity is None else str(identity)


_FINISHES: dict[str, FinishReason] = {
    "stop": "stop",
    "eos": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
    "safety": "content_filter",
    "recitation": "content_filter",
    "refusal": "refusal",
    "malformed_function_call": "malformed",
    "error": "error",
    "insufficient_system_resource": "error",
}


def finish_of(native: str | None, *, calls: bool, refused: bool, unsaid: FinishReason) -> FinishReason:
    finish = _FINISHES.get(native.lower(), "other") if native else unsaid
    if finish in ("stop", "tool_calls", "other"):
        if calls:
            return "tool_calls"
        if refused:
            return "refusal"
        return "stop" if finish == "tool_calls" else finish
    return finish


def json_text(arguments: Any) -> str:
    if isinstance(arguments, str):
        return arguments
    return "" if arguments is None else msgspec.json.encode(arguments).decode()


def content_deltas(content: Any) -> list[PartDelta]:
    """Return the deltas of a message's content: a text, a list of parts, or (from a few servers) a JSON value."""
    if not isinstance(content, list):
        return [TextDelta(json_text(content))]
    deltas: list[PartDelta] = []
    for part in content:
        deltas.extend(_part_deltas(part))
    return deltas


def _part_deltas(part: Any) -> list[PartDelta]:
    if isinstance(part, str):
        return [TextDelta(part)] if part else []
    if not isinstance(part, dict):
        return []
    kind = part.get("type")
    if kind == "thinking":
        thought = part.get("thinking")
        parts = thought if isinstance(thought, list) else ()
        texts = [thought] if isinstance(thought, str) else [_text(each) for each in parts]
        value = part.get("signature")
        signature = value if isinstance(value, str) and value else None
        return [ThinkingDelta("".join(texts), signature)] if any(texts) or signature else []
    text = _text(part)
    return [TextDelta(text)] if text else []


def _text(part: Any) -> str:
    text = part.get("text") or part.get("refusal") if isinstance(part, dict) else None
    return text if isinstance(text, str) else ""


def mark_cut_calls(message: Message, finish: FinishReason) -> Message:
    """Return a message in which a call cut off before its arguments cannot pass for a call without arguments."""
    if finish in ("stop", "tool_calls") or not any(call.arguments == "" for call in message.tool_calls):
        return message
    parts = [
        msgspec.structs.replace(part, arguments="{") if isinstance(part, ToolCall) and part.arguments == "" else part
        for part in message.parts
    ]
    return msgspec.structs.replace(message, parts=tuple(parts))


_CACHED = ("prompt_cache_hit_tokens", "num_cached_tokens", "cached_tokens", "cache_read_input_tokens")
"""The fields in which some dialects report cached tokens."""


def usage_of(shape: dict[str, Any]) -> tuple[Usage, dict[str, Any] | None]:
    """Return the usage of one call, and the provider's own figures if they had to be changed."""
    # One rule for every provider: `input` includes cached tokens, `output` includes reasoning, and their sum is the
    # total that the provider states.
    details, written = part_of(shape, "prompt_tokens_details"), part_of(shape, "completion_tokens_details")
    given, output = count(shape.get("prompt_tokens")), count(shape.get("completion_tokens"))
    cached, reasoning = count(details.get("cached_tokens")), count(written.get("reasoning_tokens"))
    cached_elsewhere = next((shape[name] for name in _CACHED if shape.get(name) is not None), None)
    cache_write = details.get("cache_write_tokens")
    usage = Usage(
        given,
        output,
        cached if cached is not None else count(cached_elsewhere),
        count(cache_write if cache_write is not None else shape.get("cache_creation_input_tokens")),
        reasoning if reasoning is not None else count(shape.get("reasoning_tokens")),
        1,
    )
    total = count(shape.get("total_tokens"))
    missing = 0 if given is None or output is None or total is None else max(0, total - given - output)
    if missing and missing == details.get("audio_tokens"):
        usage = msgspec.structs.replace(usage, input=(given or 0) + missing)
    elif missing:  # reasoning that only the total includes
        usage = msgspec.structs.replace(usage, output=(output or 0) + missing)
    if not missing and usage.cache_read == cached and usage.reasoning == reasoning:
        return usage, None
    own = {"input": given, "output": output, "cached": cached, "reasoning": reasoning}
    return usage, {name: value for name, value in own.items() if value is not None}


class _Call:
    __slots__ = ("_brackets", "begun", "id", "index", "name", "pieces", "whole")

    def __init__(self, index: int) -> None:
        self.index = index
        self.id = self.name = ""
        self.pieces: list[str] = []
        self.begun = False  # whether any of its arguments have arrived
        self._brackets: Brackets | None = Brackets()  # until the end of the arguments is found
        self.whole = False

    def add(self, arguments: str) -> None:
        self.pieces.append(arguments)
        self.begun = self.begun or arguments != ""
        if self._brackets is None:
            self.whole = self.whole and not arguments.strip()
        elif self._brackets.end_in(arguments) is not None:
            self._brackets = None
            self.whole = is_object("".join(self.pieces))


class CallReader:
    """Numbers the calls of one reply, whatever indices the server uses."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._by_id: dict[str, _Call] = {}

    def read(self, pieces: Sequence[ToolPiece]) -> list[PartDelta]:
        deltas: list[PartDelta] = []
        for piece in pieces:
            signature = signature_delta(piece.extra_content) if piece.extra_content else None
            if signature is not None:
                deltas.append(signature)
            deltas.append(self._delta(piece.index, name_of(piece.id), piece.function or FunctionPiece()))
        return deltas

    def _delta(self, index: int | None, identity: str, function: FunctionPiece) -> ToolCallDelta:
        name, arguments = function.name or "", json_text(function.arguments)
        call = self._known(index, identity, name, arguments) or self._begun(index)
        fresh_id = identity if not call.id else ""
        fresh_name = name if not call.name else ""
        call.id = call.id or identity
        call.name = call.name or name
        if fresh_id:
            self._by_id[fresh_id] = call
        call.add(arguments)
        return ToolCallDelta(call.index, arguments, fresh_id, fresh_name)

    def _begun(self, index: int | None) -> _Call:
        call = _Call(len(self._calls))
        self._calls.append(call)
        if index is not None:
            self._by_index[index] = call
        return call

    def _known(self, index: int | None, identity: str, name: str, arguments: str) -> _Call | None:
        """Return the call that a piece continues, or None if it begins another."""
        call = self._by_index.get(index) if index is not None else None
        if identity and (index is None or call is not None):
            same = self._by_id.get(identity)
            if same is not None:
                return same
        if index is None:
            call = self._calls[-1] if self._calls else None
            if call is None or (identity and call.id):
                return None
        if call is None or not name:
            return call
        if identity and call.id and identity != call.id:
            return call if name == call.name and call.begun and not call.whole else None
        if name != call.name and call.name:
            return None
        return None if call.name and arguments and call.whole else call


_DECODER = codec.decoder(Chunk)

_KEPT = ("service_tier", "system_fingerprint", "provider", "citations", "search_results")


def from_wire(body: bytes, dialect: Dialect) -> ModelResponse:
    try:
        reply = read(_DECODER, body)
    except ValueError as error:
        raise _malformed(f"it is not a reply of {dialect.name}: {error}", body) from None
    if reply.error or reply.object == "error":
        raise failure_of(reply.error or {"message": reply.message}, dialect, status=200)
    if not reply.choices:
        raise _malformed("it holds no choices", body)
    choice = next((choice for choice in reply.choices if choice.index == 0), reply.choices[0])
    return Reader(dialect).whole(reply, choice)


def _malformed(why: str, body: bytes) -> ModelError:
    beginning = redacted(body[:200].decode("utf-8", "replace"))
    return ModelError(f"the reply cannot be read: {why}; it begins {beginning!r}", kind="malformed")


class Reader:
    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._fold = Fold()
        self._calls = CallReader()
        self._usage: dict[str, Any] = {}
        self._ids: list[str] = ["", ""]  # the reply's id and model
        self._kept = Chunk()
        self._finish: str | None = None
        self._native: str | None = None
        self._done = False
        self._broken: str | None = None  # an event that could not be read; if it is the last, it was cut off
        self._refusal: list[str] = []
        self._annotations: Any = None

    def push(self, event: ServerEvent) -> list[PartDelta]:
        data = event.data
        if data[:1] != "{":
            if not data or data.isspace():
                return []
            if data.strip() == "[DONE]":
                self._done = True
                return []
        if self._broken is not None:
            start = redacted(self._broken[:200])
            unread = f"an event of {self._dialect.name}'s stream cannot be read: {start!r}"
            raise self._with_partial(ModelError(unread, kind="malformed"))
        if event.event == "error":
            raise self._with_partial(failure(None, {}, data, self._dialect))
        try:
            chunk = read(_DECODER, data)
        except ValueError:
            self._broken = data
            return []
        if chunk.usage is not None:
            self._usage = latest(self._usage, chunk.usage)
        if chunk.error or chunk.object == "error":
            raise self._with_partial(failure_of(chunk.error or {"message": chunk.message}, self._dialect))
        choice = next((each for each in chunk.choices or () if not each.index), None)
        if choice is not None and self._begins_anew(chunk, choice):
            raise self._interrupted("another reply began in its stream")
        self._note(chunk)
        return [] if choice is None else self._read(choice)

    def _begins_anew(self, chunk: Chunk, choice: Choice) -> bool:
        """Return whether a chunk begins another reply, as of a gateway that asks again while the first one streams."""
        known, begins = self._ids[0], choice.delta is not None and choice.delta.role is not None
        another = begins and known and chunk.id and name_of(chunk.id) != known
        return bool(another and self._fold.message().parts)

    def _note(self, chunk: Chunk) -> None:
        """Keep the fields of the reply as a whole: the first id and model, and the latest of the rest."""
        ids = self._ids
        if not ids[0]:
            ids[0] = name_of(chunk.id)
        if not ids[1]:
            ids[1] = chunk.model or ""
        if not self._kept.id or chunk.citations or chunk.search_results:
            self._kept = chunk

    def _read(self, choice: Choice) -> list[PartDelta]:
        if choice.error:
            raise self._with_partial(failure_of(choice.error, self._dialect))
        delta = choice.delta
        deltas: list[PartDelta] = [] if delta is None else self._deltas(delta)
        if choice.finish_reason:
            self._finish = choice.finish_reason
            self._native = choice.native_finish_reason
        push = self._fold.push
        for each in deltas:
            push(each)
        return deltas

    def _deltas(self, delta: ChunkDelta) -> list[PartDelta]:
        deltas: list[PartDelta] = []
        if delta.reasoning_content or delta.reasoning or delta.reasoning_details:
            thoughts = (delta.reasoning, delta.reasoning_content, delta.reasoning_details)
            deltas.extend(thought_deltas(*thoughts, self._dialect))
        if delta.content:
            deltas.extend(content_deltas(delta.content))
        if delta.refusal:
            self._refusal.append(delta.refusal)
            deltas.append(TextDelta(delta.refusal))
        if delta.tool_calls:
            deltas.extend(self._calls.read(delta.tool_calls))
        if delta.annotations:
            self._annotations = delta.annotations
        signature = signature_delta(delta.extra_content) if delta.extra_content else None
        if signature is not None:
            deltas.append(signature)
        return deltas

    def _interrupted(self, why: str) -> ModelError:
        return self._with_partial(StreamInterrupted(f"the reply of {self._dialect.name} was cut: {why}"))

    def _with_partial(self, error: ModelError) -> ModelError:
        """Add the message so far to an error, without calls that are not whole, and the usage if there is any."""
        message = self._fold.message()
        parts = [part for part in message.parts if not isinstance(part, ToolCall) or is_object(part.arguments)]
        error.partial = msgspec.structs.replace(message, parts=tuple(parts))
        if self._usage:
            error.usage = usage_of(self._usage)[0]
        return error

    def finish(self) -> ModelResponse:
        why = self._cut(self._fold.message().tool_calls)
        if why:
            raise self._interrupted(why)
        return self._response("other")

    def whole(self, reply: Chunk, choice: Choice) -> ModelResponse:
        """Return the response of a plain reply, which is read as the one chunk of a stream."""
        choice.delta = choice.message
        for index, call in enumerate((choice.message or ChunkDelta()).tool_calls or ()):
            call.index = index
        self._usage = latest({}, reply.usage)
        self._note(reply)
        self._read(choice)
        return self._response("stop")

    def _response(self, unsaid: FinishReason) -> ModelResponse:
        message, refusal = self._fold.message(), "".join(self._refusal)
        finish = finish_of(self._finish, calls=bool(message.tool_calls), refused=bool(refusal), unsaid=unsaid)
        usage, own = usage_of(self._usage)
        raw = {name: value for name in _KEPT if (value := getattr(self._kept, name))}
        if self._finish != finish:
            raw["finish_reason"] = self._finish
        if self._native and self._native != self._finish:
            raw["native_finish_reason"] = self._native
        if "cost" in self._usage:
            raw["cost"] = self._usage["cost"]
        further = {"usage": own, "refusal": refusal, "annotations": self._annotations}
        raw.update((name, value) for name, value in further.items() if value)
        identity, name = self._ids
        return ModelResponse(mark_cut_calls(message, finish), finish, usage, name, identity, raw or None)

    def _cut(self, calls: tuple[ToolCall, ...]) -> str:
        if self._broken is not None:
            return "its last event is not whole"
        if self._finish:
            return ""
        if not self._done:
            return "it ended without a reason"
        if any(not is_object(call.arguments) for call in calls):
            return "the arguments of a tool call are not whole"
        return ""


GOOGLE = "google"  # the id of a thought that is only Google's signature of the tool call (or the text) after it

RECEIVED = {"reasoning-content": "reasoning_content", "reasoning": "reasoning"}
"""The ids of thoughts that are sent back in the field in which they came, with these fields; no item has such an id."""

_TEXTS = ("text", "summary")
_ABOUT = codec.decoder(dict[str, Any])


def thought_deltas(reasoning: Any, content: Any, details: Any, dialect: Dialect) -> list[ThinkingDelta]:
    """Return the thoughts of a message or chunk as deltas; a thought repeated in two fields counts once."""
    deltas = detail_deltas(details) if details else []
    if any(delta.text for delta in deltas):
        return deltas
    said = isinstance(content, str) and content
    mark, text = ("reasoning-content", content) if said else ("reasoning", reasoning)
    if isinstance(text, str) and text:
        deltas.insert(0, ThinkingDelta(text, id=mark if dialect.reasoning_reply == "received" else None))
    return deltas


def detail_deltas(details: Any) -> list[ThinkingDelta]:
    if not isinstance(details, list):
        return []
    return [_detail(each) for each in details if isinstance(each, dict)]


def _detail(detail: dict[str, Any]) -> ThinkingDelta:
    text = next((detail[name] for name in _TEXTS if isinstance(detail.get(name), str)), "")
    signature, data = detail.get("signature"), detail.get("data")
    about = {name: value for name, value in detail.items() if name not in (*_TEXTS, "signature", "data")}
    return ThinkingDelta(
        text,
        signature if isinstance(signature, str) else None,
        data if isinstance(data, str) else None,
        canonical(about).decode(),
    )


def details_of(thoughts: list[Thinking]) -> list[dict[str, Any]]:
    """Return the original ``reasoning_details``; thoughts from other fields are left out."""
    return [_rebuilt(thought, about) for thought in thoughts if (about := _about(thought.id)) is not None]


def _about(identity: str | None) -> dict[str, Any] | None:
    if identity is None or not identity.startswith("{"):
        return None
    try:
        return _ABOUT.decode(identity)
    except msgspec.DecodeError:
        return None


def _rebuilt(thought: Thinking, about: dict[str, Any]) -> dict[str, Any]:
    kind = about.get("type", "")
    rebuilt: dict[str, Any] = {"type": kind}
    if kind == "reasoning.summary":
        rebuilt["summary"] = thought.text
    elif thought.text or thought.redacted is None:
        rebuilt["text"] = thought.text
    if thought.redacted is not None:
        rebuilt["data"] = thought.redacted
    if thought.signature is not None:
        rebuilt["signature"] = thought.signature
    return {**rebuilt, **about}


def signature_delta(extra_content: Any) -> ThinkingDelta | None:
    google = extra_content.get("google") if isinstance(extra_content, dict) else None
    signature = google.get("thought_signature") if isinstance(google, dict) else None
    return ThinkingDelta("", signature, None, GOOGLE) if isinstance(signature, str) else None
