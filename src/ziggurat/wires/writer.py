"""Writers of replies in the format of a provider, and a reply in the pieces in which it comes.

Each writer writes one reply: as a whole by `plain`, or as a stream, by `begin`, then `open`, `delta` and `close` for
each part, which are numbered from 0, then `finish` or `fail`. The first piece of a part goes to `open`, and then to
`delta`. `item` shows what the server does besides the parts, where the format has a place for it.
"""

import json
from collections.abc import Callable, Sequence

import msgspec

from ziggurat.messages.message import Part, PartDelta, Text, TextDelta, Thinking, ThinkingDelta, ToolCall, ToolCallDelta
from ziggurat.messages.model import FinishReason
from ziggurat.messages.usage import Usage
from ziggurat.wires.responses import ResponsesWriter
from ziggurat.wires.types import (
    ChunkPart,
    Json,
    ReplyHead,
    ReplyPart,
    ReplyPiece,
    ResponseChunk,
    ServerCall,
    ServerItem,
    Wire,
    error_frame,
    message_of,
)

# -- OpenAI Chat Completions ------------------------------------------------------------------------------------------


def _chat_usage(usage: Usage) -> Json:
    tokens_in, tokens_out = usage.input or 0, usage.output or 0
    return {
        "prompt_tokens": tokens_in,
        "completion_tokens": tokens_out,
        "total_tokens": tokens_in + tokens_out,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read or 0},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning or 0},
    }


def _delta(delta: PartDelta, *, opens: bool, refused: bool) -> Json:
    if isinstance(delta, TextDelta):
        return {"refusal": delta.text} if refused else {"content": delta.text}
    if isinstance(delta, ThinkingDelta):
        return {"reasoning_content": delta.text}
    assert isinstance(delta, ToolCallDelta)
    call: Json = {"index": delta.index, "function": {"arguments": delta.arguments}}
    if opens:
        call |= {"id": delta.id, "type": "function"}
        call["function"] = {"name": delta.name, "arguments": delta.arguments}
    return {"tool_calls": [call]}


class ChatWriter:
    """The usage is in a stream only if it was requested, as the real provider does."""

    def __init__(self, head: ReplyHead) -> None:
        self._head = head
        options = head.body.get("stream_options")
        self._with_usage = isinstance(options, dict) and options.get("include_usage") is True
        self._opens = -1
        self._calls: set[str] = set()  # of the server, that were shown

    def _chunk(self, **fields: object) -> Json:
        return self._whole("chat.completion.chunk", fields | ({"usage": None} if self._with_usage else {}))

    def _whole(self, kind: str, fields: Json) -> Json:
        head = self._head
        return {
            "id": f"chatcmpl-{head.id}",
            "object": kind,
            "created": head.created,
            "model": head.model,
            **fields,
        }

    def _choice(self, delta: Json, finish: str | None = None) -> Json:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return self._chunk(choices=[choice])

    def plain(self, parts: Sequence[ReplyPart], finish: FinishReason, usage: Usage) -> Json:
        message, reasoning = message_of(parts), "".join(map(_reasoning, parts))
        refused = self._head.refused
        content: Json = {
            "role": "assistant",
            "content": None if refused else message.text or (None if message.tool_calls else ""),
            "refusal": message.text if refused else None,
        }
        if reasoning:
            content["reasoning_content"] = reasoning
        if message.tool_calls:
            content["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in message.tool_calls
            ]
        choice = {"index": 0, "message": content, "logprobs": None, "finish_reason": _finish(finish)}
        return self._whole("chat.completion", {"choices": [choice], "usage": _chat_usage(usage)})

    def begin(self) -> list[ResponseChunk]:
        return [ResponseChunk(self._choice({"role": "assistant", "content": ""}), part="start")]

    def open(self, part: int, delta: PartDelta) -> list[ResponseChunk]:
        self._opens = part
        return []

    def delta(self, part: int, delta: PartDelta) -> list[ResponseChunk]:
        if isinstance(delta, ThinkingDelta) and not delta.text:
            return []
        opens, self._opens = part == self._opens, -1
        return [ResponseChunk(self._choice(_delta(delta, opens=opens, refused=self._head.refused)))]

    def close(self, part: int) -> list[ResponseChunk]:
        return []

    def item(self, item: ServerItem) -> list[ResponseChunk]:
        """Show a call of the server when it has begun, as a thought."""
        if not isinstance(item, ServerCall) or item.path in self._calls:
            return []
        self._calls.add(item.path)
        return [ResponseChunk(self._choice({"reasoning_content": _reasoning(item)}))]

    def finish(self, finish: FinishReason, usage: Usage) -> list[ResponseChunk]:
        chunks = [ResponseChunk(self._choice({}, _finish(finish)), part="finish")]
        if self._with_usage:
            chunks.append(ResponseChunk(self._chunk(choices=[]) | {"usage": _chat_usage(usage)}, part="usage"))
        return [*chunks, ResponseChunk("[DONE]", part="done")]

    def fail(self, status: int, text: str) -> list[ResponseChunk]:
        return [error_frame("chat", status, text)]


