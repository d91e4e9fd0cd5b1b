"""Replies in the format of OpenAI Responses."""

from collections.abc import Sequence

from ziggurat.messages.message import Fold, PartDelta, Text, TextDelta, Thinking, ThinkingDelta, ToolCall, ToolCallDelta
from ziggurat.messages.model import FinishReason
from ziggurat.messages.usage import Usage
from ziggurat.wires.types import (
    ApprovalRequest,
    ChunkPart,
    Json,
    ReplyHead,
    ReplyPart,
    ResponseChunk,
    ServerCall,
    ServerItem,
    error_frame,
)

_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}

_REPEATED = (
    "background", "instructions", "max_output_tokens", "max_tool_calls", "metadata", "parallel_tool_calls",
    "previous_response_id", "prompt_cache_key", "reasoning", "safety_identifier", "service_tier", "temperature", "text",
    "tool_choice", "tools", "top_logprobs", "top_p", "truncation", "user",
)  # fmt: skip
"""The fields of a request that its response repeats."""


def _defaults() -> Json:
    """Return what a response says where its request says nothing; new ones, since whoever sends it may change it."""
    return {
        "background": False,
        "metadata": {},
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
    }


def _usage(usage: Usage) -> Json:
    tokens_in, tokens_out = usage.input or 0, usage.output or 0
    return {
        "input_tokens": tokens_in,
        "input_tokens_details": {
            "cached_tokens": usage.cache_read or 0,
            "cache_write_tokens": usage.cache_write or 0,
        },
        "output_tokens": tokens_out,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning or 0},
        "total_tokens": tokens_in + tokens_out,
    }


def _status(finish: FinishReason) -> str:
    if finish in _INCOMPLETE:
        return "incomplete"
    return "failed" if finish == "error" else "completed"


class ResponsesWriter:
    def __init__(self, head: ReplyHead) -> None:
        self._head = head
        self._number = 0
        self._output: list[Fold | ServerItem] = []  # each item so far
        self._where: list[Json] = []  # what names each item in its events
        self._at: dict[int, int] = {}  # the position of each part
        self._calls: dict[str, int] = {}  # the position of each call of the server
        self._shown: set[int] = set()  # the thoughts of which a text has begun

    def _item(self, part: ReplyPart, at: int, *, empty: bool = False) -> Json:
        """Return an item of the output; with `empty`, one whose content has not been sent yet."""
        return item_of(part, f"{self._head.id}_{at}", refused=self._head.refused, empty=empty)

    def _response(self, output: list[Json], status: str, reason: str | None, usage: Json | None) -> Json:
        failed = {"code": "server_error", "message": "The model failed."} if status == "failed" else None
        repeated = {name: self._head.body.get(name) for name in _REPEATED}
        defaults = _defaults()
        return {
            "id": f"resp_{self._head.id}",
            "object": "response",
            "created_at": self._head.created,
            "status": status,
            "error": failed,
            "incomplete_details": {"reason": reason} if reason else None,
            "model": self._head.model,
            "output": output,
            "usage": usage,
            **{name: defaults.get(name) if value is None else value for name, value in repeated.items()},
        }

    def plain(self, parts: Sequence[ReplyPart], finish: FinishReason, usage: Usage) -> Json:
        output = [self._item(part, at) for at, part in enumerate(parts)]
        return self._response(output, _status(finish), _INCOMPLETE.get(finish), _usage(usage))

    def without_answer(self, status: str, error: str | None = None) -> Json:
        """Return the body of a response that has no answer: one in progress, cancelled or failed."""
        body = self._response([], status, None, None)
        return body | {"error": {"code": "server_error", "message": error} if error else None}

    def _event(self, event: str, fields: Json, part: ChunkPart = "delta") -> ResponseChunk:
        data = {"type": event, **fields, "sequence_number": self._number}
        self._number += 1
        return ResponseChunk(data, event, part)

    def _whole(self, at: int) -> ReplyPart:
        part = self._output[at]
        return part.message().parts[0] if isinstance(part, Fold) else part

    def begin(self) -> list[ResponseChunk]:
        created = self.without_answer("in_progress")
        return [self._event(f"response.{name}", {"response": created}, "start") for name in ("created", "in_progress")]

    def _add(self, piece: Fold | ServerItem, item: Json) -> ResponseChunk:
        at = len(self._output)
        self._output.append(piece)
        self._where.append(place_of(item, at))
        return self._event("response.output_item.added", {"output_index": at, "item": item})

    def _done(self, at: int) -> ResponseChunk:
        item = self._item(self._whole(at), at)
        return self._event("response.output_item.done", {"output_index": at, "item": item})

    def open(self, part: int, delta: PartDelta) -> list[ResponseChunk]:
        first = Fold()
        first.push(delta)
        at = self._at[part] = len(self._output)
        item = self._item(first.message().parts[0], at, empty=True)
        events = [self._add(Fold(), item)]
        if item["type"] == "message":
            content = _content_item("", self._head.refused)
            events.append(self._event("response.content_part.added", self._where[at] | {"part": content}))
        return events

    def delta(self, part: int, delta: PartDelta) -> list[ResponseChunk]:
        at = self._at[part]
        fold = self._output[at]
        assert isinstance(fold, Fold)
        fold.push(delta)
        if isinstance(delta, TextDelta):
            kind = "refusal" if self._head.refused else "output_text"
            more: Json = {} if self._head.refused else {"logprobs": []}
            return [self._event(f"response.{kind}.delta", self._where[at] | {"delta": delta.text} | more)]
        if isinstance(delta, ThinkingDelta) and delta.text:
            events: list[ResponseChunk] = []
            if at not in self._shown:
                self._shown.add(at)
                place = self._where[at] | {"part": {"type": "summary_text", "text": ""}}
                events.append(self._event("response.reasoning_summary_part.added", place))
            return [
                *events,
                self._event("response.reasoning_summary_text.delta", self._where[at] | {"delta": delta.text}),
            ]
        if isinstance(delta, ToolCallDelta) and delta.arguments:
            return [self._event("response.function_call_arguments.delta", self._where[at] | {"delta": delta.arguments})]
        return []

    def close(self, part: int) -> list[ResponseChunk]:
        at = self._at[part]
        whole, place = self._whole(at), self._where[at]
        item = self._item(whole, at)
        events: list[ResponseChunk] = []
        if isinstance(whole, Text):
            kind, key = ("refusal", "refusal") if self._head.refused else ("output_text", "text")
            more: Json = {} if self._head.refused else {"logprobs": []}
            events.append(self._event(f"response.{kind}.done", place | {key: whole.text} | more))
            events.append(self._event("response.content_part.done", place | {"part": item["content"][0]}))
        elif isinstance(whole, Thinking) and whole.text:
            events.append(self._event("response.reasoning_summary_text.done", place | {"text": whole.text}))
            events.append(self._event("response.reasoning_summary_part.done", place | {"part": item["summary"][0]}))
        elif isinstance(whole, ToolCall):
            done = place | {"name": whole.name, "arguments": whole.arguments}
            events.append(self._event("response.function_call_arguments.done", done))
        return [*events, self._done(at)]

    def item(self, item: ServerItem) -> list[ResponseChunk]:
        if not isinstance(item, ServerCall):
            return [self._add(item, self._item(item, len(self._output))), self._done(len(self._output) - 1)]
        events = [] if item.path in self._calls else self._begin_call(item)
        at = self._calls[item.path]
        self._output[at] = item
        if item.result is not None:
            state = "completed" if item.result.error is None else "failed"
            events += [self._event(f"response.mcp_call.{state}", self._where[at]), self._done(at)]
        return events

    def _begin_call(self, call: ServerCall) -> list[ResponseChunk]:
        at = self._calls[call.path] = len(self._output)
        events = [self._add(call, self._item(call, at, empty=True))]
        events.append(self._event("response.mcp_call.in_progress", self._where[at]))
        where = self._where[at]
        events.append(self._event("response.mcp_call_arguments.delta", where | {"delta": call.arguments}))
        return [*events, self._event("response.mcp_call_arguments.done", where | {"arguments": call.arguments})]

    def finish(self, finish: FinishReason, usage: Usage) -> list[ResponseChunk]:
        """End the stream, and with it the calls of the server that wait."""
        output = [self._whole(at) for at in range(len(self._output))]
        waiting = [at for at, part in enumerate(output) if isinstance(part, ServerCall) and part.result is None]
        events = [self._done(at) for at in waiting]
        whole = self.plain(output, finish, usage)
        return [*events, self._event(f"response.{whole['status']}", {"response": whole}, "finish")]

    def fail(self, status: int, text: str) -> list[ResponseChunk]:
        error = error_frame("responses", status, text)
        assert isinstance(error.data, dict)
        failed = self.without_answer("failed", text)
        return [
            self._event("error", error.data | {"sequence_number": self._number}, "error"),
            self._event("response.failed", {"response": failed}, "error"),
        ]


