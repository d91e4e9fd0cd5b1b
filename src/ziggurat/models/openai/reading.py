"""The JSON of Chat Completions replies with tolerant types, and its parts: text, calls, usage, the finish reason."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from ziggurat.messages.message import Message, PartDelta, TextDelta, ThinkingDelta, ToolCall, ToolCallDelta
from ziggurat.messages.model import FinishReason
from ziggurat.messages.usage import Usage
from ziggurat.models.brackets import Brackets
from ziggurat.models.http.fitting import is_object
from ziggurat.models.http.stated import count, usage_as
from ziggurat.models.openai.reasoning import signature_delta


class FunctionPiece(Struct, gc=False):
    """A name and arguments; arguments are text, but some servers send an object."""

    name: str | None = None
    arguments: Any = None


class ToolPiece(Struct, gc=False):
    index: int | None = None
    id: str | int | None = None
    function: FunctionPiece | None = None
    extra_content: Any = None


class Details(Struct, gc=False):
    cached_tokens: Any = None
    cache_write_tokens: Any = None
    audio_tokens: Any = None
    reasoning_tokens: Any = None


class UsageShape(Struct, gc=False):
    """Usage, with the fields in which various dialects report cached tokens."""

    prompt_tokens: Any = None
    completion_tokens: Any = None
    total_tokens: Any = None
    prompt_tokens_details: Details | None = None
    completion_tokens_details: Details | None = None
    prompt_cache_hit_tokens: Any = None
    num_cached_tokens: Any = None
    cached_tokens: Any = None
    cache_read_input_tokens: Any = None
    cache_creation_input_tokens: Any = None
    reasoning_tokens: Any = None
    cost: Any = None


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
    """A choice of a reply, streamed or whole; only the first is read."""

    index: int | None = None
    finish_reason: str | None = None
    native_finish_reason: str | None = None
    error: Any = None
    delta: ChunkDelta | None = None
    message: ChunkDelta | None = None


class Chunk(Struct, gc=False):
    """A chunk of a stream, or a whole reply."""

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
    """Return an id as text; empty for none."""
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


def finish_of(native: str | None, *, calls: bool, refused: bool, unsaid: FinishReason = "stop") -> FinishReason:
    """Return why a reply ended; `unsaid` if the provider gave no reason."""
    finish = _FINISHES.get(native.lower(), "other") if native else unsaid
    if finish in ("stop", "tool_calls", "other"):
        if calls:
            return "tool_calls"
        if refused:
            return "refusal"
        return "stop" if finish == "tool_calls" else finish
    return finish


def arguments_of(arguments: Any) -> str:
    """Return arguments as JSON text; text is returned unchanged."""
    if isinstance(arguments, str):
        return arguments
    return "" if arguments is None else msgspec.json.encode(arguments).decode()


def content_deltas(content: Any) -> list[PartDelta]:
    """Return the deltas of a message's content: a text, a list of parts, or (from a few servers) a JSON value."""
    if isinstance(content, str):
        return [TextDelta(content)] if content else []
    if not isinstance(content, list):
        return [] if content is None else [TextDelta(msgspec.json.encode(content).decode())]
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


_NONE = Details()


def usage_of(shape: UsageShape | None) -> tuple[Usage, dict[str, Any] | None]:
    """Return the usage of one call, and the provider's own figures if they had to be changed."""
    # One rule for every provider: `input` includes cached tokens, `output` includes reasoning, and their sum is the
    # total that the provider states.
    if shape is None:
        return Usage(requests=1), None
    read = shape.prompt_tokens_details or _NONE
    written = shape.completion_tokens_details or _NONE
    given, output = count(shape.prompt_tokens), count(shape.completion_tokens)
    cached, reasoning = count(read.cached_tokens), count(written.reasoning_tokens)
    usage = Usage(
        given,
        output,
        cached if cached is not None else _cached_elsewhere(shape),
        count(read.cache_write_tokens if read.cache_write_tokens is not None else shape.cache_creation_input_tokens),
        reasoning if reasoning is not None else count(shape.reasoning_tokens),
        1,
    )
    missing = _missing(shape)
    if missing:
        usage = _completed(usage, missing, read.audio_tokens)
    if not missing and usage.cache_read == cached and usage.reasoning == reasoning:
        return usage, None
    own = {"input": given, "output": output, "cached": cached, "reasoning": reasoning}
    return usage, {name: value for name, value in own.items() if value is not None}


