"""HttpTransport: a server behind a URL; each message is a request of its own, which may be answered by a stream."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol
from urllib.parse import urlsplit

from ziggurat.core.context import Context, root
from ziggurat.core.errors import ModelError, ToolError, ToolErrorKind, ZigguratError
from ziggurat.core.jsonrpc import Failure, JsonRpcError, Message, Notification, Request, Success, read, write
from ziggurat.core.log import logger
from ziggurat.http.client import Client, HttpReply
from ziggurat.http.limits import Limits
from ziggurat.http.sse import EventParser
from ziggurat.mcp.headers import header_value
from ziggurat.mcp.wire import CANCELLED, MAX_MESSAGE, MAX_NOISE, MODERN, Headers, Receive, ServerGone, SessionLost

_ACCEPT = (("content-type", "application/json"), ("accept", "application/json, text/event-stream"))
_LIMITS = Limits(idle=None, total=None, reply=MAX_MESSAGE, stream=1 << 30)
_RECONNECTS = 10
"""How often in a row a stream that brought nothing is asked for again."""

_FAREWELL = 1.0
_LONGEST_RETRY = 60.0
_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri", "tasks/get": "taskId"}
_NAMED |= {"tasks/update": "taskId", "tasks/cancel": "taskId"}


class Authorization(Protocol):
    """Gives the credentials of requests."""

    async def headers(self, url: str, ctx: Context) -> Headers:
        """Return the headers of a request, if credentials are there."""
        ...

    async def refused(self, reply: HttpReply, url: str, ctx: Context) -> bool:
        """Get other credentials after a reply of 401 or 403; return whether there are any."""
        ...


def tool_error(error: ZigguratError, name: str) -> ToolError:
    """Return the error of the HTTP client as that of a tool."""
    if isinstance(error, ToolError):
        return error
    kind: ToolErrorKind = "transient" if not error.sent else "interrupted"
    if isinstance(error, ModelError) and error.kind == "malformed":
        kind = "permanent"
    return ToolError(f"the MCP server {name}: {error}", kind=kind)


class HttpTransport:
    """A server that is asked over HTTP."""

    def __init__(
        self,
        name: str,
        url: str,
        headers: Mapping[str, str],
        authorization: Authorization | None,
        receive: Receive,
        ended: Callable[[], None],
    ) -> None:
        parts = urlsplit(url)
        self.revision: str = ""
        self.session: str = ""
        self.gone: bool = False
        self.receive: Receive = receive
        self.name: str = name
        self._url = url
        self._path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._client = Client(url, name=name, limits=_LIMITS)
        self._own: Headers = tuple((key.lower(), value) for key, value in headers.items())
        self._authorization = authorization
        self._ended = ended
        self._posting: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Do nothing: each request opens a connection or takes one that is open."""

    async def begin(self, request: Request, headers: Headers, ctx: Context) -> "_Reply":
        """Send a request, and return its reply once the head has arrived."""
        reply = await self.send("POST", (*headers, *self._mirrored(request)), write(request), ctx)
        if request.method == "initialize" and (session := reply.headers.get("mcp-session-id")):
            self.session = session
        return _Reply(self, request, reply, ctx)

    def _mirrored(self, message: Message) -> Headers:
        """Return the headers that repeat what a message is; only the newer era has them."""
        if self.revision != MODERN or not isinstance(message, (Request, Notification)):
            return ()
        field = _NAMED.get(message.method)
        name = None if field is None else message.params.get(field)
        named = (("mcp-name", header_value(name)),) if isinstance(name, str) else ()
        return (("mcp-method", message.method), *named)

    async def send(self, method: str, headers: Headers, body: bytes, ctx: Context) -> HttpReply:
        """Send a request with all headers that each one has; authorize, if the server asks for that.

        Raises:
            SessionLost: the server does not know the session any more.
            ToolError: the server cannot be reached.
        """
        common = list(self._own)
        if self.revision:
            common.append(("mcp-protocol-version", self.revision))
        if self.session:
            common.append(("mcp-session-id", self.session))
        for tries in range(4):
            granted = () if self._authorization is None else await self._authorization.headers(self._url, ctx)
            try:
                reply = await self._client.send(
                    method, self._path, (*_ACCEPT, *common, *granted, *headers), body, ctx, stream=True
                )
            except ZigguratError as error:
                raise tool_error(error, self.name) from error
            if reply.status not in (401, 403) or self._authorization is None or tries == 3:
                break
            try:
                if not await self._authorization.refused(reply, self._url, ctx):
                    break
            finally:
                await reply.end(whole=True)
        if reply.status == 404 and self.session:
            await reply.end(whole=True)
            self.drop()
            raise SessionLost(f"the MCP server {self.name} does not know the session any more", kind="transient")
        return reply

    async def tell(self, message: Message) -> None:
        """Send a message without an answer."""
        reply = await self.send("POST", self._mirrored(message), write(message), root("mcp"))
        await reply.end(whole=True)

    def post(self, message: Message) -> None:
        """Send a message for which nobody waits."""
        task = asyncio.get_running_loop().create_task(self._tell_briefly(message))
        self._posting.add(task)
        task.add_done_callback(self._posting.discard)

    async def _tell_briefly(self, message: Message) -> None:
        with suppress(ZigguratError):
            async with root("mcp").limit(_FAREWELL):
                await self.tell(message)

    def drop(self) -> None:
        """End, because the session is lost."""
        self.session = ""
        if not self.gone:
            self.gone = True
            self._ended()

    async def close(self) -> None:
        """End the session, if there is one, and close all connections."""
        self.gone = True
        try:
            if self._posting:
                await asyncio.wait([*self._posting], timeout=_FAREWELL)
            if self.session:
                with suppress(ZigguratError):
                    async with root("mcp").limit(_FAREWELL) as ctx:
                        await (await self.send("DELETE", (), b"", ctx)).end(whole=True)
        finally:
            await self._client.close()