def _content_item(text: str, refused: bool) -> Json:
    if refused:
        return {"type": "refusal", "refusal": text}
    return {"type": "output_text", "annotations": [], "logprobs": [], "text": text}


def item_of(part: ReplyPart, place: str, *, refused: bool = False, empty: bool = False) -> Json:
    status = "in_progress" if empty else "completed"
    if isinstance(part, Thinking):
        return _reasoning(part, place, empty=empty)
    if isinstance(part, ToolCall):
        arguments = "" if empty else part.arguments
        fixed = {"id": f"fc_{place}", "type": "function_call", "status": status}
        return fixed | {"call_id": part.id, "name": part.name, "arguments": arguments}
    if isinstance(part, ServerCall):
        return _server_call(part, place, empty=empty)
    if isinstance(part, ApprovalRequest):
        request = {"id": part.id, "type": "mcp_approval_request", "server_label": part.server}
        return request | {"name": part.name, "arguments": part.arguments}
    assert isinstance(part, Text)
    content = [] if empty else [_content_item(part.text, refused)]
    return {"id": f"msg_{place}", "type": "message", "status": status, "role": "assistant", "content": content}


def _reasoning(part: Thinking, place: str, *, empty: bool) -> Json:
    summary = [] if empty or not part.text else [{"type": "summary_text", "text": part.text}]
    item: Json = {"id": part.id or f"rs_{place}", "type": "reasoning", "summary": summary}
    proof = part.signature or part.redacted
    return item | ({"encrypted_content": proof} if proof and not empty else {})


def _server_call(call: ServerCall, place: str, *, empty: bool) -> Json:
    """Return the item of a call of the server's tools; one that has no result at the end of a reply is incomplete."""
    status, output, error = "in_progress" if empty else "incomplete", None, None
    if call.result is not None and not empty:
        status = "completed" if call.result.error is None else "failed"
        if status == "completed":
            output = call.result.text
        else:
            error = {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": call.result.text}]}
    return {
        "id": f"mcp_{place}",
        "type": "mcp_call",
        "status": status,
        "server_label": call.server,
        "name": call.name,
        "arguments": "" if empty else call.arguments,
        "approval_request_id": call.approval,
        "output": output,
        "error": error,
    }


def place_of(item: Json, at: int) -> Json:
    place: Json = {"item_id": item["id"], "output_index": at}
    if item["type"] == "message":
        place["content_index"] = 0
    elif item["type"] == "reasoning":
        place["summary_index"] = 0
    return place
