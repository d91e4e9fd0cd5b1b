"""Responses of OpenAI's API that were given before: read, cancelled and deleted by their ids."""

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response

from ziggurat.core.codec import encode
from ziggurat.core.errors import ZigguratError
from ziggurat.core.store import run_log
from ziggurat.serve.ids import read_number
from ziggurat.serve.openai.answers import NotAnswered
from ziggurat.serve.openai.live_responses import LiveResponses
from ziggurat.serve.openai.recorded_responses import RecordedResponse
from ziggurat.serve.openai.replies import error_reply
from ziggurat.serve.openai.response_ids import ResponseId
from ziggurat.serve.openai.response_streams import ResponseStream, recorded_events
from ziggurat.serve.served import ServedAgents
from ziggurat.wires.types import Json

Act = Callable[[RecordedResponse, Request], Awaitable[Json]]


class StoredResponses:
    """The routes of single responses: each is a run on record, or what went on with one."""

    def __init__(self, agents: ServedAgents, live: LiveResponses) -> None:
        self._agents = agents
        self._live = live

    async def read(self, request: Request) -> ResponseStream | Response:
        """Return a response as it is now, or its events."""
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
        events = recorded_events(stored.agent, stored.id, stored.writer(), after, page_of(request))
        return ResponseStream(events, self._agents.closing)

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
            return error_reply("responses", error, code="response_not_found")

    async def _find(self, request: Request) -> RecordedResponse:
        response_id = ResponseId.read(request.path_params["id"])
        return await RecordedResponse.find(self._agents, response_id)


def page_of(request: Request) -> str:
    """Return the address of the page of this server."""
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
    await stored.agent.store.delete(run_log(stored.id.run_id))
    return {"id": str(stored.id), "object": "response", "deleted": True}