def _reasoning(part: ReplyPart) -> str:
    if isinstance(part, ServerCall):
        return f"\n{part.name} {part.arguments}\n"
    return part.text if isinstance(part, Thinking) else ""


def _finish(finish: FinishReason) -> str:
    return "stop" if finish == "refusal" else finish


# -- Anthropic Messages -----------------------------------------------------------------------------------------------

_STOPS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}


def _anthropic_usage(usage: Usage) -> Json:
    read, written = usage.cache_read or 0, usage.cache_write or 0
    return {
        "input_tokens": max(0, (usage.input or 0) - read - written),
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read,
        "output_tokens": usage.output or 0,
    }


def raw_input(arguments: str) -> object:
    """Return tool arguments for embedding in JSON: raw if they are JSON, otherwise as a string."""
    try:
        json.loads(arguments or "{}")
    except RecursionError:  # deeply nested, but valid
        pass
    except ValueError:
        return arguments
    return msgspec.Raw((arguments or "{}").encode("utf-8", "surrogatepass"))


def _block(part: Part) -> Json:
    if isinstance(part, Thinking):
        if part.redacted is not None:
            return {"type": "redacted_thinking", "data": part.redacted}
        return {"type": "thinking", "thinking": part.text, "signature": part.signature or ""}
    if isinstance(part, ToolCall):
        return {"type": "tool_use", "id": part.id, "name": part.name, "input": raw_input(part.arguments)}
    assert isinstance(part, Text)
    return {"type": "text", "text": part.text}


def _start_block(delta: PartDelta) -> Json:
    if isinstance(delta, ThinkingDelta):
        if delta.redacted is not None:
            return {"type": "redacted_thinking", "data": delta.redacted}
        return {"type": "thinking", "thinking": "", "signature": ""}
    if isinstance(delta, ToolCallDelta):
        return {"type": "tool_use", "id": delta.id, "name": delta.name, "input": {}}
    return {"type": "text", "text": ""}


def _deltas(delta: PartDelta) -> list[Json]:
    if isinstance(delta, TextDelta):
        return [{"type": "text_delta", "text": delta.text}]
    if isinstance(delta, ToolCallDelta):
        return [{"type": "input_json_delta", "partial_json": delta.arguments}]
    assert isinstance(delta, ThinkingDelta)
    deltas: list[Json] = []
    if delta.text:
        deltas.append({"type": "thinking_delta", "thinking": delta.text})
    if delta.signature is not None:
        deltas.append({"type": "signature_delta", "signature": delta.signature})
    return deltas


def _event(kind: str, fields: Json, part: ChunkPart = "delta") -> ResponseChunk:
    return ResponseChunk({"type": kind, **fields}, kind, part)


