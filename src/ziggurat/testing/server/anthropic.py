"""Replies in the format of Anthropic Messages."""

__all__ = ["plain", "raw_input", "streamed"]

import json

import msgspec

from ziggurat.messages.delta import PartDelta, TextDelta, ThinkingDelta, ToolCallDelta
from ziggurat.messages.parts import Part, Text, Thinking, ToolCall
from ziggurat.messages.usage import Usage
from ziggurat.testing.server.reply_content import message_of, steps_of
from ziggurat.testing.server.types import Json, ReceivedRequest, ReplyContent, ResponseChunk, Wait
from ziggurat.testing.server.types import Part as FramePart

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
    """Return tool arguments for embedding in JSON: raw if they are JSON, otherwise as a string.

    NaN, duplicate keys and any depth are embedded; truncated arguments are not.
    """
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


def _message(reply: ReplyContent, content: list[Json], stop: str | None, usage: Json) -> Json:
    return {
        "id": f"msg_{reply.id}",
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": usage,
    }


def plain(reply: ReplyContent, seen: ReceivedRequest) -> Json:
    """Return the body of a plain reply."""
    content = [_block(part) for part in message_of(reply.pieces).parts]
    return _message(reply, content, _STOPS.get(reply.finish, reply.finish), _usage(reply.usage))


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


def _frame(kind: str, fields: Json, part: FramePart = "delta") -> ResponseChunk:
    return ResponseChunk({"type": kind, **fields}, kind, part)


def streamed(reply: ReplyContent, seen: ReceivedRequest) -> list[ResponseChunk | Wait]:
    """Return the events of a streamed reply."""
    usage = _usage(reply.usage)
    message = _message(reply, [], None, usage | {"output_tokens": 1})
    frames: list[ResponseChunk | Wait] = [
        _frame("message_start", {"message": message}, "start"),
        _frame("ping", {}, "ping"),
    ]
    for step in steps_of(reply):
        if isinstance(step, Wait):
            frames.append(step)
            continue
        if step.opens:
            frames.append(
                _frame("content_block_start", {"index": step.part, "content_block": _start_block(step.delta)})
            )
        frames += [_frame("content_block_delta", {"index": step.part, "delta": delta}) for delta in _deltas(step.delta)]
        if step.closes:
            frames.append(_frame("content_block_stop", {"index": step.part}))
    if reply.error is None:
        stop = {"stop_reason": _STOPS.get(reply.finish, reply.finish), "stop_sequence": None}
        tokens = {"output_tokens": usage["output_tokens"]}
        frames.append(_frame("message_delta", {"delta": stop, "usage": tokens}, "finish"))
        frames.append(_frame("message_stop", {}, "done"))
    return frames
