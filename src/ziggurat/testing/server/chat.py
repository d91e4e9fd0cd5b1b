"""Replies in the format of OpenAI Chat Completions."""

__all__ = ["plain", "streamed"]

from ziggurat.messages.delta import TextDelta, ThinkingDelta, ToolCallDelta
from ziggurat.messages.parts import ToolCall
from ziggurat.messages.usage import Usage
from ziggurat.testing.server.reply_content import message_of, steps_of
from ziggurat.testing.server.types import Json, ReceivedRequest, ReplyContent, ResponseChunk, Wait

_CREATED = 1_700_000_000


def _usage(usage: Usage) -> Json:
    tokens_in, tokens_out = usage.input or 0, usage.output or 0
    return {
        "prompt_tokens": tokens_in,
        "completion_tokens": tokens_out,
        "total_tokens": tokens_in + tokens_out,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read or 0},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning or 0},
    }


def _call(call: ToolCall) -> Json:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _finish(reply: ReplyContent) -> str:
    return "stop" if reply.finish == "refusal" else reply.finish


def plain(reply: ReplyContent, seen: ReceivedRequest) -> Json:
    """Return the body of a plain reply."""
    message = message_of(reply.pieces)
    refused = reply.finish == "refusal"
    content: Json = {
        "role": "assistant",
        "content": None if refused else message.text or (None if message.tool_calls else ""),
        "refusal": message.text if refused else None,
    }
    if message.thinking:
        content["reasoning_content"] = message.thinking
    if message.tool_calls:
        content["tool_calls"] = [_call(call) for call in message.tool_calls]
    return {
        "id": f"chatcmpl-{reply.id}",
        "object": "chat.completion",
        "created": _CREATED,
        "model": reply.model,
        "choices": [{"index": 0, "message": content, "logprobs": None, "finish_reason": _finish(reply)}],
        "usage": _usage(reply.usage),
    }


def _delta(delta: object, opens: bool, refused: bool) -> Json:
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


def _wants_usage(seen: ReceivedRequest) -> bool:
    options = seen.json.get("stream_options")
    return isinstance(options, dict) and options.get("include_usage") is True


def streamed(reply: ReplyContent, seen: ReceivedRequest) -> list[ResponseChunk | Wait]:
    """Return the chunks of a streamed reply; with the usage only if it was requested, as the real provider does."""
    head = {
        "id": f"chatcmpl-{reply.id}",
        "object": "chat.completion.chunk",
        "created": _CREATED,
        "model": reply.model,
    }
    with_usage = _wants_usage(seen)
    tail: Json = {"usage": None} if with_usage else {}

    def chunk(delta: Json, finish: str | None = None) -> Json:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return {**head, "choices": [choice], **tail}

    frames: list[ResponseChunk | Wait] = [ResponseChunk(chunk({"role": "assistant", "content": ""}), part="start")]
    for step in steps_of(reply):
        if isinstance(step, Wait):
            frames.append(step)
        elif not isinstance(step.delta, ThinkingDelta) or step.delta.text:
            frames.append(ResponseChunk(chunk(_delta(step.delta, step.opens, reply.finish == "refusal"))))
    if reply.error is None:
        frames.append(ResponseChunk(chunk({}, _finish(reply)), part="finish"))
        if with_usage:
            frames.append(ResponseChunk({**head, "choices": [], "usage": _usage(reply.usage)}, part="usage"))
        frames.append(ResponseChunk("[DONE]", part="done"))
    return frames