class AnthropicWriter:
    def __init__(self, head: ReplyHead) -> None:
        self._head = head

    def _message(self, content: list[Json], stop: str | None, usage: Json) -> Json:
        return {
            "id": f"msg_{self._head.id}",
            "type": "message",
            "role": "assistant",
            "model": self._head.model,
            "content": content,
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": usage,
        }

    def plain(self, parts: Sequence[ReplyPart], finish: FinishReason, usage: Usage) -> Json:
        content = [_block(part) for part in message_of(parts).parts]
        return self._message(content, _STOPS.get(finish, finish), _anthropic_usage(usage))

    def begin(self) -> list[ResponseChunk]:
        message = self._message([], None, _anthropic_usage(self._head.usage) | {"output_tokens": 1})
        return [_event("message_start", {"message": message}, "start"), _event("ping", {}, "ping")]

    def open(self, part: int, delta: PartDelta) -> list[ResponseChunk]:
        return [_event("content_block_start", {"index": part, "content_block": _start_block(delta)})]

    def delta(self, part: int, delta: PartDelta) -> list[ResponseChunk]:
        return [_event("content_block_delta", {"index": part, "delta": each}) for each in _deltas(delta)]

    def close(self, part: int) -> list[ResponseChunk]:
        return [_event("content_block_stop", {"index": part})]

    def finish(self, finish: FinishReason, usage: Usage) -> list[ResponseChunk]:
        """End the stream; the usage has what was not known at its beginning."""
        stop = {"stop_reason": _STOPS.get(finish, finish), "stop_sequence": None}
        tokens = _anthropic_usage(usage)
        if self._head.usage.input is not None:
            tokens = {"output_tokens": tokens["output_tokens"]}
        return [
            _event("message_delta", {"delta": stop, "usage": tokens}, "finish"),
            _event("message_stop", {}, "done"),
        ]

    def fail(self, status: int, text: str) -> list[ResponseChunk]:
        return [error_frame("messages", status, text)]


# -- replies as they come ---------------------------------------------------------------------------------------------


ReplyWriter = ChatWriter | ResponsesWriter | AnthropicWriter

WRITERS: dict[Wire, Callable[[ReplyHead], ReplyWriter]] = {
    "chat": ChatWriter,
    "responses": ResponsesWriter,
    "messages": AnthropicWriter,
}


def _goes_on(before: PartDelta | None, piece: PartDelta) -> bool:
    if isinstance(piece, TextDelta):
        return isinstance(before, TextDelta)
    if not isinstance(piece, ThinkingDelta) or not isinstance(before, ThinkingDelta):
        return False
    ended = before.signature is not None or before.redacted is not None or piece.redacted is not None
    return not ended and (piece.id is None or before.id is None or piece.id == before.id)


class LiveReply:
    """The events of a stream for pieces as they come; a part ends when the next begins."""

    def __init__(self, writer: ReplyWriter) -> None:
        self._writer = writer
        self._part = -1
        self._parts = 0
        self._calls: dict[int, int] = {}  # the numbers of their parts
        self._before: PartDelta | None = None
        self._began = False

    def begin(self) -> list[ResponseChunk]:
        if self._began:
            return []
        self._began = True
        return self._writer.begin()

    def push(self, piece: ReplyPiece) -> list[ResponseChunk]:
        if isinstance(piece, ServerItem):
            return self._push_item(piece)
        if piece == TextDelta(""):
            return []
        part, events = self._part_of(piece), self.begin()
        if part != self._part:
            events += [*self._close(), *self._writer.open(part, piece)]
            self._part = part
        return [*events, *self._writer.delta(part, piece)]

    def _part_of(self, piece: PartDelta) -> int:
        before, self._before = self._before, piece
        if isinstance(piece, ToolCallDelta) and piece.index in self._calls:
            return self._calls[piece.index]
        if _goes_on(before, piece):
            return self._part
        if isinstance(piece, ToolCallDelta):
            self._calls[piece.index] = self._parts
        self._parts += 1
        return self._parts - 1

    def _push_item(self, item: ServerItem) -> list[ResponseChunk]:
        """Return the events for what the server does, after those that end the part before it; none in some formats."""
        if isinstance(self._writer, AnthropicWriter):
            return []
        events = [*self.begin(), *self._close()]
        self._part, self._before = -1, None
        return [*events, *self._writer.item(item)]

    def finish(self, finish: FinishReason, usage: Usage) -> list[ResponseChunk]:
        return [*self.begin(), *self._close(), *self._writer.finish(finish, usage)]

    def _close(self) -> list[ResponseChunk]:
        return [] if self._part < 0 else self._writer.close(self._part)
