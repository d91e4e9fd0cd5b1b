"""Read a reply of the Messages API: plain, or streamed, event by event."""

from typing import Any

import msgspec
from msgspec import Raw, Struct

from ziggurat.core import codec
from ziggurat.core.codec import check_depth
from ziggurat.core.errors import ModelError, StreamInterrupted
from ziggurat.http.sse import ServerEvent
from ziggurat.messages.message import Fold, PartDelta, TextDelta, ThinkingDelta, ToolCall, ToolCallDelta
from ziggurat.messages.model import FinishReason, ModelResponse
from ziggurat.messages.usage import Usage
from ziggurat.models.http.dialect import Dialect
from ziggurat.models.http.failures import failure, unreadable
from ziggurat.models.http.stated import count, latest, part_of, read

OPAQUE = "anthropic:"
"""The prefix of the ids of opaque thoughts: provider-specific JSON, kept in `redacted` to be sent back."""

CALLER = OPAQUE + "caller"  # the id of an opaque thought that names the provider's code that made the next tool call

NOTHING = Raw()

KNOWN = frozenset({"text", "thinking", "redacted_thinking", "tool_use"})
"""The types of blocks that become parts; all others are opaque."""


class Block(Struct, gc=False):
    """One block of a reply's content; which fields there are depends on its type."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    input: Raw = NOTHING
    citations: Raw = NOTHING
    caller: Raw = NOTHING


class _Kind(Struct, gc=False):
    type: str = ""


_block = codec.decoder(Block, strict=False)
_kind = codec.decoder(_Kind)


def is_present(value: Raw) -> bool:
    return bytes(value) not in (b"", b"null")


def read_block(block: Raw) -> Block:
    """Read a block; of an unknown block that does not fit, only its type."""
    try:
        return _block.decode(block)
    except msgspec.ValidationError:
        kind = _kind.decode(block).type
        if kind in KNOWN:
            raise
        return Block(kind)


def caller_of(block: Block) -> str | None:
    """Return the caller of a tool call as JSON; None if it was the model itself."""
    if not is_present(block.caller):
        return None
    return None if _kind.decode(block.caller).type == "direct" else bytes(block.caller).decode()


class MessageObject(Struct, gc=False):
    type: str | None = None
    id: str | None = None
    model: str | None = None
    content: list[Raw] | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    usage: Any = None
    stop_details: Raw = NOTHING
    container: Raw = NOTHING
    context_management: Raw = NOTHING


_FINISH: dict[str, FinishReason] = {
    "end_turn": "stop",
    "pause_turn": "paused",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}
_PLAIN = frozenset({"end_turn", "tool_use", "max_tokens"})
CUT = "your last reply was cut at its length limit within a tool call, which was not run; make the call shorter"


def finish_of(stop_reason: str | None, *, within_call: bool) -> FinishReason:
    finish = _FINISH.get(stop_reason or "", "other")
    return "malformed" if finish == "length" and within_call else finish


def usage_of(usage: dict[str, Any]) -> Usage:
    """Return the usage with cached tokens included in the input, which the API's own figure excludes."""
    written, read = usage.get("cache_creation_input_tokens"), usage.get("cache_read_input_tokens")
    parts = [count(usage.get("input_tokens")), count(written or 0), count(read or 0)]
    known = [each for each in parts if each is not None]
    return Usage(
        sum(known) if len(known) == len(parts) else None,
        count(usage.get("output_tokens")),
        count(read),
        count(written),
        count(part_of(usage, "output_tokens_details").get("thinking_tokens")),
        1,
    )


def details(reply: MessageObject, finish: FinishReason, citations: list[Raw]) -> dict[str, Any] | None:
    """Return further fields of a reply for the response's `raw`, None if there are none."""
    raw: dict[str, Any] = {}
    if reply.stop_reason is not None and reply.stop_reason not in _PLAIN:
        raw["stop_reason"] = reply.stop_reason
    if reply.stop_sequence is not None:
        raw["stop_sequence"] = reply.stop_sequence
    if finish == "malformed":
        raw["stop_reason"] = reply.stop_reason
        raw["malformed"] = CUT
    for name in ("stop_details", "container", "context_management"):
        value: Raw = getattr(reply, name)
        if is_present(value):
            raw[name] = _plain(value)
    if citations:
        raw["citations"] = [_plain(each) for each in citations]
    return raw or None


