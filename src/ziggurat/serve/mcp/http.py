"""MCP by HTTP: one address, where each message is a request, answered by JSON, or by a stream if there is something to
say before."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ziggurat.core.tasks import end_all
from ziggurat.mcp import wire
from ziggurat.mcp.headers import HeaderOf, mirrored, read_value
from ziggurat.serve import guard, sse
from ziggurat.serve.mcp.caller import NoSession, Params, Session
from ziggurat.serve.mcp.calls import ServerEnds
from ziggurat.serve.mcp.contents import Json
from ziggurat.serve.mcp.legacy import LegacyEra
from ziggurat.serve.mcp.methods import Methods, error_for
from ziggurat.serve.mcp.modern import ModernEra, is_modern
from ziggurat.serve.routing import route
from ziggurat.wires import jsonrpc

_SESSION = "mcp-session-id"
_VERSION = "mcp-protocol-version"
_MOST = 1_000  # messages that wait for a client that does not read; further notifications are dropped
_PATIENCE = 1.0
"""Seconds after which an answer becomes a stream, so that a client whose connection is cut can go on with it."""


class _Exchange:
    """An answer as an ASGI application, which does the work for it; a client that goes away cancels the work."""

    def __init__(
        self, request_id: jsonrpc.Id | None, closing: sse.Closing, *, modern: bool, streams: bool = False
    ) -> None:
        self.work: Callable[[], Awaitable[Json]]
        self.place: str = ""  # by which the client can come back for the answer
        self._request_id = request_id
        self._closing = closing
        self._modern = modern
        self._streams = streams
        self._queue: deque[jsonrpc.Message] = deque()
        self._wake = asyncio.Event()
        self._began = False
        self._send: guard.Send

    def send(self, message: jsonrpc.Message) -> None:
        if len(self._queue) < _MOST or isinstance(message, jsonrpc.Request):
            self._queue.append(message)
            self._wake.set()

    async def __call__(self, scope: MutableMapping[str, Any], receive: guard.Receive, send: guard.Send) -> None:
        self._send = send
        if self._streams:
            await self._begin()
        working = asyncio.ensure_future(self.work())
        writing = asyncio.ensure_future(self._write())
        try:
            if await sse.attend(working, receive, self._closing, self._keep_alive) and not working.done():
                return
            await asyncio.wait([working], timeout=1.0)  # the server ends, which the work learns of as well
            status, answer = self._answer(working)
            await end_all([writing])
            if answer is None and self.place:
                await self._begin()
            if self._began or self._queue:
                await self._flush()
                await sse.write(send, b"" if answer is None else _event(answer), more=False)
            else:
                await _reply(answer, status)(scope, receive, send)
        finally:
            await end_all([working, writing])

    def _answer(self, working: "asyncio.Future[Json]") -> tuple[int, jsonrpc.Message | None]:
        if self._request_id is None or working.cancelled():
            return 202, None
        try:
            if not working.done():
                raise ServerEnds("the server ends")
            return 200, jsonrpc.Success(self._request_id, working.result())
        except Exception as error:  # noqa: BLE001 - of whatever a request fails, its client gets an answer
            if self.place and isinstance(error, ServerEnds):
                return 200, None
            failure = error_for(error)
            return self._status_of(failure), failure.answer(self._request_id)

    def _status_of(self, error: jsonrpc.JsonRpcError) -> int:
        if not self._modern:
            return 200
        if error.code == jsonrpc.INTERNAL_ERROR:
            return 503 if isinstance(error.data, dict) and "retryAfterMs" in error.data else 500
        return 404 if error.code == jsonrpc.METHOD_NOT_FOUND else 400

    async def _write(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                await self._wake.wait()
        if self.place:
            await self._begin()
        while True:
            await self._wake.wait()
            self._wake.clear()
            await self._flush()

    async def _flush(self) -> None:
        while self._queue:
            await self._begin()
            await sse.write(self._send, _event(self._queue.popleft()))

    async def _begin(self) -> None:
        if self._began:
            return
        self._began = True
        await sse.begin(self._send)
        if self.place:
            await sse.write(self._send, b"retry: 500\nid: %b\ndata: \n\n" % self.place.encode())

    async def _keep_alive(self) -> None:
        await self._begin()
        await sse.write(self._send, sse.KEEP_ALIVE)


def _event(message: jsonrpc.Message) -> bytes:
    return b"event: message\ndata: %b\n\n" % jsonrpc.write(message)


def _reply(message: jsonrpc.Message | None, status: int, headers: Mapping[str, str] | None = None) -> Response:
    body = b"" if message is None else jsonrpc.write(message)
    if status == 503:
        headers = {"retry-after": "1"}
    return Response(body, status, headers, "application/json")


class _Endpoint:
    def __init__(self, methods: Methods) -> None:
        self._methods = methods
        self._closing = methods.agents.closing
        self._modern = ModernEra(methods)
        self._legacy = LegacyEra(methods)

    async def post(self, request: Request) -> Response | _Exchange:
        message = jsonrpc.read(await request.body())
        if not isinstance(message, jsonrpc.Request):
            return await self._accept(request.headers, message)
        try:
            params = jsonrpc.parse(message.params, Params)
            version = request.headers.get(_VERSION)
            modern = is_modern(message.method, params) if version is None else version not in wire.LEGACY
            return (self._answer_modern if modern else self._answer_legacy)(request.headers, message, params)
        except jsonrpc.JsonRpcError as error:
            return _refusal(error, message.id)

    async def get(self, request: Request) -> Response | _Exchange:
        """Answer with a stream, in the era of sessions: the rest of one that was cut, or of what changes."""
        if _SESSION not in request.headers:
            return Response(status_code=405, headers={"allow": "POST"})
        session = self._session(request.headers)
        if (place := request.headers.get("last-event-id")) is not None:
            return self._rest(place, session)
        exchange = _Exchange(None, self._closing, modern=False, streams=True)
        exchange.work = lambda: self._legacy.follow(session, exchange.send)
        return exchange

    async def delete(self, request: Request) -> Response:
        if _SESSION not in request.headers:
            return Response(status_code=405, headers={"allow": "POST"})
        self._session(request.headers).ended = True
        return Response(status_code=204)

    # -- requests ------------------------------------------------------------------------------------------------

    def _answer_modern(self, headers: Mapping[str, str], message: jsonrpc.Request, params: Params) -> _Exchange:
        wanted = self._methods.headers.get(params.name, ()) if message.method == "tools/call" else ()
        _check_headers(headers, message.method, params, wanted)
        exchange = _Exchange(message.id, self._closing, modern=True)
        caller = self._modern.caller(params, exchange.send)
        exchange.work = lambda: self._modern.answer(message.method, params, caller, message.id)
        return exchange

    def _answer_legacy(
        self, headers: Mapping[str, str], message: jsonrpc.Request, params: Params
    ) -> Response | _Exchange:
        if message.method == "initialize":
            session = self._legacy.sessions.create(params)
            return _reply(jsonrpc.Success(message.id, self._legacy.initialized(session)), 200, {_SESSION: session.name})
        session = self._session(headers)
        exchange = _Exchange(message.id, self._closing, modern=False)

        def begun(run_id: str) -> None:
            exchange.place = self._legacy.place_of(run_id, message.id, session)

        caller = session.caller(exchange.send, params)
        caller.begun = begun
        exchange.work = lambda: self._legacy.answer(message, params, caller, session)
        return exchange

    def _rest(self, place: str, session: Session) -> _Exchange:
        run_id, request_id = self._legacy.read_place(place, session)
        exchange = _Exchange(request_id, self._closing, modern=False, streams=True)
        exchange.place = place
        caller = session.caller(exchange.send, Params())
        exchange.work = lambda: self._legacy.come_back(run_id, caller)
        return exchange

    async def _accept(self, headers: Mapping[str, str], message: jsonrpc.Message) -> Response:
        if isinstance(message, jsonrpc.Success | jsonrpc.Failure):
            await self._legacy.respond(message)
        elif isinstance(message, jsonrpc.Notification) and headers.get(_VERSION, wire.LEGACY[0]) in wire.LEGACY:
            await self._legacy.notified(message, self._session(headers))
        return Response(status_code=202)

    def _session(self, headers: Mapping[str, str]) -> Session:
        name, version = headers.get(_SESSION), headers.get(_VERSION, wire.LEGACY[2])
        if version not in wire.LEGACY:
            raise jsonrpc.JsonRpcError(f"a revision here is one of {', '.join(wire.LEGACY)}", jsonrpc.INVALID_REQUEST)
        return self._legacy.sessions.find(name) if name else Session(version, {})


def _refusal(error: jsonrpc.JsonRpcError, request_id: jsonrpc.Id | None = None) -> Response:
    return _reply(error.answer(request_id), 404 if isinstance(error, NoSession) else 400)


def mcp_routes(methods: Methods) -> list[Route]:
    own = _Endpoint(methods)

    def refusing(handler: Callable[[Request], Awaitable[Response | _Exchange]]) -> Any:
        async def answer(request: Request) -> Response | _Exchange:
            try:
                return await handler(request)
            except jsonrpc.JsonRpcError as error:
                return _refusal(error)

        return answer

    handlers = {"POST": own.post, "GET": own.get, "DELETE": own.delete}
    return [route(method, "/mcp", refusing(handler)) for method, handler in handlers.items()]


def _check_headers(headers: Mapping[str, str], method: str, params: Params, wanted: tuple[HeaderOf, ...]) -> None:
    """Check the headers of a request, by which proxies decide, against its body."""
    version = params.meta.get(wire.PREFIX + "protocolVersion")
    if not isinstance(version, str):
        return  # which is refused for itself
    named = {"name": params.name, "uri": params.uri, "taskId": params.task_id}
    expected = {_VERSION: version, **dict(mirrored(method, named))}
    expected |= {name: value for each in wanted for name, value in each.values(params.arguments)}
    for name in (*expected, *(each.key for each in wanted)):
        found, value = [None if each is None else read_value(each) for each in (headers.get(name), expected.get(name))]
        if found != value:
            raise jsonrpc.JsonRpcError(f"the header {name} does not match the body", wire.HEADER_MISMATCH)
