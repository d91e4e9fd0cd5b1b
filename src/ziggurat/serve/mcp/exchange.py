"""Exchange: one request by HTTP and its answer, which is JSON, or a stream if there is something to say before it."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from typing import Any

from starlette.responses import Response

from ziggurat.core.jsonrpc import (
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    Id,
    JsonRpcError,
    Message,
    Request,
    Success,
    write as write_message,
)
from ziggurat.serve.guard import Receive, Send
from ziggurat.serve.mcp.calls import ServerEnds
from ziggurat.serve.mcp.contents import Json
from ziggurat.serve.mcp.methods import error_for
from ziggurat.serve.sse import KEEP_ALIVE, Closing, attend, begin, write

_MOST = 1_000
"""Messages that wait for a client that does not read; further notifications are dropped."""

_PATIENCE = 1.0
"""Seconds after which an answer becomes a stream, so that a client whose connection is cut can go on with it."""


class Exchange:
    """An answer as an ASGI application, which does the work for it when it is called.

    A client that goes away cancels the work.
    """

    def __init__(self, request_id: Id | None, closing: Closing, *, modern: bool, streams: bool = False) -> None:
        self.work: Callable[[], Awaitable[Json]]
        self.place: str = ""  # by which the client can come back for the answer
        self._request_id = request_id
        self._closing = closing
        self._modern = modern
        self._streams = streams
        self._queue: deque[Message] = deque()
        self._wake = asyncio.Event()
        self._began = False
        self._send: Send

    def send(self, message: Message) -> None:
        """Send a message before the answer."""
        if len(self._queue) < _MOST or isinstance(message, Request):
            self._queue.append(message)
            self._wake.set()

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        self._send = send
        if self._streams:
            await self._begin()
        working = asyncio.ensure_future(self.work())
        writing = asyncio.ensure_future(self._write())
        try:
            if await attend(working, receive, self._closing, self._keep_alive) and not working.done():
                return
            await asyncio.wait([working], timeout=1.0)  # the server ends, which the work learns of as well
            status, answer = self._answer(working)
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
            if answer is None and self.place:
                await self._begin()
            if self._began or self._queue:
                await self._flush()
                await write(send, b"" if answer is None else _event(answer), more=False)
            else:
                await json_reply(answer, status)(scope, receive, send)
        finally:
            for task in (working, writing):
                task.cancel()
            await asyncio.gather(working, writing, return_exceptions=True)

    def _answer(self, working: "asyncio.Future[Json]") -> tuple[int, Message | None]:
        """Return the answer, and its status; none if the request was cancelled, or the client is to come back."""
        if self._request_id is None or working.cancelled():
            return 202, None
        try:
            if not working.done():
                raise ServerEnds("the server ends")
            return 200, Success(self._request_id, working.result())
        except Exception as error:  # noqa: BLE001 - of whatever a request fails, its client gets an answer
            if self.place and isinstance(error, ServerEnds):
                return 200, None
            failure = error_for(error)
            return self._status_of(failure), failure.answer(self._request_id)

    def _status_of(self, error: JsonRpcError) -> int:
        if not self._modern:
            return 200
        if error.code == INTERNAL_ERROR:
            return 503 if isinstance(error.data, dict) and "retryAfterMs" in error.data else 500
        return 404 if error.code == METHOD_NOT_FOUND else 400

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
            await write(self._send, _event(self._queue.popleft()))

    async def _begin(self) -> None:
        if self._began:
            return
        self._began = True
        await begin(self._send)
        if self.place:
            await write(self._send, b"retry: 500\nid: %b\ndata: \n\n" % self.place.encode())

    async def _keep_alive(self) -> None:
        await self._begin()
        await write(self._send, KEEP_ALIVE)


def _event(message: Message) -> bytes:
    return b"event: message\ndata: %b\n\n" % write_message(message)


def json_reply(message: Message | None, status: int, headers: Mapping[str, str] | None = None) -> Response:
    body = b"" if message is None else write_message(message)
    if status == 503:
        headers = {"retry-after": "1"}
    return Response(body, status, headers, "application/json")
