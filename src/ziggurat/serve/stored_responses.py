"""Responses of OpenAI's API that were given before: read, cancelled and deleted by their ids."""

__all__ = ["StoredResponses", "page_of"]

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from ziggurat.agents.runnable import Runnable
from ziggurat.core.codec import encode
from ziggurat.core.errors import ConfigurationError, ZigguratError
from ziggurat.core.store import LogInfo, run_log
from ziggurat.serve.answers import NotAnswered
from ziggurat.serve.input_items import input_page
from ziggurat.serve.live_responses import LiveResponses
from ziggurat.serve.recorded_speech import say_recorded
from ziggurat.serve.replies import error_reply
from ziggurat.serve.response_ids import ResponseId
from ziggurat.serve.response_streams import ResponseStream, recorded_events
from ziggurat.serve.served import ServedAgents
from ziggurat.serve.sse import Closing
from ziggurat.wires.responses import ResponsesWriter
from ziggurat.wires.server_items import ReplyParts, ReplyPiece
from ziggurat.wires.types import Json, ReplyHead


class _Stored(Struct, frozen=True):
    """A response on record: the agent and the header of its run."""

    id: ResponseId
    agent: Runnable[Any]
    info: LogInfo

    def writer(self) -> ResponsesWriter:
        body = {"metadata": {name: str(value) for name, value in self.info.labels.items()}}
        return ResponsesWriter(ReplyHead(self.id.suffix, self.info.agent, body, int(self.info.created)))


Act = Callable[[_Stored, Request], Awaitable[Json]]


class StoredResponses:
    """The routes of single responses: each is a run on record, or what went on with one.

    Args:
        agents: The agents that give them.
        live: Those that are given in the background here.
        closing: Tells when the server ends.
    """

    def __init__(self, agents: ServedAgents, live: LiveResponses, closing: Closing) -> None:
        self._agents = agents
        self._live = live
        self._closing = closing

    async def read(self, request: Request) -> ResponseStream | Response:
        """Return a response as it is now, or its events."""
        if request.query_params.get("stream", "false").lower() != "true":
            return await self._act(request, _read)
        try:
            stored = await self._find(request)
            after = _number(request, "starting_after", -1)
        except ZigguratError as error:
            return error_reply("responses", error)
        live = self._live.find(str(stored.id))
        if live is not None:
            return ResponseStream(live.follow(after), self._closing)
        events = recorded_events(stored.agent, stored.id, stored.writer(), after, page_of(request))
        return ResponseStream(events, self._closing)

    async def list_input(self, request: Request) -> Response:
        """Return a page of what a response was given for."""
        return await self._act(request, _list_input)

    async def cancel(self, request: Request) -> Response:
        """Cancel the run of a response, unless it has ended; return the response."""
        return await self._act(request, _cancel)

    async def delete(self, request: Request) -> Response:
        """Delete the record of a run that is not in progress."""
        return await self._act(request, _delete)

    async def _act(self, request: Request, act: Act) -> Response:
        try:
            body = await act(await self._find(request), request)
            return Response(encode(body), 200, media_type="application/json")
        except (ZigguratError, NotAnswered) as error:
            return error_reply("responses", error)

    async def _find(self, request: Request) -> _Stored:
        response_id = ResponseId.read(request.path_params["id"])
        return _Stored(response_id, *await self._agents.agent_of(response_id.run_id))


def page_of(request: Request) -> str:
    """Return the address of the page of this server."""
    return f"{request.url.scheme}://{request.headers.get('host', '')}/"


def _number(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name, "")
    if text and not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ConfigurationError(f"{name} is a number, got {text!r:.50}")
    return int(text or default)


async def _read(stored: _Stored, request: Request) -> Json:
    writer = stored.writer()
    if stored.info.status == "running":
        return writer.without_answer("in_progress")
    whole = ReplyParts()

    async def say(piece: ReplyPiece) -> None:
        whole.push(piece)

    try:
        answered = await say_recorded(stored.agent, stored.id, say, page_of(request))
    except NotAnswered as error:
        return writer.without_answer("cancelled" if stored.info.status == "Cancelled" else "failed", str(error))
    return writer.plain(whole.parts(), answered.finish, answered.usage)


async def _list_input(stored: _Stored, request: Request) -> Json:
    limit = _number(request, "limit", 20)
    order, after = request.query_params.get("order", "desc"), request.query_params.get("after")
    return input_page(await stored.agent.record(stored.id.run_id), stored.agent, stored.id, limit, order, after)


async def _cancel(stored: _Stored, request: Request) -> Json:
    if await stored.agent.attach(stored.id.run_id).cancel():
        return stored.writer().without_answer("cancelled")
    return await _read(stored, request)


async def _delete(stored: _Stored, request: Request) -> Json:
    if stored.info.status == "running":
        raise NotAnswered(409, f"the run {stored.id.run_id} is in progress; cancel it first")
    await stored.agent.store.delete(run_log(stored.id.run_id))
    return {"id": str(stored.id), "object": "response", "deleted": True}
