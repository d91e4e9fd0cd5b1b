"""Replies in the format of OpenAI Responses."""

__all__ = ["plain", "streamed"]

from collections.abc import Iterator

from ziggurat.messages.delta import PartDelta, TextDelta, ThinkingDelta, ToolCallDelta
from ziggurat.messages.parts import Part, Text, Thinking, ToolCall
from ziggurat.messages.usage import Usage
from ziggurat.testing.server.reply_content import message_of, steps_of
from ziggurat.testing.server.types import Json, ReceivedRequest, ReplyContent, ResponseChunk, Wait
from ziggurat.testing.server.types import Part as FramePart

_CREATED = 1_700_000_000
_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}


def _usage(usage: Usage) -> Json:
    tokens_in, tokens_out = usage.input or 0, usage.output or 0
    return {
        "input_tokens": tokens_in,
        "input_tokens_details": {"cached_tokens": usage.cache_read or 0},
        "output_tokens": tokens_out,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning or 0},
        "total_tokens": tokens_in + tokens_out,
    }


def _content(text: str, refused: bool) -> Json:
    if refused:
        return {"type": "refusal", "refusal": text}
    return {"type": "output_text", "annotations": [], "logprobs": [], "text": text}


def _item(part: Part, at: int, reply: ReplyContent, *, empty: bool = False) -> Json:
    """Return an item of the output; with `empty`, one whose content has not been sent yet."""
    end = f"{reply.id}_{at}"
    status = "in_progress" if empty else "completed"
    if isinstance(part, Thinking):
        summary = [] if empty or not part.text else [{"type": "summary_text", "text": part.text}]
        item: Json = {"id": part.id or f"rs_{end}", "type": "reasoning", "summary": summary}
        proof = part.signature or part.redacted
        return item | ({"encrypted_content": proof} if proof and not empty else {})
    if isinstance(part, ToolCall):
        arguments = "" if empty else part.arguments
        fixed = {"id": f"fc_{end}", "type": "function_call", "status": status}
        return fixed | {"call_id": part.id, "name": part.name, "arguments": arguments}
    assert isinstance(part, Text)
    content = [] if empty else [_content(part.text, reply.finish == "refusal")]
    return {"id": f"msg_{end}", "type": "message", "status": status, "role": "assistant", "content": content}


def _response(reply: ReplyContent, seen: ReceivedRequest, output: list[Json], status: str, *, done: bool) -> Json:
    reason = _INCOMPLETE.get(reply.finish) if done else None
    failed = {"code": "server_error", "message": "The model failed."} if status == "failed" else None
    return {
        "id": f"resp_{reply.id}",
        "object": "response",
        "created_at": _CREATED,
        "status": status,
        "error": failed,
        "incomplete_details": {"reason": reason} if reason else None,
        "instructions": None,
        "metadata": {},
        "model": reply.model,
        "output": output,
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": seen.json.get("tools") or [],
        "top_p": 1.0,
        "usage": _usage(reply.usage) if done else None,
    }


def _status(reply: ReplyContent) -> str:
    if reply.finish in _INCOMPLETE:
        return "incomplete"
    return "failed" if reply.finish == "error" else "completed"


def plain(reply: ReplyContent, seen: ReceivedRequest) -> Json:
    """Return the body of a plain reply."""
    output = [_item(part, at, reply) for at, part in enumerate(message_of(reply.pieces).parts)]
    return _response(reply, seen, output, _status(reply), done=True)


class _Writer:
    """Numbers the events and knows the ids of the items."""

    def __init__(self, reply: ReplyContent) -> None:
        self.reply = reply
        self.refused = reply.finish == "refusal"
        self.parts = message_of(reply.pieces).parts
        self.number = 0

    def frame(self, event: str, fields: Json, part: FramePart = "delta") -> ResponseChunk:
        data = {"type": event, **fields, "sequence_number": self.number}
        self.number += 1
        return ResponseChunk(data, event, part)

    def _where(self, at: int, item: Json) -> Json:
        where: Json = {"item_id": item["id"], "output_index": at}
        if item["type"] == "message":
            where["content_index"] = 0
        elif item["type"] == "reasoning":
            where["summary_index"] = 0
        return where

    def opened(self, at: int) -> Iterator[ResponseChunk]:
        item = _item(self.parts[at], at, self.reply, empty=True)
        where = self._where(at, item)
        yield self.frame("response.output_item.added", {"output_index": at, "item": item})
        if item["type"] == "message":
            yield self.frame("response.content_part.added", where | {"part": _content("", self.refused)})
        elif item["type"] == "reasoning" and self._text(at):
            part = {"type": "summary_text", "text": ""}
            yield self.frame("response.reasoning_summary_part.added", where | {"part": part})

    def _text(self, at: int) -> str:
        part = self.parts[at]
        return part.text if isinstance(part, (Text, Thinking)) else ""

    def delta(self, at: int, delta: PartDelta) -> Iterator[ResponseChunk]:
        where = self._where(at, _item(self.parts[at], at, self.reply))
        if isinstance(delta, TextDelta):
            kind = "refusal" if self.refused else "output_text"
            more: Json = {} if self.refused else {"logprobs": []}
            yield self.frame(f"response.{kind}.delta", where | {"delta": delta.text} | more)
        elif isinstance(delta, ThinkingDelta) and delta.text:
            yield self.frame("response.reasoning_summary_text.delta", where | {"delta": delta.text})
        elif isinstance(delta, ToolCallDelta) and delta.arguments:
            yield self.frame("response.function_call_arguments.delta", where | {"delta": delta.arguments})

    def closed(self, at: int) -> Iterator[ResponseChunk]:
        part = self.parts[at]
        item = _item(part, at, self.reply)
        where = self._where(at, item)
        if isinstance(part, Text):
            kind, key = ("refusal", "refusal") if self.refused else ("output_text", "text")
            more: Json = {} if self.refused else {"logprobs": []}
            yield self.frame(f"response.{kind}.done", where | {key: part.text} | more)
            yield self.frame("response.content_part.done", where | {"part": item["content"][0]})
        elif isinstance(part, Thinking) and part.text:
            yield self.frame("response.reasoning_summary_text.done", where | {"text": part.text})
            yield self.frame("response.reasoning_summary_part.done", where | {"part": item["summary"][0]})
        elif isinstance(part, ToolCall):
            done = where | {"name": part.name, "arguments": part.arguments}
            yield self.frame("response.function_call_arguments.done", done)
        yield self.frame("response.output_item.done", {"output_index": at, "item": item})


def streamed(reply: ReplyContent, seen: ReceivedRequest) -> list[ResponseChunk | Wait]:
    """Return the events of a streamed reply."""
    writer = _Writer(reply)
    created = _response(reply, seen, [], "in_progress", done=False)
    frames: list[ResponseChunk | Wait] = [
        writer.frame("response.created", {"response": created}, "start"),
        writer.frame("response.in_progress", {"response": created}, "start"),
    ]
    for step in steps_of(reply):
        if isinstance(step, Wait):
            frames.append(step)
            continue
        if step.opens:
            frames += writer.opened(step.part)
        frames += writer.delta(step.part, step.delta)
        if step.closes:
            frames += writer.closed(step.part)
    if reply.error is None:
        whole = plain(reply, seen)
        frames.append(writer.frame(f"response.{whole['status']}", {"response": whole}, "finish"))
    return frames
