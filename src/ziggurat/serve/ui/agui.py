"""AG-UI: one route, to which a user interface posts a conversation, and which answers with a stream of its events."""

from collections.abc import Iterator
from itertools import takewhile
from typing import Any, Literal

from msgspec import Struct
from starlette.requests import Request

from ziggurat.core import codec
from ziggurat.core.codec import encode
from ziggurat.core.errors import ConfigurationError, RunNotFound
from ziggurat.messages import stops
from ziggurat.messages.agent import AgentRun, Deny, PendingItem
from ziggurat.messages.model import ModelRequest
from ziggurat.serve import narration
from ziggurat.serve.decisions import schema_of_answer
from ziggurat.serve.openai.answers import run_of_call
from ziggurat.serve.openai.client_request import client_calls, file_part
from ziggurat.serve.openai.replies import ResponseStream
from ziggurat.serve.rows import time_of
from ziggurat.serve.served import ServedAgents
from ziggurat.serve.ui.runs import continue_run, frames, read_place, start_run
from ziggurat.wires.reading import read_request
from ziggurat.wires.types import Json

_VERSION = "1.0"


class _ResumeEntry(Struct, rename="camel"):
    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    payload: Any = None


class _Context(Struct):
    description: str
    value: str


class _RunAgentInput(Struct, rename="camel"):
    thread_id: str
    run_id: str
    messages: list[Json]
    tools: list[Json] | None = None
    context: list[_Context] | None = None
    resume: list[_ResumeEntry] | None = None


async def run_agui(agents: ServedAgents, request: Request) -> ResponseStream:
    try:
        asked = codec.decoder(_RunAgentInput).decode(await request.body())
        content = read_request(encode(_as_chat(asked)), "chat")[1]
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"the body is no RunAgentInput of AG-UI: {error}") from error
    after, name = read_place(request), request.path_params["name"]
    run_ids = {each.interrupt_id.partition("~")[0] for each in asked.resume or ()}
    answers = {each.interrupt_id.partition("~")[2]: _answer(each) for each in asked.resume or ()}
    results = _results(content)
    if not answers and results and await _waits(agents, run_of_call(next(iter(results)))):
        run_ids, answers = {str(run_of_call(each)) for each in results}, results
    if len(run_ids) > 1:
        raise ConfigurationError("all that is answered must be of one run")
    if answers:
        run = await continue_run(agents, name, run_ids.pop(), answers, content)
    else:
        run = await start_run(agents, name, content, asked.run_id, {"thread": asked.thread_id})
    ids = {"threadId": asked.thread_id, "runId": asked.run_id}
    start: Json = {"type": "RUN_STARTED", **ids, "protocolVersion": _VERSION}
    return ResponseStream(frames(run, Encoder(run, ids).encode, after, [start]), agents.closing)


def _answer(entry: _ResumeEntry) -> Any:
    return entry.payload if entry.status == "resolved" else Deny("cancelled")


def _results(content: ModelRequest) -> dict[str, Any]:
    last = takewhile(lambda message: message.role == "tool", reversed(content.messages))
    return {result.id: result.text for message in last for result in message.tool_results}


async def _waits(agents: ServedAgents, run_id: str | None) -> bool:
    try:
        return run_id is not None and (await agents.agent_of(run_id))[1].status == "Suspended"
    except RunNotFound:  # the conversation comes from elsewhere
        return False


def _as_chat(asked: _RunAgentInput) -> Json:
    """Return a request in the format of Chat Completions, whose reader knows all that is in it."""
    context = "\n\n".join(f"{each.description}: {each.value}" for each in asked.context or ())
    messages: list[Json] = [{"role": "system", "content": context}] if context else []
    for each in asked.messages:
        if each.get("role") in ("reasoning", "activity"):  # what the agent made for the reader
            continue
        renamed = {"tool_calls": each.get("toolCalls"), "tool_call_id": each.get("toolCallId")}
        messages.append({**each, **renamed, "content": _content(each.get("content"))})
    tools = [{"type": "function", "function": tool} for tool in asked.tools or ()]
    return {"model": "agent", "messages": messages, "tools": tools}


