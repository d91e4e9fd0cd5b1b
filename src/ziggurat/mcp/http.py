"""HttpTransport: a server behind a URL; each message is a request of its own, which may be answered by a stream."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from urllib.parse import urlsplit

from ziggurat.core.context import Context, root
from ziggurat.core.errors import ToolError, ZigguratError
from ziggurat.core.jsonrpc import Id, Message, Notification, Request, write
from ziggurat.http.client import Client, HttpReply
from ziggurat.http.limits import Limits
from ziggurat.mcp.authorization import Authorization
from ziggurat.mcp.headers import header_value
from ziggurat.mcp.reply import RECONNECTS, Events, Reply, is_stream, tool_error
from ziggurat.mcp.wire import MAX_MESSAGE, MODERN, Headers, Receive, SessionLost, progress_token

_ACCEPT = (("content-type", "application/json"), ("accept", "application/json, text/event-stream"))
_LIMITS = Limits(idle=None, total=None, reply=MAX_MESSAGE, stream=1 << 30)
_FAREWELL = 1.0
_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri", "tasks/get": "taskId"}
_NAMED |= {"tasks/update": "taskId", "tasks/cancel": "taskId"}


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
        self.listens: bool = False
        self._replies: dict[Id, Reply] = {}
        self._listening: asyncio.Task[None] | None = None
        self._posting: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Do nothing: each request opens a connection or takes one that is open."""

    async def begin(self, request: Request, headers: Headers, ctx: Context) -> Reply:
        """Send a request, and return its reply once the head has arrived."""
        reply = self._replies[request.id] = Reply(self, request, (*headers, *self._mirrored(request)), ctx)
        return reply

    def forget(self, request_id: Id) -> None:
        """End a request."""
        self._replies.pop(request_id, None)

    async def begun(self) -> None:
        """Listen to what the server says outside of replies; only the older era has that."""
        if self.revision != MODERN:
            self._listening = asyncio.get_running_loop().create_task(self._listen())

    async def _listen(self) -> None:
        ctx, events, empty = root("mcp"), Events(self.name), 0
        with suppress(ToolError):
            while empty < RECONNECTS:
                last = (("last-event-id", events.last_id),) if events.last_id else ()
                reply = await self.send("GET", last, b"", ctx)
                try:
                    if not is_stream(reply):
                        return
                    self.listens = True
                    events.begin_again()
                    while not events.ended:
                        messages = await events.read(reply)
                        empty = 0 if messages else empty
                        for message in messages:
                            self._hear(message)
                finally:
                    await reply.end(whole=False)
                empty += 1
                await ctx.clock.sleep(events.retry)

    def _hear(self, message: Message) -> None:
        """Pass a message on to the call that it belongs to; it does not say to which, so to the last one."""
        reply: Reply | None = None
        if isinstance(message, Request) and message.method != "ping" and self._replies:
            reply = self._replies[next(reversed(self._replies))]
        elif (token := progress_token(message)) is not None:
            reply = self._replies.get(token)
        if reply is None:
            self.receive(message)
        else:
            reply.put(message)

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
                if not await self._authorization.refused(reply, granted, self._url, ctx):
                    break
            finally:
                await reply.end(whole=True)
        if session := reply.headers.get("mcp-session-id"):
            self.session = self.session or session
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

    def kill(self) -> None:
        """Do nothing: what hangs is behind the URL."""

    async def close(self) -> None:
        """End the session, if there is one, and close all connections."""
        self.gone = True
        if self._listening is not None:
            self._listening.cancel()
        try:
            if self._posting:
                await asyncio.wait([*self._posting], timeout=_FAREWELL)
            if self.session:
                with suppress(ZigguratError):
                    async with root("mcp").limit(_FAREWELL) as ctx:
                        await (await self.send("DELETE", (), b"", ctx)).end(whole=True)
        finally:
            await self._client.close()
