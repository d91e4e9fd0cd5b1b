"""Replies in the format of Anthropic Messages."""

import json
from collections.abc import Sequence

import msgspec

from ziggurat.messages.message import Part, PartDelta, Text, TextDelta, Thinking, ThinkingDelta, ToolCall, ToolCallDelta
from ziggurat.messages.model import FinishReason
from ziggurat.messages.usage import Usage
from ziggurat.wires.types import ChunkPart, Json, ReplyHead, ReplyPart, ResponseChunk, error_frame, message_of

_STOPS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}


def _usage(usage: Usage) -> Json:
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
    """Writes a reply; see `Writer`. The format has no place for what the server does."""

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
        return self._message(content, _STOPS.get(finish, finish), _usage(usage))

    def begin(self) -> list[ResponseChunk]:
        message = self._message([], None, _usage(self._head.usage) | {"output_tokens": 1})
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
        tokens = _usage(usage)
        if self._head.usage.input is not None:
            tokens = {"output_tokens": tokens["output_tokens"]}
        return [
            _event("message_delta", {"delta": stop, "usage": tokens}, "finish"),
            _event("message_stop", {}, "done"),
        ]

    def fail(self, status: int, text: str) -> list[ResponseChunk]:
        return [error_frame("messages", status, text)]
