"""Replies in the format of OpenAI Chat Completions."""

from collections.abc import Sequence

from ziggurat.messages.message import PartDelta, TextDelta, Thinking, ThinkingDelta, ToolCall, ToolCallDelta
from ziggurat.messages.model import FinishReason
from ziggurat.messages.usage import Usage
from ziggurat.wires.types import (
    Json,
    ReplyHead,
    ReplyPart,
    ResponseChunk,
    ServerCall,
    ServerItem,
    error_frame,
    message_of,
)


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
    """Writes a reply; see `Writer`. The usage is in a stream only if it was requested, as the real provider does."""

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
            content["tool_calls"] = [_call(call) for call in message.tool_calls]
        choice = {"index": 0, "message": content, "logprobs": None, "finish_reason": _finish(finish)}
        return self._whole("chat.completion", {"choices": [choice], "usage": _usage(usage)})

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
            chunks.append(ResponseChunk(self._chunk(choices=[]) | {"usage": _usage(usage)}, part="usage"))
        return [*chunks, ResponseChunk("[DONE]", part="done")]

    def fail(self, status: int, text: str) -> list[ResponseChunk]:
        return [error_frame("chat", status, text)]


def _reasoning(part: ReplyPart) -> str:
    if isinstance(part, ServerCall):
        return f"\n{part.name} {part.arguments}\n"
    return part.text if isinstance(part, Thinking) else ""


def _finish(finish: FinishReason) -> str:
    return "stop" if finish == "refusal" else finish