def _plain(value: Raw) -> Any:
    """Return a field as plain values, or as text if it cannot be decoded (such as a number out of range)."""
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return bytes(value).decode("utf-8", "replace")


class _Delta(Struct, gc=False):
    type: str | None = None
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    partial_json: str | None = None
    citation: Raw = NOTHING
    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: Raw = NOTHING
    container: Raw = NOTHING


class _Event(Struct, gc=False):
    type: str | None = None
    index: int | None = None
    delta: _Delta | None = None
    content_block: Raw = NOTHING
    message: MessageObject | None = None
    usage: Any = None
    context_management: Raw = NOTHING


class _Loose(Struct, gc=False):
    """The minimal fields of an event that does not fit, to distinguish a new type from an invalid event."""

    type: str | None = None
    delta: Any = None


class _Named(Struct, gc=False):
    model: str | None = None


class _Fallback(Struct, gc=False):
    """The block that announces that another model continues the reply."""

    to: _Named | None = None


class _Opaque:
    """A provider-specific block, assembled so that it can be sent back with its values unchanged."""

    __slots__ = ("block", "kind", "pieces", "texts")

    def __init__(self, kind: str, block: dict[str, Raw]) -> None:
        self.kind = kind
        self.block = block
        self.pieces: list[str] = []
        self.texts: dict[str, list[str]] = {}  # the pieces of each field that is a text

    def add(self, delta: dict[str, Raw]) -> None:
        """Add a delta of any type: JSON pieces and texts are joined, other values replace earlier ones."""
        for name, value in delta.items():
            if name == "partial_json":
                self.pieces.append(_text.decode(value) or "")
            elif name != "type":
                self._add(name, value)

    def _add(self, name: str, value: Raw) -> None:
        if not _is_text(value):
            self.texts.pop(name, None)
            self.block[name] = value
            return
        if name not in self.texts:
            known = self.block.get(name)
            self.texts[name] = [_text.decode(known) or ""] if known and _is_text(known) else []
            self.block[name] = value  # in its place among the fields
        self.texts[name].append(_text.decode(value) or "")

    def written(self) -> str:
        self.block.update({name: Raw(msgspec.json.encode("".join(texts))) for name, texts in self.texts.items()})
        if any(self.pieces):
            self.block["input"] = Raw("".join(self.pieces).encode())
        return msgspec.json.encode(self.block).decode()


def _is_text(value: Raw) -> bool:
    return bytes(value).startswith(b'"')


_reply = codec.decoder(MessageObject, strict=False)
_cited = codec.decoder(list[Raw])
_text = codec.decoder(str | None)
_fields = codec.decoder(dict[str, Raw])
_fallback = codec.decoder(_Fallback)
_event = codec.decoder(_Event, strict=False)
_KINDS = frozenset(
    (
        "message_start",
        "message_delta",
        "message_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "error",
    )
)
_DELTAS = frozenset({"text_delta", "thinking_delta", "signature_delta", "input_json_delta", "citations_delta"})


def from_wire(body: bytes, dialect: Dialect) -> ModelResponse:
    try:
        reply = read(_reply, body)
        if reply.type == "error":
            raise failure(None, {}, body, dialect)
        if reply.content is None and reply.stop_reason is None:
            raise unreadable(dialect, "it has neither content nor a reason to stop")
        return Reader(dialect).whole(reply)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise unreadable(dialect, error) from error