def _content(content: object) -> object:
    if not isinstance(content, list):
        return content
    return [_part(part) if isinstance(part, dict) and part.get("type") != "text" else part for part in content]


def _part(part: Json) -> Json:
    source = part.get("source")
    if not isinstance(source, dict) or source.get("type") not in ("data", "url"):
        raise ConfigurationError(f"messages: a part of the type {part.get('type')!r:.50} has no data and no url")
    kind, value = source.get("mimeType") or "application/octet-stream", source.get("value")
    url = f"data:{kind};base64,{value}" if source["type"] == "data" else value
    return file_part(str(url), part.get("id"), is_image=part.get("type") == "image")


class Encoder:
    def __init__(self, run: narration.ToldRun, ids: Json) -> None:
        self._run = run
        self._ids = ids
        self._message = ""

    def encode(self, tale: narration.Tale) -> Iterator[Json]:
        match tale:
            case narration.Begin(id, _, thinking):
                yield from [] if not thinking else [{"type": "REASONING_START", "messageId": id}]
                kind, role = ("REASONING_MESSAGE", "reasoning") if thinking else ("TEXT_MESSAGE", "assistant")
                self._message = self._message if thinking else id
                yield {"type": f"{kind}_START", "messageId": id, "role": role}
            case narration.Piece(id, thinking, text):
                yield {"type": f"{_kind(thinking)}_CONTENT", "messageId": id, "delta": text}
            case narration.End(id, thinking):
                yield {"type": f"{_kind(thinking)}_END", "messageId": id}
                yield from [] if not thinking else [{"type": "REASONING_END", "messageId": id}]
            case narration.Called(id, _, call, changed=False):
                parent = {"parentMessageId": self._message} if self._message else {}
                yield {"type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": call.name, **parent}
                yield {"type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": call.arguments}
                yield {"type": "TOOL_CALL_END", "toolCallId": id}
            case narration.Gave(id, result):
                message = {"messageId": f"{id}-result", "toolCallId": id, "content": result.text}
                yield {"type": "TOOL_CALL_RESULT", **message, "role": "tool"}
            case narration.Waits(items):
                clients = client_calls(tuple(item for _, item in items))
                interrupts = [_interrupt(self._run.id, call, item) for call, item in items if item.id not in clients]
                pending = [call for call, item in items if item.id in clients]
                success = {"type": "success", "pendingToolCallIds": pending}
                yield self._finished({"type": "interrupt", "interrupts": interrupts} if interrupts else success)
            case narration.Over(run, reason):
                yield self._over(run, reason)

    def _finished(self, outcome: Json, **more: object) -> Json:
        return {"type": "RUN_FINISHED", **self._ids, "outcome": outcome, **more}

    def _over(self, run: AgentRun | None, reason: str) -> Json:
        if run is not None and isinstance(run.stop, stops.Cancelled):
            return self._finished({"type": "cancelled"})
        if run is None or run.error is not None:
            code = "Failed" if run is None else stops.status_of(run.stop)
            return {"type": "RUN_ERROR", "message": narration.error_of(run, reason), "code": code}
        return self._finished({"type": "success"}, result=run._output)


def _kind(thinking: bool) -> str:
    return "REASONING_MESSAGE" if thinking else "TEXT_MESSAGE"


def _interrupt(run_id: str, call: str, item: PendingItem) -> Json:
    asks = item.stage == "question"
    interrupt: Json = {
        "id": f"{run_id}~{item.id}",
        "reason": "input_required" if asks else "tool_call",
        "message": item.reason or f"{item.call.name} waits for a decision",
        "toolCallId": call,
        "responseSchema": schema_of_answer(item),
        "metadata": {"name": item.call.name, "arguments": item.call.arguments},
    }
    if item.until is not None:
        interrupt["expiresAt"] = time_of(item.until)
    return interrupt
