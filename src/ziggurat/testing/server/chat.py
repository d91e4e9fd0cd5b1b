"""Replies in the format of OpenAI Chat Completions."""

__all__ = ["plain", "streamed"]

from ziggurat.messages.delta import TextDelta, ThinkingDelta, ToolCallDelta
from ziggurat.messages.parts import ToolCall
from ziggurat.messages.usage import Usage
from ziggurat.testing.server.reply_content import message_of, steps_of
from ziggurat.testing.server.types import Json, ReceivedRequest, ReplyContent, ResponseChunk, Wait

_CREATED = 1_700_000_000


def _usage(usage: Usage) -> Json:
    given, told = usage.input or 0, usage.output or 0
    return {
        "prompt_tokens": given,
        "completion_tokens": told,
        "total_tokens": given + told,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read or 0},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning or 0},
    }


def _call(call: ToolCall) -> Json:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _finish(said: ReplyContent) -> str:
    return "stop" if said.finish == "refusal" else said.finish


def plain(said: ReplyContent, seen: ReceivedRequest) -> Json:
    """Return the body of a plain reply."""
    message = message_of(said.pieces)
    refused = said.finish == "refusal"
    shown: Json = {
        "role": "assistant",
        "content": None if refused else message.text or (None if message.tool_calls else ""),
        "refusal": message.text if refused else None,
    }
    if message.thinking:
        shown["reasoning_content"] = message.thinking
    if message.tool_calls:
        shown["tool_calls"] = [_call(call) for call in message.tool_calls]
    return {
        "id": f"chatcmpl-{said.id}",
        "object": "chat.completion",
        "created": _CREATED,
        "model": said.model,
        "choices": [{"index": 0, "message": shown, "logprobs": None, "finish_reason": _finish(said)}],
        "usage": _usage(said.usage),
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


def streamed(said: ReplyContent, seen: ReceivedRequest) -> list[ResponseChunk | Wait]:
    """Return the chunks of a streamed reply; with the usage only if it was requested, as the real provider does."""
    head = {
        "id": f"chatcmpl-{said.id}",
        "object": "chat.completion.chunk",
        "created": _CREATED,
        "model": said.model,
    }
    with_usage = _wants_usage(seen)
    tail: Json = {"usage": None} if with_usage else {}

    def chunk(delta: Json, finish: str | None = None) -> Json:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return {**head, "choices": [choice], **tail}

    frames: list[ResponseChunk | Wait] = [ResponseChunk(chunk({"role": "assistant", "content": ""}), part="start")]
    for step in steps_of(said):
        if isinstance(step, Wait):
            frames.append(step)
        elif not isinstance(step.delta, ThinkingDelta) or step.delta.text:
            frames.append(ResponseChunk(chunk(_delta(step.delta, step.opens, said.finish == "refusal"))))
    if said.error is None:
        frames.append(ResponseChunk(chunk({}, _finish(said)), part="finish"))
        if with_usage:
            frames.append(ResponseChunk({**head, "choices": [], "usage": _usage(said.usage)}, part="usage"))
        frames.append(ResponseChunk("[DONE]", part="done"))
    return frames
