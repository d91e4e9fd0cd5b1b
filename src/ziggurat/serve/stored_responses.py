"""Responses of OpenAI's API that were given before: read, cancelled and deleted by their ids."""

__all__ = ["StoredResponses", "run_id_of"]

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from ziggurat.agents.runnable import Runnable
from ziggurat.core.codec import encode
from ziggurat.core.errors import ZigguratError
from ziggurat.core.journal import LocalJournal
from ziggurat.core.store import LogInfo, run_log
from ziggurat.messages.delta import Fold, PartDelta
from ziggurat.serve.conversations import NotAnswered, say_recorded
from ziggurat.serve.ids import check_id
from ziggurat.serve.replies import error_reply
from ziggurat.serve.served import ServedAgents
from ziggurat.wires.responses import ResponsesWriter
from ziggurat.wires.types import Json, ReplyHead

Act = Callable[[Runnable[Any], LogInfo, str, Request], Awaitable[Json]]


def run_id_of(response_id: str) -> str:
    """Return the id of the run that gave a response.

    Raises:
        ConfigurationError: it is not the id of a response.
    """
    return check_id(response_id.removeprefix("resp_"))


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
            run_id = run_id_of(request.path_params["id"])
            agent, info = await self._agents.agent_of(run_id)
            return Response(encode(await act(agent, info, run_id, request)), 200, media_type="application/json")
        except (ZigguratError, NotAnswered) as error:
            return error_reply("responses", error)


async def _read(agent: Runnable[Any], info: LogInfo, run_id: str, request: Request) -> Json:
    if request.query_params.get("stream", "false").lower() == "true":
        raise NotAnswered(400, f"a response on record is read as a whole; its events are at /runs/{run_id}/events")
    writer = _writer(info, run_id)
    if info.status == "running":
        return writer.without_answer("in_progress")
    whole = Fold()

    async def say(piece: PartDelta) -> None:
        whole.push(piece)

    page = f"{request.url.scheme}://{request.headers.get('host', '')}/"
    try:
        entries = LocalJournal.load(await agent.record(run_id)).entries
        answered = await say_recorded(await agent.attach(run_id).result(), entries, say, page)
    except NotAnswered as error:
        return writer.without_answer("cancelled" if info.status == "Cancelled" else "failed", str(error))
    return writer.plain(whole.message(), answered.finish, answered.usage)


async def _cancel(agent: Runnable[Any], info: LogInfo, run_id: str, request: Request) -> Json:
    if await agent.attach(run_id).cancel():
        return _writer(info, run_id).without_answer("cancelled")
    return await _read(agent, info, run_id, request)


async def _delete(agent: Runnable[Any], info: LogInfo, run_id: str, request: Request) -> Json:
    if info.status == "running":
        raise NotAnswered(409, f"the run {run_id} is in progress; cancel it first")
    await agent.store.delete(run_log(run_id))
    return {"id": f"resp_{run_id}", "object": "response", "deleted": True}


def _writer(info: LogInfo, run_id: str) -> ResponsesWriter:
    return ResponsesWriter(ReplyHead(run_id, info.agent, {}, int(info.created)))
