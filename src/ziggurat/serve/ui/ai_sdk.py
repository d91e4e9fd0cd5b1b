"""The AI SDK's stream of messages for user interfaces, as the transport of `useChat` reads it."""

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from ziggurat.core import codec, errors
from ziggurat.core.clock import new_id
from ziggurat.core.codec import encode
from ziggurat.messages import stops
from ziggurat.messages.agent import AgentRun, PendingItem
from ziggurat.messages.message import ToolCall, ToolResult
from ziggurat.messages.model import ModelRequest
from ziggurat.serve import narration
from ziggurat.serve.openai.client_request import client_calls, file_part
from ziggurat.serve.openai.replies import ResponseStream
from ziggurat.serve.requests import check_id, first_id, value_of
from ziggurat.serve.served import ServedAgents
from ziggurat.serve.ui.runs import continue_run, frames, read_place, start_run, whole_run
from ziggurat.wires.reading import read_request
from ziggurat.wires.types import Json

_HEADERS = ((b"x-vercel-ai-ui-message-stream", b"v1"),)
_DONE = b"data: [DONE]\n\n"
_LABEL = "chat"
_ANSWERED = ("output-available", "output-error", "output-denied")


class _Message(Struct):
    id: str
    role: Literal["system", "user", "assistant"]
    parts: list[Json]


class _ChatRequest(Struct):
    id: str
    messages: list[_Message]
    tools: list[Json] = []


async def run_chat(agents: ServedAgents, request: Request) -> ResponseStream:
    try:
        asked = codec.decoder(_ChatRequest).decode(await request.body())
        content = _read(asked)
    except (ValueError, RecursionError) as error:
        hint = "the base URL of OpenAI's clients ends in /v1"
        raise errors.ConfigurationError(f"the body is no request of useChat: {error}; {hint}") from error
    name, last = request.path_params["name"], asked.messages[-1] if asked.messages else None
    answers = {} if last is None or last.role != "assistant" else dict(_answers(last))
    if last is not None and answers:
        run = await continue_run(agents, name, last.id, answers, content)
    else:
        run_id = request.headers.get("idempotency-key") or new_id()
        run = await start_run(agents, name, content, run_id, {_LABEL: asked.id})
    return _stream(agents, request, run)


async def follow_chat(agents: ServedAgents, request: Request) -> ResponseStream | Response:
    """Send the answer of the latest run of a chat, if it is in progress, from its beginning or after a place."""
    agent = agents.agent(request.path_params["name"])
    chat = check_id(request.path_params["chat"])
    [*infos] = await agent.store.logs("run:", agent=agent.name, labels={_LABEL: chat}, limit=1)
    if not infos:
        raise errors.RunNotFound(f"there is no chat {chat!r:.150} with {agent.name}")
    run_id = first_id(infos[0].id)
    _, info = await agents.newest_of(run_id)
    if info.status != "running" and read_place(request) is None:
        return Response(status_code=204)  # nothing to resume
    return _stream(agents, request, await whole_run(agent, run_id, agents.failures))


def _stream(agents: ServedAgents, request: Request, run: narration.ToldRun) -> ResponseStream:
    start = [{"type": "start", "messageId": run.id}]
    events = frames(run, Encoder().encode, read_place(request), start, _DONE)
    return ResponseStream(events, agents.closing, _HEADERS)


# -- requests ----------------------------------------------------------------------------------------------------------


def _read(asked: _ChatRequest) -> ModelRequest:
    """Return a request by way of the format of Chat Completions, whose reader knows all that is in it."""
    messages = [each for message in asked.messages for each in _as_chat(message)]
    return read_request(encode({"model": "agent", "messages": messages, "tools": asked.tools}), "chat")[1]


def _as_chat(message: _Message) -> Iterator[Json]:
    if message.role != "assistant":
        content = [_part(part) for part in message.parts if part.get("type") in ("text", "file")]
        yield {"role": message.role, "content": content}
        return
    texts: list[Json] = []
    calls: list[Json] = []
    results: list[Json] = []
    for part in [*message.parts, {"type": "step-start"}]:
        if part.get("type") == "text":
            texts.append({"type": "text", "text": part.get("text")})
        elif part.get("type") == "step-start":
            yield from [{"role": "assistant", "content": texts, "tool_calls": calls}] if texts or calls else []
            yield from results
            texts, calls, results = [], [], []
        elif (name := _tool_of(part)) and part.get("state") in _ANSWERED:  # no model takes a call without a result
            call = part.get("toolCallId")
            calls.append({"id": call, "function": {"name": name, "arguments": part.get("input") or {}}})
            output = part["output"] if "output" in part else part.get("errorText") or "denied"
            text = output if isinstance(output, str) else encode(output).decode()
            results.append({"role": "tool", "tool_call_id": call, "content": text})


