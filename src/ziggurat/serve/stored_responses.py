"""Responses of OpenAI's API that were given before: read, cancelled and deleted by their ids."""

__all__ = ["StoredResponses"]

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from ziggurat.agents.runnable import Runnable
from ziggurat.core.codec import encode
from ziggurat.core.errors import RunNotFound, ZigguratError
from ziggurat.core.journal import LocalJournal
from ziggurat.core.store import LogInfo, run_log
from ziggurat.serve.answers import Answered, NotAnswered, conclude
from ziggurat.serve.recorded_speech import repeat_record
from ziggurat.serve.replies import error_reply
from ziggurat.serve.response_ids import ResponseId
from ziggurat.serve.run_places import RunPlace, asked_calls
from ziggurat.serve.served import ServedAgents
from ziggurat.serve.speech import Say, Speech
from ziggurat.wires.responses import ResponsesWriter
from ziggurat.wires.server_items import ReplyParts, ReplyPiece
from ziggurat.wires.types import Json, ReplyHead

Act = Callable[[Runnable[Any], LogInfo, ResponseId, Request], Awaitable[Json]]


class StoredResponses:
    """The routes of single responses: each is a run on record.

    Args:
        agents: The agents that give them.
    """

    def __init__(self, agents: ServedAgents) -> None:
        self._agents = agents

    async def read(self, request: Request) -> Response:
        """Return a response as it is now."""
        return await self._act(request, _read)

    async def cancel(self, request: Request) -> Response:
        """Cancel the run of a response, unless it has ended; return the response."""
        return await self._act(request, _cancel)

    async def delete(self, request: Request) -> Response:
        """Delete the record of a run that is not in progress."""
        return await self._act(request, _delete)

    async def _act(self, request: Request, act: Act) -> Response:
        try:
            response_id = ResponseId.read(request.path_params["id"])
            agent, info = await self._agents.agent_of(response_id.run_id)
            return Response(encode(await act(agent, info, response_id, request)), 200, media_type="application/json")
        except (ZigguratError, NotAnswered) as error:
            return error_reply("responses", error)


async def _read(agent: Runnable[Any], info: LogInfo, response_id: ResponseId, request: Request) -> Json:
    if request.query_params.get("stream", "false").lower() == "true":
        where = f"/runs/{response_id.run_id}/events"
        raise NotAnswered(400, f"a response on record is read as a whole; its events are at {where}")
    writer = _writer(info, response_id)
    if info.status == "running":
        return writer.without_answer("in_progress")
    whole = ReplyParts()

    async def say(piece: ReplyPiece) -> None:
        whole.push(piece)

    page = f"{request.url.scheme}://{request.headers.get('host', '')}/"
    try:
        answered = await _say_recorded(agent, response_id, say, page)
    except NotAnswered as error:
        return writer.without_answer("cancelled" if info.status == "Cancelled" else "failed", str(error))
    return writer.plain(whole.parts(), answered.finish, answered.usage)


async def _say_recorded(agent: Runnable[Any], response_id: ResponseId, say: Say, page: str) -> Answered:
    """Say a response whose run is on record, and has ended or waits, as it was said when it was given.

    Raises:
        NotAnswered: it failed or was cancelled.
        RunNotFound: the record has no such place.
    """
    record = await agent.record(response_id.run_id)
    entries = LocalJournal.load(record).entries
    if response_id.after > len(entries):
        raise RunNotFound(f"there is no response {response_id}")
    before = b"".join(record.splitlines(keepends=True)[: response_id.after])
    place = replace(RunPlace.after(before, agent.name), asked=asked_calls(entries))
    speech = Speech(agent.name, say, place)
    await repeat_record(entries, agent.name, speech, response_id.after)
    answered = await conclude(await agent.attach(response_id.run_id).result(), speech, page)
    return replace(answered, usage=place.since(answered.usage))


async def _cancel(agent: Runnable[Any], info: LogInfo, response_id: ResponseId, request: Request) -> Json:
    if await agent.attach(response_id.run_id).cancel():
        return _writer(info, response_id).without_answer("cancelled")
    return await _read(agent, info, response_id, request)


async def _delete(agent: Runnable[Any], info: LogInfo, response_id: ResponseId, request: Request) -> Json:
    if info.status == "running":
        raise NotAnswered(409, f"the run {response_id.run_id} is in progress; cancel it first")
    await agent.store.delete(run_log(response_id.run_id))
    return {"id": str(response_id), "object": "response", "deleted": True}


def _writer(info: LogInfo, response_id: ResponseId) -> ResponsesWriter:
    return ResponsesWriter(ReplyHead(response_id.suffix, info.agent, {}, int(info.created)))
