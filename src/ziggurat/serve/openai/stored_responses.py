"""Responses of OpenAI's API that were given before: each is a run on record, or what went on with one."""

from collections.abc import AsyncGenerator, Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from ziggurat.agents.runnable import Runnable
from ziggurat.core.codec import encode
from ziggurat.core.errors import ConfigurationError, ZigguratError
from ziggurat.journal.store import LogInfo
from ziggurat.runs.runs import runs_of
from ziggurat.serve.openai.answers import NotAnswered, ResponseId, answer_recorded
from ziggurat.serve.openai.conversations import ConversationRequest
from ziggurat.serve.openai.replies import LiveResponses, ResponseEvents, ResponseStream, error_reply
from ziggurat.serve.requests import read_number
from ziggurat.serve.served import ServedAgents
from ziggurat.wires.reading import read_approvals, read_request
from ziggurat.wires.responses import ResponsesWriter
from ziggurat.wires.types import Json, ReplyHead, ReplyParts


class RecordedResponse(Struct, frozen=True):
    id: ResponseId
    agent: Runnable[Any]
    info: LogInfo

    @classmethod
    async def find(cls, agents: ServedAgents, response_id: ResponseId) -> "RecordedResponse":
        return cls(response_id, *await agents.agent_of(response_id.run_id))

    def writer(self) -> ResponsesWriter:
        return ResponsesWriter(ReplyHead(self.id.suffix, self.info.agent, {}, int(self.info.created)))

    async def body(self, page: str) -> Json:
        run = await self.agent.attach(self.id.run_id).status()
        waits = run.status == "Suspended" and not any(item.needs_decision for item in run.pending)
        if run.status == "running" or waits:
            return self.writer().without_answer("in_progress" if run.driven or waits else "queued")
        if self.info.status == "Cancelled" and await self._was_interrupted():
            return self.writer().without_answer("queued")
        whole = ReplyParts()
        try:
            answered = await answer_recorded(self.agent, self.id, whole.say, page)
        except NotAnswered as error:
            status = "cancelled" if self.info.status == "Cancelled" else "failed"
            return self.writer().without_answer(status, str(error))
        return self.writer().plain(whole.parts(), answered.finish, answered.usage)

    async def cancel(self, page: str) -> Json:
        if await self.agent.attach(self.id.run_id).cancel():
            return self.writer().without_answer("cancelled")
        return await self.body(page)

    async def delete(self) -> Json:
        if self.info.status == "running":
            raise NotAnswered(409, f"the run {self.id.run_id} is in progress; cancel it first")
        await self.agent.delete(self.id.run_id)
        return {"id": str(self.id), "object": "response", "deleted": True}

    async def _was_interrupted(self) -> bool:
        """Return whether nobody cancelled the run, but its process ended."""
        last = (await runs_of(self.agent.store).read(self.id.run_id)).last_end
        return last is not None and last.interrupted

    async def events(self, after: int, page: str) -> AsyncGenerator[bytes, None]:
        await self.agent.attach(self.id.run_id).result()
        recorded = ResponseEvents(lambda say: answer_recorded(self.agent, self.id, say, page), self.writer())
        await recorded.drive()
        async for event in recorded.follow(after):
            yield event


async def answer_stored(request: Request, agents: ServedAgents, live: LiveResponses) -> ResponseStream | Response:
    try:
        stored = await RecordedResponse.find(agents, ResponseId.read(request.path_params["id"]))
        match request.method:
            case "DELETE":
                body = await stored.delete()
            case "POST":
                body = await stored.cancel(page_of(request))
            case _ if request.query_params.get("stream", "false").lower() == "true":
                after = read_number(request.query_params, "starting_after", -1)  # all events
                known = live.find(str(stored.id))
                events = stored.events(after, page_of(request)) if known is None else known.follow(after)
                return ResponseStream(events, agents.closing)
            case _:
                body = await stored.body(page_of(request))
        return Response(encode(body), 200, media_type="application/json")
    except (ZigguratError, NotAnswered) as error:
        return error_reply("responses", error, code="response_not_found")


def page_of(request: Request) -> str:
    return f"{request.url.scheme}://{request.headers.get('host', '')}/"


_READ = frozenset(
    {
        "function_call", "function_call_output", "item_reference", "mcp_approval_request", "mcp_approval_response",
        "mcp_call", "mcp_list_tools", "message", "reasoning",
    }
)  # fmt: skip


async def response_request(body: Json, asking: ConversationRequest, agents: ServedAgents) -> ConversationRequest:
    _check_input(body)
    approvals, named = read_approvals(body), body.get("previous_response_id")
    previous = None if named is None else ResponseId.read(str(named))
    items = body["input"]
    if isinstance(items, list):
        body = await _with_references(body, agents, asking.page)
        if previous is None and approvals:
            previous, body = _response_before(body)
        if body["input"] is not items:
            asking = replace(asking, content=read_request(encode(body), "responses")[1])
    return replace(asking, previous=None if previous is None else previous.run_id, approvals=approvals)


def _check_input(body: Json) -> None:
    for item in _items(body):
        if item.get("type", "message") not in _READ:
            raise ConfigurationError(f"input: agents read no items of the type {item['type']!r:.50}")
    if body.get("background") is True and body.get("store") is False:
        raise ConfigurationError("background: the response is read later, so store cannot be false")
    if body.get("conversation") is not None:
        raise ConfigurationError("conversation: there are none here; send previous_response_id, or all items")
    if body.get("prompt") is not None:
        raise ConfigurationError("prompt: there are no stored prompts here; send input and instructions")


async def _with_references(body: Json, agents: ServedAgents, page: str) -> Json:
    """Return a request with the items of earlier responses in place of references to them; itself if it has none."""
    if not any(item.get("type") == "item_reference" for item in _items(body)):
        return body
    items: list[object] = []
    outputs: dict[ResponseId, dict[str, Json]] = {}
    for item in body["input"]:
        if not (isinstance(item, dict) and item.get("type") == "item_reference"):
            items.append(item)
            continue
        response_id = ResponseId.of_item(str(item.get("id")))
        if response_id is not None and response_id not in outputs:
            whole = await (await RecordedResponse.find(agents, response_id)).body(page)
            outputs[response_id] = {each["id"]: each for each in whole["output"]}
        output = {} if response_id is None else outputs[response_id]
        if item.get("id") not in output:
            raise ConfigurationError(f"input: there is no item {item.get('id')!r:.150}")
        items.append(output[item["id"]])
    return body | {"input": items}


def _response_before(body: Json) -> tuple[ResponseId | None, Json]:
    """Return the response whose output a request repeats, the last one, and the request with what comes after it."""
    items = body["input"]
    for number in range(len(items) - 1, -1, -1):
        item_id = items[number].get("id") if isinstance(items[number], dict) else None
        response_id = ResponseId.of_item(item_id) if isinstance(item_id, str) else None
        if response_id is not None:
            return response_id, body | {"input": items[number + 1 :]}
    return None, body


def _items(body: Json) -> Iterator[Json]:
    listed = body.get("input")
    yield from (item for item in listed if isinstance(item, dict)) if isinstance(listed, list) else ()