def _part(part: Json) -> Json:
    if part["type"] == "text":
        return part
    is_image = str(part.get("mediaType")).startswith("image/")
    return file_part(str(part.get("url")), part.get("filename"), is_image=is_image)


def _tool_of(part: Json) -> str:
    kind = str(part.get("type"))
    return str(part.get("toolName")) if kind == "dynamic-tool" else kind[5:] if kind.startswith("tool-") else ""


def _answers(message: _Message) -> Iterator[tuple[str, object]]:
    for part in message.parts:
        if not _tool_of(part):
            continue
        approval = part.get("approval")
        if part.get("state") == "approval-responded" and isinstance(approval, dict):
            yield str(approval.get("id")), {name: value for name, value in approval.items() if value is not None}
        elif part.get("state") == "output-available" and not part.get("providerExecuted"):
            yield str(part.get("toolCallId")), part.get("output")


# -- streams -----------------------------------------------------------------------------------------------------------


class Encoder:
    def __init__(self) -> None:
        self._step = 0
        self._called: dict[str, str] = {}

    def encode(self, tale: narration.Tale) -> Iterator[Json]:
        match tale:
            case narration.Begin(id, step, thinking):
                yield from self._enter(step)
                yield {"type": f"{_kind(thinking)}-start", "id": id}
            case narration.Piece(id, thinking, text):
                yield {"type": f"{_kind(thinking)}-delta", "id": id, "delta": text}
            case narration.End(id, thinking):
                yield {"type": f"{_kind(thinking)}-end", "id": id}
            case narration.Called(id, step, call, _, changed):
                yield from [] if changed else self._enter(step)
                yield self._call(id, call, server=True)
            case narration.Gave(id, result, denied):
                yield _output(id, result, denied)
            case narration.Waits(items):
                for about, item in items:
                    yield from self._ask(about, item)
                yield from self._leave()
                yield {"type": "finish", "finishReason": "tool-calls"}
            case narration.Over(run, reason):
                yield from self._leave()
                yield from _over(run, reason)

    def _enter(self, step: int) -> Iterator[Json]:
        if step != self._step:
            yield from self._leave()
            self._step = step
            yield {"type": "start-step"}

    def _leave(self) -> Iterator[Json]:
        if self._step:
            self._step = 0
            yield {"type": "finish-step"}

    def _call(self, id: str, call: ToolCall, *, server: bool) -> Json:  # noqa: A002
        self._called[id] = call.name
        chunk: Json = {"type": "tool-input-available", "toolCallId": id, "toolName": call.name}
        chunk["input"] = value_of(call.arguments)
        return chunk | {"dynamic": True} | ({"providerExecuted": True} if server else {})

    def _ask(self, id: str, item: PendingItem) -> Iterator[Json]:  # noqa: A002
        client = client_calls((item,)).get(item.id)
        if client is not None:
            yield self._call(id, ToolCall(id, client.call, encode(client.arguments).decode()), server=False)
        elif item.stage == "question" or item.interrupted:
            yield self._call(item.id, item.call, server=False)
        else:
            yield from [] if id in self._called else [self._call(id, item.call, server=True)]
            yield {"type": "tool-approval-request", "approvalId": item.id, "toolCallId": id}


def _kind(thinking: bool) -> str:
    return "reasoning" if thinking else "text"


def _output(id: str, result: ToolResult, denied: bool) -> Json:  # noqa: A002
    if denied:
        return {"type": "tool-output-denied", "toolCallId": id}
    if result.error is not None:
        return {"type": "tool-output-error", "toolCallId": id, "errorText": result.text, "dynamic": True}
    return {"type": "tool-output-available", "toolCallId": id, "output": result.value(), "dynamic": True}


def _over(run: AgentRun | None, reason: str) -> Iterator[Json]:
    if run is not None and isinstance(run.stop, stops.Cancelled):
        yield {"type": "abort", "reason": "cancelled"}
    elif run is not None and isinstance(run.stop, stops.Incomplete) and run.stop.finish == "length":
        yield {"type": "finish", "finishReason": "length"}
    elif run is None or run.error is not None:
        yield {"type": "error", "errorText": narration.error_of(run, reason)}
        yield {"type": "finish", "finishReason": "error"}
    else:
        yield {"type": "finish", "finishReason": "stop"}
