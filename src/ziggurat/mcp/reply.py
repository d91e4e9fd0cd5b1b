"""Reply: the messages in a reply over HTTP, which is one message or a stream of them."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol

from ziggurat.core.context import Context
from ziggurat.core.errors import ModelError, ToolError, ToolErrorKind, ZigguratError
from ziggurat.core.jsonrpc import Failure, Id, JsonRpcError, Message, Notification, Request, Success, read, write
from ziggurat.core.log import logger
from ziggurat.http.client import HttpReply
from ziggurat.http.sse import EventParser
from ziggurat.mcp.wire import (
    CANCELLED,
    MAX_MESSAGE,
    MAX_NOISE,
    MAX_WAITING,
    MODERN,
    PROGRESS,
    Headers,
    Receive,
)

RECONNECTS = 10
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
    listens: bool
    """Whether requests of the server may come on another stream."""

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

    def forget(self, request_id: Id) -> None:
        """End a request."""
        ...


class Reply:
    """The messages that are received for one request, which is sent when the first one is asked for."""

    def __init__(self, home: Home, request: Request, headers: Headers, ctx: Context) -> None:
        self._home, self._request, self._headers, self._ctx = home, request, headers, ctx
        self._reply: HttpReply | None = None
        self._streams = False
        self._messages: deque[Message] = deque()
        self._events = Events(home.name)
        self._empty = 0
        self._step: asyncio.Task[None] | None = None
        self._woken: asyncio.Future[None] | None = None

    def put(self, message: Message) -> None:
        """Add a message that came on another stream."""
        if len(self._messages) < MAX_WAITING:
            self._messages.append(message)
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    async def next(self) -> Message:
        """Return the next message."""
        while not self._messages:
            if self._home.listens:
                await self._advance_or_wake()
            else:
                await self._advance()
        return self._messages.popleft()

    async def _advance_or_wake(self) -> None:
        """Read on in a task of its own, so that messages of another stream can be handled meanwhile."""
        loop = asyncio.get_running_loop()
        step = self._step = self._step or loop.create_task(self._advance())
        self._woken = loop.create_future()
        await asyncio.wait([step, self._woken], return_when=asyncio.FIRST_COMPLETED)
        if step.done():
            self._step = None
            step.result()

    async def _advance(self) -> None:
        reply = self._reply
        if reply is None:
            await self._ask("POST", self._headers, write(self._request))
        elif self._streams:
            await self._read_events(reply)
        else:
            self._messages.append(await self._only_message(reply))

    async def _ask(self, method: str, headers: Headers, body: bytes) -> None:
        self._reply = reply = await self._home.send(method, headers, body, self._ctx)
        self._streams = is_stream(reply)

    async def _only_message(self, reply: HttpReply) -> Message:
        name, status = self._home.name, reply.status
        body = await received(reply.read, name)
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

    async def _read_events(self, reply: HttpReply) -> None:
        ended = False
        for message in await self._events.read(reply):
            if isinstance(message, Notification) and message.method != PROGRESS:
                self._home.receive(message)
            elif not isinstance(message, (Success, Failure)) or message.id == self._request.id:
                self._messages.append(message)
            self._empty = 0
        ended = self._events.ended and not any(isinstance(each, (Success, Failure)) for each in self._messages)
        if ended:
            await self._reconnect(reply)

    async def _reconnect(self, reply: HttpReply) -> None:
        """Go on with the stream where it was cut; only the era of sessions has that."""
        home, last = self._home, self._events.last_id
        self._empty += 1
        if home.revision == MODERN or not last or self._empty > RECONNECTS:
            raise ToolError(f"the MCP server {home.name} ended its reply without an answer", kind="interrupted")
        await reply.end(whole=True)
        await self._ctx.clock.sleep(self._events.retry)
        logger.debug("the stream of the MCP server %s was cut and is asked for again", home.name)
        self._events.begin_again()
        await self._ask("GET", (("last-event-id", last),), b"")

    async def end(self, *, answered: bool) -> None:
        """End the reply; in the era of sessions, say that its answer is not wanted."""
        home = self._home
        home.forget(self._request.id)
        if self._step is not None:
            self._step.cancel()
        if self._reply is not None:
            await self._reply.end(whole=answered)
        if not answered and home.revision != MODERN and not home.gone and self._request.method != "initialize":
            home.post(Notification(CANCELLED, {"requestId": self._request.id}))


def is_stream(reply: HttpReply) -> bool:
    """Return whether a reply is a stream of messages."""
    kind = reply.headers.get("content-type", "").partition(";")[0].strip()
    return reply.status < 300 and kind == "text/event-stream"


async def received(receive: Callable[[], Awaitable[bytes]], name: str) -> bytes:
    """Return bytes of a reply.

    Raises:
        ToolError: the connection was lost.
    """
    try:
        return await receive()
    except ZigguratError as error:
        raise tool_error(error, name) from error


class Events:
    """Reads the messages in a stream of events, within bounds."""

    def __init__(self, name: str) -> None:
        self.ended: bool = False
        self.last_id: str = ""
        self.retry: float = 1.0
        """Seconds to wait before the stream is asked for again."""
        self._name = name
        self._parser = EventParser()
        self._count = 0

    def begin_again(self) -> None:
        """Begin to read another stream, with which the one before goes on."""
        self._parser = EventParser()
        self.ended = False

    async def read(self, reply: HttpReply) -> list[Message]:
        """Return the next messages; perhaps none.

        Raises:
            ToolError: the connection was lost, or it is no stream of messages.
        """
        data = await received(reply.more, self._name)
        self.ended = not data
        events = self._parser.feed(data) if data else self._parser.close()
        if self._parser.held > MAX_MESSAGE:
            raise ToolError(f"the MCP server {self._name} sent too large a message", kind="interrupted")
        if self._parser.retry is not None:
            self.retry = min(self._parser.retry / 1_000, _LONGEST_RETRY)
        self.last_id = self._parser.last_id or self.last_id
        self._count += len(events)
        if self._count > MAX_NOISE:
            raise ToolError(f"the MCP server {self._name} sent too many messages", kind="interrupted")
        try:
            return [read(event.data) for event in events if event.data.strip()]
        except JsonRpcError as error:
            raise ToolError(f"the MCP server {self._name} sent what is no message: {error}") from None