def _cached_elsewhere(shape: UsageShape) -> int | None:
    for number in (
        shape.prompt_cache_hit_tokens,
        shape.num_cached_tokens,
        shape.cached_tokens,
        shape.cache_read_input_tokens,
    ):
        if number is not None:
            return count(number)
    return None


def _missing(shape: UsageShape) -> int:
    """Return how many tokens of the total are in neither the prompt nor the completion count."""
    read, written, total = count(shape.prompt_tokens), count(shape.completion_tokens), count(shape.total_tokens)
    return 0 if read is None or written is None or total is None else max(0, total - read - written)


def _completed(usage: Usage, missing: int, audio: object) -> Usage:
    """Add tokens that only the total includes: to the input if they are audio, otherwise to the output as reasoning."""
    if missing == audio:
        return msgspec.structs.replace(usage, input=(usage.input or 0) + missing)
    return msgspec.structs.replace(usage, output=(usage.output or 0) + missing)


def merge_usage(known: UsageShape | None, stated: object) -> UsageShape | None:
    """Return the latest usage in a stream: newer figures replace older ones, and are not added up."""
    latest = usage_as(UsageShape, stated)
    if latest is None or known is None:
        return latest or known
    if latest.prompt_tokens is not None and latest.completion_tokens is not None:
        return latest
    names = UsageShape.__struct_fields__
    return UsageShape(*[b if (b := getattr(latest, name)) is not None else getattr(known, name) for name in names])


class _Call:
    __slots__ = ("_brackets", "_whole", "begun", "id", "index", "name", "pieces")

    def __init__(self, index: int, identity: str, name: str) -> None:
        self.index = index
        self.id = identity
        self.name = name
        self.pieces: list[str] = []
        self.begun = False  # whether any of its arguments have arrived
        self._brackets: Brackets | None = Brackets()  # until the end of the arguments is found
        self._whole = False

    def add(self, arguments: str) -> None:
        self.pieces.append(arguments)
        self.begun = self.begun or arguments != ""
        if self._brackets is None:
            self._whole = self._whole and not arguments.strip()
        elif self._brackets.end_in(arguments) is not None:
            self._brackets = None
            self._whole = is_object("".join(self.pieces))

    @property
    def whole(self) -> bool:
        return self._whole


class CallReader:
    """Numbers the calls of one reply, whatever indices the server uses."""

    __slots__ = ("_by_id", "_by_index", "_calls")

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
        name, arguments = function.name or "", arguments_of(function.arguments)
        call = self._known(index, identity, name, arguments)
        if call is None:
            call = self._begun(index, identity, name)
            call.add(arguments)
            return ToolCallDelta(call.index, arguments, identity, name)
        fresh_id = identity if not call.id else ""
        fresh_name = name if not call.name else ""
        call.id = call.id or identity
        call.name = call.name or name
        if fresh_id:
            self._by_id[fresh_id] = call
        call.add(arguments)
        return ToolCallDelta(call.index, arguments, fresh_id, fresh_name)

    def _begun(self, index: int | None, identity: str, name: str) -> _Call:
        call = _Call(len(self._calls), identity, name)
        self._calls.append(call)
        if index is not None:
            self._by_index[index] = call
        if identity:
            self._by_id[identity] = call
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
            return call if name == call.name and call.pieces and not _begins(call) else None
        if name != call.name and call.name:
            return None
        return None if call.name and arguments and call.whole else call


def _begins(call: _Call) -> bool:
    """Return whether another call may begin now: none of this one's arguments have arrived, or all."""
    return not call.begun or call.whole
