"""MCP by HTTP: one address, where each message is a request."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from ziggurat.core.jsonrpc import (
    INVALID_REQUEST,
    Failure,
    Id,
    JsonRpcError,
    Message,
    Notification,
    Request,
    Success,
    parse,
    read,
)
from ziggurat.serve.mcp.caller import LEGACY, PREFIX, Params
from ziggurat.serve.mcp.exchange import Exchange, json_reply
from ziggurat.serve.mcp.headers import VERSION, check_headers
from ziggurat.serve.mcp.legacy import LegacyEra
from ziggurat.serve.mcp.methods import Methods
from ziggurat.serve.mcp.modern import ModernEra
from ziggurat.serve.mcp.sessions import NoSession, Session
from ziggurat.serve.routing import route

_SESSION = "mcp-session-id"


class _Endpoint:
    """The address at which clients of MCP are served."""

    def __init__(self, methods: Methods) -> None:
        self._methods = methods
        self._closing = methods.agents.closing
        self._modern = ModernEra(methods)
        self._legacy = LegacyEra(methods)

    async def post(self, request: HttpRequest) -> Response | Exchange:
        message = read(await request.body())
        if not isinstance(message, Request):
            return await self._accept(request.headers, message)
        try:
            params = parse(message.params, Params)
            answer = self._answer_modern if _is_modern(request.headers, message, params) else self._answer_legacy
            return answer(request.headers, message, params)
        except JsonRpcError as error:
            return _refusal(error, message.id)

    async def get(self, request: HttpRequest) -> Response | Exchange:
        """Answer with a stream, in the era of sessions: the rest of one that was cut, or of what changes."""
        if _SESSION not in request.headers:
            return Response(status_code=405, headers={"allow": "POST"})
        session = self._session(request.headers)
        if (place := request.headers.get("last-event-id")) is not None:
            return self._rest(place, session)
        exchange = Exchange(None, self._closing, modern=False, streams=True)
        exchange.work = lambda: self._legacy.follow(session, exchange.send)
        return exchange

    async def delete(self, request: HttpRequest) -> Response:
        """End a session."""
        if _SESSION not in request.headers:
            return Response(status_code=405, headers={"allow": "POST"})
        self._session(request.headers).ended = True
        return Response(status_code=204)

    # -- requests ------------------------------------------------------------------------------------------------

    def _answer_modern(self, headers: Mapping[str, str], message: Request, params: Params) -> Exchange:
        tool = self._methods.offered["tools/call"].get(params.name) if message.method == "tools/call" else None
        check_headers(headers, message.method, params, None if tool is None else tool.spec.parameters)
        caller = self._modern.caller(params)
        exchange = Exchange(message.id, self._closing, modern=True)
        caller.send = exchange.send
        exchange.work = lambda: self._modern.answer(message.method, params, caller, message.id)
        return exchange

    def _answer_legacy(self, headers: Mapping[str, str], message: Request, params: Params) -> Response | Exchange:
        if message.method == "initialize":
            session = self._legacy.sessions.create(params)
            return json_reply(Success(message.id, self._legacy.initialized(session)), 200, {_SESSION: session.name})
        session = self._session(headers)
        exchange = Exchange(message.id, self._closing, modern=False)

        def begun(run_id: str) -> None:
            exchange.place = self._legacy.place_of(run_id, message.id, session)

        caller = session.caller(exchange.send, params)
        caller.begun = begun
        exchange.work = lambda: self._legacy.answer(message, params, caller, session)
        return exchange

    def _rest(self, place: str, session: Session) -> Exchange:
        """Return the rest of a stream that was cut: the answer to its request."""
        run_id, request_id = self._legacy.read_place(place, session)
        exchange = Exchange(request_id, self._closing, modern=False, streams=True)
        exchange.place = place
        caller = session.caller(exchange.send, Params())
        exchange.work = lambda: self._legacy.come_back(run_id, caller)
        return exchange

    async def _accept(self, headers: Mapping[str, str], message: Message) -> Response:
        """Take a notification, or a response to a request of ours."""
        if isinstance(message, Success | Failure):
            await self._legacy.respond(message)
        elif isinstance(message, Notification) and headers.get(VERSION, LEGACY[0]) in LEGACY:
            await self._legacy.notified(message, self._session(headers))
        return Response(status_code=202)

    def _session(self, headers: Mapping[str, str]) -> Session:
        """Return the session that a request names; raises NoSession if there is none."""
        name, version = headers.get(_SESSION), headers.get(VERSION, LEGACY[2])
        if version not in LEGACY:
            raise JsonRpcError(f"the revision {version[:50]!r} is unknown here: {', '.join(LEGACY)}", INVALID_REQUEST)
        return self._legacy.sessions.find(name) if name else Session(version, {})


def _refusal(error: JsonRpcError, request_id: Id | None = None) -> Response:
    """Return the answer to a request that is not worked on."""
    return json_reply(error.answer(request_id), 404 if isinstance(error, NoSession) else 400)


def _is_modern(headers: Mapping[str, str], message: Request, params: Params) -> bool:
    version = headers.get(VERSION)
    if version is not None:
        return version not in LEGACY
    return PREFIX + "protocolVersion" in params.meta or message.method in ("server/discover", "subscriptions/listen")


def mcp_routes(methods: Methods) -> list[Route]:
    own = _Endpoint(methods)

    def refusing(handler: Callable[[HttpRequest], Awaitable[Response | Exchange]]) -> Any:
        async def answer(request: HttpRequest) -> Response | Exchange:
            try:
                return await handler(request)
            except JsonRpcError as error:
                return _refusal(error)

        return answer

    handlers = {"POST": own.post, "GET": own.get, "DELETE": own.delete}
    return [route(method, "/mcp", refusing(handler)) for method, handler in handlers.items()]