class Reader:
    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._fold = Fold()
        self._reply = MessageObject()
        self._usage: dict[str, Any] = {}
        self._signatures: dict[int, list[str]] = {}
        self._calls: dict[int, int] = {}  # the numbers of calls, by the indices of their blocks
        self._bare: dict[int, str] = {}  # the input at the start of calls that got no more
        self._opaque: dict[int, _Opaque] = {}
        self._citations: list[Raw] = []
        self._broken = ""
        self.done: bool = False
        """Whether the reply is complete; later events are ignored."""

    def push(self, event: ServerEvent) -> list[PartDelta]:
        try:
            got = read(_event, event.data)
        except (msgspec.DecodeError, RecursionError) as error:
            return self._odd(event, error)
        kind = got.type or event.event
        if kind == "content_block_delta":
            deltas = self._delta(got, event)
        elif self.done:
            return []
        elif kind == "content_block_start":
            deltas = [*self._close(), *self._start(got, event)]
        elif kind == "content_block_stop":
            deltas = self._stop(got.index or 0)
        else:
            deltas = self._about_message(kind, got, event)
        for delta in deltas:
            self._fold.push(delta)
        return deltas

    def finish(self) -> ModelResponse:
        if not self.done:
            raise self._with_partial(
                StreamInterrupted(f"the stream of {self._dialect.name} ended before the reply did")
            )
        if self._broken:
            raise self._with_partial(
                ModelError(f"{self._dialect.name} sent an event that cannot be read: {self._broken}", kind="malformed")
            )
        return self._response()

    def whole(self, reply: MessageObject) -> ModelResponse:
        """Return the response of a plain reply, whose blocks are read as those of a stream."""
        self._reply = reply
        self._usage = latest({}, reply.usage)
        blocks = enumerate(reply.content or ())
        deltas = [each for at, block in blocks for each in (*self._open(at, block), *self._stop(at))]
        for delta in deltas + self._bare_calls():
            self._fold.push(delta)
        return self._response()

    def _response(self) -> ModelResponse:
        message, reply = self._fold.message(), self._reply
        within_call = bool(message.parts) and isinstance(message.parts[-1], ToolCall)
        finish = finish_of(reply.stop_reason, within_call=within_call)
        raw = details(reply, finish, self._citations)
        return ModelResponse(message, finish, usage_of(self._usage), reply.model or "", reply.id or "", raw)

    # -- events of the message ---------------------------------------------------------------------------------------

    def _about_message(self, kind: str, got: _Event, event: ServerEvent) -> list[PartDelta]:
        if kind == "message_start" and got.message is not None:
            if self._reply.id is not None and (self._reply.id != got.message.id or self._fold.message().parts):
                another = f"another reply began in the stream of {self._dialect.name}"
                raise self._with_partial(StreamInterrupted(another))
            self._reply = got.message
            self._usage = latest(self._usage, got.message.usage)
        elif kind == "message_delta":
            self._usage = latest(self._usage, got.usage)
            self._note_end(got)
        elif kind == "message_stop":
            deltas = self._close()
            cut = finish_of(self._reply.stop_reason, within_call=False) == "length"
            self.done = True
            return deltas + ([] if cut else self._bare_calls())
        elif kind == "error":
            raise self._with_partial(failure(None, {}, event.data, self._dialect))
        return []

    def _note_end(self, got: _Event) -> None:
        reply = self._reply
        if is_present(got.context_management):
            reply.context_management = got.context_management
        if got.delta is not None:
            reply.stop_reason = got.delta.stop_reason or reply.stop_reason
            reply.stop_sequence = got.delta.stop_sequence or reply.stop_sequence
            if is_present(got.delta.stop_details):
                reply.stop_details = got.delta.stop_details
            if is_present(got.delta.container):
                reply.container = got.delta.container

    # -- events of a block -------------------------------------------------------------------------------------------

    def _start(self, got: _Event, event: ServerEvent) -> list[PartDelta]:
        if not is_present(got.content_block):
            return []
        try:
            return self._open(got.index or 0, got.content_block)
        except msgspec.DecodeError as error:
            return self._odd(event, error)

    def _open(self, index: int, written: Raw) -> list[PartDelta]:
        block = read_block(written)
        if block.type not in KNOWN:
            self._opaque[index] = _Opaque(block.type, _fields.decode(written))
            if block.type == "fallback":
                heir = _fallback.decode(written).to
                self._reply.model = (heir and heir.model) or self._reply.model
            return []
        if block.type == "tool_use":
            number = self._calls[index] = len(self._calls)
            self._bare[number] = bytes(block.input).decode() if is_present(block.input) else "{}"
            opened = ToolCallDelta(number, "", block.id or "", block.name or "")
            caller = caller_of(block)
            return [opened] if caller is None else [ThinkingDelta(redacted=caller, id=CALLER), opened]
        if block.type == "redacted_thinking":
            return [ThinkingDelta(redacted=block.data or "")]
        if block.type == "thinking":
            if block.signature:
                self._signatures[index] = [block.signature]
            return [ThinkingDelta(block.thinking)] if block.thinking else []
        if is_present(block.citations):
            self._citations.extend(_cited.decode(block.citations))
        return [TextDelta(block.text)] if block.text else []

    def _delta(self, got: _Event, event: ServerEvent) -> list[PartDelta]:
        delta = got.delta
        if delta is None or self.done:
            return []
        index = got.index or 0
        if self._opaque and index in self._opaque:
            return self._more(self._opaque[index], event)
        kind = delta.type
        if kind == "text_delta":
            return [TextDelta(delta.text)] if delta.text else []
        if kind == "input_json_delta":
            return self._arguments(index, delta.partial_json)
        if kind == "thinking_delta":
            return [ThinkingDelta(delta.thinking)] if delta.thinking else []
        if kind == "signature_delta":
            self._signatures.setdefault(index, []).append(delta.signature or "")
        elif kind == "citations_delta" and is_present(delta.citation):
            self._citations.append(delta.citation)
        return []

    def _more(self, block: _Opaque, event: ServerEvent) -> list[PartDelta]:
        try:
            block.add(_fields.decode(_fields.decode(event.data)["delta"]))
        except msgspec.DecodeError as error:
            self._broken = str(error)
        return []

    def _arguments(self, index: int, piece: str | None) -> list[PartDelta]:
        if not piece:
            return []
        call = self._calls.get(index)
        if call is None:
            self._broken = "arguments of a tool call that never began"
            return []
        self._bare.pop(call, None)
        return [ToolCallDelta(call, piece)]

    def _stop(self, index: int) -> list[PartDelta]:
        signature = "".join(self._signatures.pop(index, ()))
        if signature:
            return [ThinkingDelta(signature=signature)]
        block = self._opaque.pop(index, None)
        if block is None:
            return []
        return [ThinkingDelta(redacted=block.written(), id=OPAQUE + block.kind)]

    def _close(self) -> list[PartDelta]:
        """End a block that had no end event; only one block is open at a time."""
        return [delta for index in (*self._signatures, *self._opaque) for delta in self._stop(index)]

    def _bare_calls(self) -> list[PartDelta]:
        """Return the initial input of calls that got no further arguments, once the reply is complete."""
        return [ToolCallDelta(call, written) for call, written in self._bare.items()]

    # -- faults ------------------------------------------------------------------------------------------------------

    def _odd(self, event: ServerEvent, error: Exception) -> list[PartDelta]:
        """Ignore an event of a new type; remember an invalid one."""
        if event.event == "error":
            raise self._with_partial(failure(None, {}, event.data, self._dialect)) from error
        try:
            check_depth(event.data)
            loose = codec.decoder(_Loose).decode(event.data)
        except (msgspec.DecodeError, RecursionError):
            if event.data.strip() not in ("", "[DONE]"):
                self._broken = str(error)
            return []
        delta = loose.delta
        kind = str(delta.get("type")) if isinstance(delta, dict) else None
        if loose.type in _KINDS and not (loose.type == "content_block_delta" and kind not in _DELTAS):
            self._broken = str(error)
        return []

    def _with_partial(self, error: ModelError) -> ModelError:
        """Add the partial message and the tokens to an error; those of the output are known at the end only."""
        known = usage_of(self._usage)
        output = known.output if self._reply.stop_reason else None
        error.usage = Usage(known.input, output, known.cache_read, known.cache_write, requests=1)
        error.partial = self._fold.message()
        return error
