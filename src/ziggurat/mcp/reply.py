"""Reply: the messages in a reply over HTTP, which is one message or a stream of them."""

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol

from ziggurat.core.context import Context
from ziggurat.core.errors import ModelError, ToolError, ToolErrorKind, ZigguratError
from ziggurat.core.jsonrpc import Failure, JsonRpcError, Message, Notification, Request, Success, read
from ziggurat.core.log import logger
from ziggurat.http.client import HttpReply
from ziggurat.http.sse import EventParser
from ziggurat.mcp.wire import CANCELLED, MAX_MESSAGE, MAX_NOISE, MODERN, PROGRESS, Headers, Receive, ServerGone

_RECONNECTS = 10
"""How often in a row a stream that brought nothing is asked for again."""

_LONGEST_RETRY = 60.0


def tool_error(error: ZigguratError, name: str) -> ToolError:
    """Return the error of the HTTP client as that of a tool."""
    if isinstance(error, ToolError):
        return error
    kind: ToolErrorKind = "transient" if not error.sent else "interrupted"
    if isinstance(error, ModelError) and error.kind == "malformed":
        kind = "permanent"
    return ToolError(f"the MCP server {name}: {error}", kind=kind)


class Home(Protocol):
    """The transport of a reply."""

    name: str
    revision: str
    receive: Receive

    @property
    def gone(self) -> bool:
        """Whether it has ended."""
        ...

    async def send(self, method: str, headers: Headers, body: bytes, ctx: Context) -> HttpReply:
        """Send a request."""
        ...

    def post(self, message: Message) -> None:
        """Send a message for which nobody waits."""
        ...


class Reply:
    """The messages in a reply: one, or those of a stream, which is asked for again where it was cut."""

    def __init__(self, home: Home, request: Request, reply: HttpReply, ctx: Context) -> None:
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
            if message.method == PROGRESS:
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

    async def _received(self, receive: Callable[[], Awaitable[bytes]]) -> bytes:
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
