"""Responses of OpenAI's API that were given before: each is a run on record, or what went on with one."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from ziggurat.agents.runnable import Runnable
from ziggurat.core.codec import encode
from ziggurat.core.errors import ZigguratError
from ziggurat.journal.journal import LocalJournal
from ziggurat.journal.store import LogInfo
from ziggurat.serve.openai.answers import NotAnswered, answer_recorded
from ziggurat.serve.openai.live_responses import LiveResponses
from ziggurat.serve.openai.places import ResponseId
from ziggurat.serve.openai.replies import ResponseStream, encode_event, error_reply, status_and_text
from ziggurat.serve.requests import read_number
from ziggurat.serve.served import ServedAgents
from ziggurat.wires.responses import ResponsesWriter
from ziggurat.wires.server_items import ReplyParts, ReplyPiece
from ziggurat.wires.types import Json, ReplyHead, ResponseChunk
from ziggurat.wires.writer import LiveReply

_Act = Callable[["RecordedResponse", Request], Awaitable[Json]]


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

        async def say(piece: ReplyPiece) -> None:
            whole.push(piece)

        try:
            answered = await answer_recorded(self.agent, self.id, say, page)
        except NotAnswered as error:
            status = "cancelled" if self.info.status == "Cancelled" else "failed"
            return self.writer().without_answer(status, str(error))
        return self.writer().plain(whole.parts(), answered.finish, answered.usage)

    async def _was_interrupted(self) -> bool:
        """Return whether nobody cancelled the run, but its process ended."""
        last = LocalJournal.load(await self.agent.record(self.id.run_id)).last_end
        return last is not None and last.interrupted

    async def events(self, after: int, page: str) -> AsyncGenerator[bytes, None]:
        """Yield its events after a number, when its run has ended or waits."""
        await self.agent.attach(self.id.run_id).result()
        writer = self.writer()
        live = LiveReply(writer)
        chunks = live.begin()

        async def say(piece: ReplyPiece) -> None:
            chunks.extend(live.push(piece))

        try:
            answered = await answer_recorded(self.agent, self.id, say, page)
            chunks += live.finish(answered.finish, answered.usage)
        except NotAnswered as error:
            chunks += writer.fail(*status_and_text(error))
        for number, chunk in enumerate(chunks):
            if number > after:
                yield encode_event(chunk)
        if after >= len(chunks) - 1:
            yield encode_event(_numbered(chunks[-1], after + 1))


def _numbered(chunk: ResponseChunk, number: int) -> ResponseChunk:
    assert isinstance(chunk.data, dict)
    data: Json = chunk.data | {"sequence_number": number}
    return ResponseChunk(data, chunk.event, chunk.part)


class StoredResponses:
    """The routes of single responses: each is a run on record, or what went on with one."""

    def __init__(self, agents: ServedAgents, live: LiveResponses) -> None:
        self._agents = agents
        self._live = live

    async def read(self, request: Request) -> ResponseStream | Response:
        if request.query_params.get("stream", "false").lower() != "true":
            return await self._act(request, _read)
        try:
            stored = await self._find(request)
            after = read_number(request.query_params, "starting_after", -1)  # all events
        except ZigguratError as error:
            return error_reply("responses", error, code="response_not_found")
        live = self._live.find(str(stored.id))
        if live is not None:
            return ResponseStream(live.follow(after), self._agents.closing)
        return ResponseStream(stored.events(after, page_of(request)), self._agents.closing)

    async def cancel(self, request: Request) -> Response:
        """Cancel the run of a response, unless it has ended; return the response."""
        return await self._act(request, _cancel)

    async def delete(self, request: Request) -> Response:
        """Delete the record of a run that is not in progress."""
        return await self._act(request, _delete)

    async def _act(self, request: Request, act: _Act) -> Response:
        try:
            body = await act(await self._find(request), request)
            return Response(encode(body), 200, media_type="application/json")
        except (ZigguratError, NotAnswered) as error:
            return error_reply("responses", error, code="response_not_found")

    async def _find(self, request: Request) -> RecordedResponse:
        response_id = ResponseId.read(request.path_params["id"])
        return await RecordedResponse.find(self._agents, response_id)


def page_of(request: Request) -> str:
    return f"{request.url.scheme}://{request.headers.get('host', '')}/"


async def _read(stored: RecordedResponse, request: Request) -> Json:
    return await stored.body(page_of(request))


async def _cancel(stored: RecordedResponse, request: Request) -> Json:
    if await stored.agent.attach(stored.id.run_id).cancel():
        return stored.writer().without_answer("cancelled")
    return await _read(stored, request)


async def _delete(stored: RecordedResponse, request: Request) -> Json:
    if stored.info.status == "running":
        raise NotAnswered(409, f"the run {stored.id.run_id} is in progress; cancel it first")
    await stored.agent.delete(stored.id.run_id)
    return {"id": str(stored.id), "object": "response", "deleted": True}