class _Reply:
    """The messages in a reply: one, or those of a stream, which is asked for again where it was cut."""

    def __init__(self, home: HttpTransport, request: Request, reply: HttpReply, ctx: Context) -> None:
        self._home, self._request, self._reply, self._ctx = home, request, reply, ctx
        self._streams = reply.headers.get("content-type", "").partition(";")[0].strip() == "text/event-stream"
        self._parser = EventParser()
        self._messages: deque[Message] = deque()
        self._last, self._retry, self._empty, self._noise = "", 1.0, 0, 0

    async def next(self) -> Message:
        """Return the next message."""
        while not self._messages:
            if self._streams and self._reply.status < 300:
                await self._read_events()
            else:
                return await self._only_message()
        return self._messages.popleft()

    async def _only_message(self) -> Message:
        name, status = self._home.name, self._reply.status
        body = await self._received(self._reply.read)
        try:
            message = read(body)
            if isinstance(message, Failure) or (isinstance(message, Success) and message.id == self._request.id):
                return message
        except JsonRpcError as error:
            if status < 300:
                raise ToolError(f"the MCP server {name} sent what is no message: {error}") from None
        if status == 401:
            raise ToolError(f"the MCP server {name} wants to know who asks: it answered 401", kind="denied")
        if status < 300:
            raise ToolError(f"the MCP server {name} answered another request than it was asked")
        kind: ToolErrorKind = "transient" if status in (408, 425, 429, 502, 503, 504) else "permanent"
        raise ToolError(f"the MCP server {name} answered {status}", kind=kind)

    async def _read_events(self) -> None:
        data = await self._received(self._reply.more)
        events = self._parser.feed(data) if data else self._parser.close()
        if self._parser.held > MAX_MESSAGE:
            raise ServerGone(f"the MCP server {self._home.name} sent too large a message", kind="interrupted")
        if self._parser.retry is not None:
            self._retry = min(self._parser.retry / 1_000, _LONGEST_RETRY)
        self._last = self._parser.last_id or self._last
        for event in events:
            if event.data.strip():
                self._take(event.data)
        if not data and not any(isinstance(each, (Success, Failure)) for each in self._messages):
            await self._reconnect()

    def _take(self, data: str) -> None:
        try:
            message = read(data)
        except JsonRpcError as error:
            raise ToolError(f"the MCP server {self._home.name} sent what is no message: {error}") from None
        mine = not isinstance(message, (Success, Failure)) or message.id == self._request.id
        if isinstance(message, Request) or (mine and not isinstance(message, Notification)):
            self._messages.append(message)
        elif isinstance(message, Notification):
            if message.method == "notifications/progress":
                self._messages.append(message)
            else:
                self._home.receive(message)
        self._empty = 0
        self._noise += 1
        if self._noise > MAX_NOISE:
            raise ServerGone(f"the MCP server {self._home.name} sent too many messages", kind="interrupted")

    async def _reconnect(self) -> None:
        """Go on with the stream where it was cut; only the era of sessions has that."""
        home = self._home
        self._empty += 1
        if home.revision == MODERN or not self._last or self._empty > _RECONNECTS:
            raise ToolError(f"the MCP server {home.name} ended its reply without an answer", kind="interrupted")
        await self._reply.end(whole=True)
        await self._ctx.clock.sleep(self._retry)
        logger.debug("the stream of the MCP server %s was cut and is asked for again", home.name)
        self._reply = await home.send("GET", (("last-event-id", self._last),), b"", self._ctx)
        self._parser = EventParser()

    async def _received(self, receive: Any) -> bytes:
        try:
            return bytes(await receive())
        except ZigguratError as error:
            raise tool_error(error, self._home.name) from error

    async def end(self, *, answered: bool) -> None:
        """End the reply; in the era of sessions, say that its answer is not wanted."""
        home = self._home
        await self._reply.end(whole=answered)
        if not answered and home.revision != MODERN and not home.gone:
            home.post(Notification(CANCELLED, {"requestId": self._request.id}))
