"""Replies in the format of OpenAI Responses."""

__all__ = ["ResponsesWriter"]

from ziggurat.messages.delta import Fold, PartDelta, TextDelta, ThinkingDelta, ToolCallDelta
from ziggurat.messages.message import Message
from ziggurat.messages.model import FinishReason
from ziggurat.messages.parts import Part, Text, Thinking, ToolCall
from ziggurat.messages.usage import Usage
from ziggurat.wires.errors import error_frame
from ziggurat.wires.types import ChunkPart, Json, ReplyHead, ResponseChunk

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


def _status(finish: FinishReason) -> str:
    if finish in _INCOMPLETE:
        return "incomplete"
    return "failed" if finish == "error" else "completed"


class ResponsesWriter:
    """Writes a reply; see `Writer`. It numbers the events."""

    def __init__(self, head: ReplyHead) -> None:
        self._head = head
        self._number = 0
        self._pieces: list[Fold] = []  # of each part so far
        self._where: list[Json] = []  # what names each part in its events
        self._shown: set[int] = set()  # the thoughts of which a text has begun

    def _item(self, part: Part, at: int, *, empty: bool = False) -> Json:
        """Return an item of the output; with `empty`, one whose content has not been sent yet."""
        end = f"{self._head.id}_{at}"
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
        content = [] if empty else [_content(part.text, self._head.refused)]
        return {"id": f"msg_{end}", "type": "message", "status": status, "role": "assistant", "content": content}

    def _response(self, output: list[Json], status: str, reason: str | None, usage: Json | None) -> Json:
        failed = {"code": "server_error", "message": "The model failed."} if status == "failed" else None
        return {
            "id": f"resp_{self._head.id}",
            "object": "response",
            "created_at": self._head.created,
            "status": status,
            "error": failed,
            "incomplete_details": {"reason": reason} if reason else None,
            "instructions": None,
            "metadata": self._head.body.get("metadata") or {},
            "model": self._head.model,
            "output": output,
            "parallel_tool_calls": True,
            "previous_response_id": self._head.body.get("previous_response_id"),
            "temperature": 1.0,
            "tool_choice": "auto",
            "tools": self._head.body.get("tools") or [],
            "top_p": 1.0,
            "usage": usage,
        }

    def plain(self, message: Message, finish: FinishReason, usage: Usage) -> Json:
        """Return the body of a plain reply."""
        return self._ended([*message.parts], finish, usage)

    def without_answer(self, status: str, error: str | None = None) -> Json:
        """Return the body of a response that has no answer: one in progress, cancelled or failed."""
        body = self._response([], status, None, None)
        return body | {"error": {"code": "server_error", "message": error} if error else None}

    def _ended(self, parts: list[Part], finish: FinishReason, usage: Usage) -> Json:
        output = [self._item(part, at) for at, part in enumerate(parts)]
        return self._response(output, _status(finish), _INCOMPLETE.get(finish), _usage(usage))

    def _event(self, event: str, fields: Json, part: ChunkPart = "delta") -> ResponseChunk:
        data = {"type": event, **fields, "sequence_number": self._number}
        self._number += 1
        return ResponseChunk(data, event, part)

    def _whole(self, at: int) -> Part:
        return self._pieces[at].message().parts[0]

    def begin(self) -> list[ResponseChunk]:
        """Begin a stream."""
        created = self.without_answer("in_progress")
        return [self._event(f"response.{name}", {"response": created}, "start") for name in ("created", "in_progress")]

    def open(self, part: int, delta: PartDelta) -> list[ResponseChunk]:
        """Begin a part."""
        first = Fold()
        first.push(delta)
        item = self._item(first.message().parts[0], part, empty=True)
        where = _where(part, item)
        self._pieces.append(Fold())
        self._where.append(where)
        events = [self._event("response.output_item.added", {"output_index": part, "item": item})]
        if item["type"] == "message":
            content = _content("", self._head.refused)
            events.append(self._event("response.content_part.added", where | {"part": content}))
        return events

    def delta(self, part: int, delta: PartDelta) -> list[ResponseChunk]:
        """Go on with a part."""
        self._pieces[part].push(delta)
        where = self._where[part]
        if isinstance(delta, TextDelta):
            kind = "refusal" if self._head.refused else "output_text"
            more: Json = {} if self._head.refused else {"logprobs": []}
            return [self._event(f"response.{kind}.delta", where | {"delta": delta.text} | more)]
        if isinstance(delta, ThinkingDelta) and delta.text:
            return [*self._summary(part, where), self._thought(where, delta.text)]
        if isinstance(delta, ToolCallDelta) and delta.arguments:
            return [self._event("response.function_call_arguments.delta", where | {"delta": delta.arguments})]
        return []

    def _summary(self, part: int, where: Json) -> list[ResponseChunk]:
        """Begin the text of a thought, unless it has begun."""
        if part in self._shown:
            return []
        self._shown.add(part)
        text = {"type": "summary_text", "text": ""}
        return [self._event("response.reasoning_summary_part.added", where | {"part": text})]

    def _thought(self, where: Json, text: str) -> ResponseChunk:
        return self._event("response.reasoning_summary_text.delta", where | {"delta": text})

    def close(self, part: int) -> list[ResponseChunk]:
        """End a part."""
        whole = self._whole(part)
        item, where = self._item(whole, part), self._where[part]
        events: list[ResponseChunk] = []
        if isinstance(whole, Text):
            kind, key = ("refusal", "refusal") if self._head.refused else ("output_text", "text")
            more: Json = {} if self._head.refused else {"logprobs": []}
            events.append(self._event(f"response.{kind}.done", where | {key: whole.text} | more))
            events.append(self._event("response.content_part.done", where | {"part": item["content"][0]}))
        elif isinstance(whole, Thinking) and whole.text:
            events.append(self._event("response.reasoning_summary_text.done", where | {"text": whole.text}))
            events.append(self._event("response.reasoning_summary_part.done", where | {"part": item["summary"][0]}))
        elif isinstance(whole, ToolCall):
            done = where | {"name": whole.name, "arguments": whole.arguments}
            events.append(self._event("response.function_call_arguments.done", done))
        return [*events, self._event("response.output_item.done", {"output_index": part, "item": item})]

    def finish(self, finish: FinishReason, usage: Usage) -> list[ResponseChunk]:
        """End the stream."""
        whole = self._ended([self._whole(part) for part in range(len(self._pieces))], finish, usage)
        return [self._event(f"response.{whole['status']}", {"response": whole}, "finish")]

    def fail(self, status: int, text: str) -> list[ResponseChunk]:
        """End the stream with an error."""
        error = error_frame("responses", status, text)
        assert isinstance(error.data, dict)
        failed = self.without_answer("failed", text)
        return [
            self._event("error", error.data | {"sequence_number": self._number}, "error"),
            self._event("response.failed", {"response": failed}, "error"),
        ]


def _where(at: int, item: Json) -> Json:
    where: Json = {"item_id": item["id"], "output_index": at}
    if item["type"] == "message":
        where["content_index"] = 0
    elif item["type"] == "reasoning":
        where["summary_index"] = 0
    return where
