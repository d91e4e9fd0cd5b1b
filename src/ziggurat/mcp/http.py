"""HttpTransport: a server behind a URL; each message is a request of its own, which may be answered by a stream."""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ziggurat.core.context import Context, root
from ziggurat.core.errors import ModelError, ToolError, ToolErrorKind, ZigguratError
from ziggurat.core.jsonrpc import Failure, Id, JsonRpcError, Message, Notification, Request, read, write
from ziggurat.core.log import logger
from ziggurat.core.tasks import end_all
from ziggurat.http.client import Client, HttpReply
from ziggurat.http.limits import Limits
from ziggurat.http.sse import EventParser
from ziggurat.mcp import wire
from ziggurat.mcp.headers import mirrored
from ziggurat.mcp.settings import Settings

if TYPE_CHECKING:
    from ziggurat.mcp.connection import Connection

_ACCEPT = (("content-type", "application/json"), ("accept", "application/json, text/event-stream"))
_LIMITS = Limits(idle=None, total=None, reply=wire.MAX_MESSAGE, stream=1 << 30)
_FAREWELL = 1.0
_RECONNECTS = 10
"""How often in a row a stream that brought nothing is asked for again."""

_LONGEST_RETRY = 60.0


class HttpTransport:
    def __init__(self, settings: Settings, peer: "Connection") -> None:
        parts = urlsplit(settings.url)
        self.revision: str = ""
        self.gone: bool = False
        self._peer = peer
        self._name, self._url, self._authorization = settings.name, settings.url, settings.authorization
        self._path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._client = Client(settings.url, name=settings.name, limits=_LIMITS)
        self._own: wire.Headers = tuple((key.lower(), value) for key, value in settings.headers.items())
        self._session = ""
        self._calls: dict[Id | None, asyncio.Task[None]] = {}
        self._posting: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Do nothing: each request opens a connection or takes one that is open."""

    async def begun(self) -> None:
        """Listen to what the server says outside of replies; only the older era has that."""
        if self.revision != wire.MODERN:
            self._converse(None, "GET", (), b"", root("mcp"))

    async def begin(self, request: Request, headers: wire.Headers, ctx: Context) -> None:
        """Send a request in a task of its own, which passes on what is received for it."""
        self._converse(request.id, "POST", (*headers, *self._mirrored(request)), write(request), ctx)

    async def end(self, call: Id) -> bool:
        """Close the reply to a request, which cancels it; in the era of sessions, the server must be told, too."""
        if (task := self._calls.get(call)) is not None:
            await end_all([task])
        return self.revision == wire.MODERN or self.gone

    # -- replies -------------------------------------------------------------------------------------------------

    def _converse(self, call: Id | None, method: str, headers: wire.Headers, body: bytes, ctx: Context) -> None:
        async def work() -> None:
            try:
                await self._receive(call, method, headers, body, ctx)
            except Exception as error:  # noqa: BLE001 - it belongs to the one who calls
                if call is not None:
                    self._peer.failed(error, call)
                logger.debug("a stream of the MCP server %s has ended: %s", self._name, error)

        task = self._calls[call] = asyncio.get_running_loop().create_task(work())
        task.add_done_callback(lambda _: self._calls.pop(call))

    async def _receive(self, call: Id | None, method: str, headers: wire.Headers, body: bytes, ctx: Context) -> None:
        """Pass on what is received for a call, or for none, until there is no more; go on with a stream that was cut.

        Only the older era has that: there the rest is asked for by the id of the last event.
        """
        events = _Events(self._name)
        while True:
            cut = ToolError(f"the MCP server {self._name} ended its reply without an answer", kind="interrupted")
            try:
                if await self._receive_reply(call, await self._send(method, headers, body, ctx), events):
                    return
            except ToolError as error:
                if isinstance(error, wire.SessionLost) or error.kind not in wire.CUT:
                    raise
                cut = error
            events.empty += 1
            can_go_on = call is None or (self.revision != wire.MODERN and events.last_id)
            if not can_go_on or events.empty > _RECONNECTS:
                raise cut
            logger.debug("the stream of the MCP server %s was cut and is asked for again", self._name)
            await ctx.clock.sleep(events.retry)
            method, body = "GET", b""
            headers = (("last-event-id", events.last_id),) if events.last_id else ()

    async def _receive_reply(self, call: Id | None, reply: HttpReply, events: "_Events") -> bool:
        """Pass on what is received in one reply; return whether the call needs no more."""
        whole = False
        try:
            if not _is_stream(reply):
                await self._receive_one(call, reply)
                whole = True
            events.begin()
            while not whole and (found := await events.read(reply)) is not None:
                whole = any(self._peer.received(data, call) for data in found)
            return whole
        finally:
            await reply.end(whole=whole)

    async def _receive_one(self, call: Id | None, reply: HttpReply) -> None:
        name, status = self._name, reply.status
        pieces, size = list[bytes](), 0
        while data := await _more(reply, name):
            pieces.append(data)
            size += len(data)
            if size > wire.MAX_MESSAGE:
                raise ToolError(
                    f"the MCP server {name} sent more than {wire.MAX_MESSAGE >> 20} MiB", kind="interrupted"
                )
        body = b"".join(pieces)
        if status == 401:
            raise ToolError(f"the MCP server {name} wants to know who asks: it answered 401", kind="denied")
        if status >= 300 and not _is_failure(body):
            kind: ToolErrorKind = "transient" if status in (408, 425, 429, 502, 503, 504) else "permanent"
            raise ToolError(f"the MCP server {name} answered {status}", kind=kind)
        if not self._peer.received(body, call):
            raise ToolError(f"the MCP server {name} answered another request than it was asked")

    # -- requests ------------------------------------------------------------------------------------------------

    def _mirrored(self, message: Message) -> wire.Headers:
        if self.revision != wire.MODERN or not isinstance(message, (Request, Notification)):
            return ()
        return mirrored(message.method, message.params)

    async def _send(self, method: str, headers: wire.Headers, body: bytes, ctx: Context) -> HttpReply:
        """Send a request with all headers that each one has; authorize, if the server asks for that."""
        common, session = list(self._own), self._session
        if self.revision:
            common.append(("mcp-protocol-version", self.revision))
        if session:
            common.append(("mcp-session-id", session))
        for tries in range(4):
            granted = () if self._authorization is None else await self._authorization.headers(self._url, ctx)
            try:
                reply = await self._client.send(
                    method, self._path, (*_ACCEPT, *common, *granted, *headers), body, ctx, stream=True
                )
            except ZigguratError as error:
                raise _tool_error(error, self._name) from error
            if reply.status not in (401, 403) or self._authorization is None or tries == 3:
                break
            try:
                if not await self._authorization.refused(reply, granted, self._url, ctx):
                    break
            finally:
                await reply.end(whole=True)
        self._session = self._session or reply.headers.get("mcp-session-id", "")
        if reply.status == 404 and session:
            await reply.end(whole=True)
            self._session, self.gone = "", True
            self._peer.ended()
            raise wire.SessionLost(f"the MCP server {self._name} does not know the session any more", kind="transient")
        return reply

    async def tell(self, message: Message) -> None:
        reply = await self._send("POST", self._mirrored(message), write(message), root("mcp"))
        await reply.end(whole=True)

    def post(self, message: Message) -> None:
        task = asyncio.get_running_loop().create_task(self._tell_briefly(message))
        self._posting.add(task)
        task.add_done_callback(self._posting.discard)

    async def _tell_briefly(self, message: Message) -> None:
        with suppress(ZigguratError):
            async with root("mcp").limit(_FAREWELL):
                await self.tell(message)

    def kill(self) -> None:
        """Do nothing: what hangs is behind the URL."""

    async def close(self) -> None:
        """End the session, if there is one, and close all connections."""
        if (listening := self._calls.get(None)) is not None:
            listening.cancel()
        waiting = [*self._calls.values(), *self._posting] if self.gone else [*self._posting]
        self.gone = True
        try:
            if waiting:  # calls of a session that is lost are refused
                await asyncio.wait(waiting, timeout=_FAREWELL)
            if self._session:
                with suppress(ZigguratError):
                    async with root("mcp").limit(_FAREWELL) as ctx:
                        await (await self._send("DELETE", (), b"", ctx)).end(whole=True)
        finally:
            await self._client.close()
            await end_all([*self._calls.values()])


class _Events:
    """Reads the data of the events in a stream, and of those with which it goes on, within bounds."""

    def __init__(self, name: str) -> None:
        self.last_id: str = ""
        self.retry: float = 1.0
        """Seconds to wait before the stream is asked for again."""
        self.empty: int = 0
        """How often in a row the stream has brought nothing."""
        self._name = name

    def begin(self) -> None:
        """Begin to read another stream, which goes on with the one before."""
        self._parser = EventParser()

    async def read(self, reply: HttpReply) -> list[str] | None:
        """Return the data of the next events, perhaps of none; None at the end of the stream, whatever was cut there.

        Raises:
            ToolError: the connection was lost, or an event is too large.
        """
        data = await _more(reply, self._name)
        if not data:
            return None
        events = self._parser.feed(data)
        if self._parser.held > wire.MAX_MESSAGE:
            raise ToolError(f"the MCP server {self._name} sent too large a message", kind="interrupted")
        if self._parser.retry is not None:
            self.retry = min(self._parser.retry / 1_000, _LONGEST_RETRY)
        self.last_id = self._parser.last_id or self.last_id
        self.empty = 0 if events else self.empty
        return [event.data for event in events if event.data.strip()]


def _is_stream(reply: HttpReply) -> bool:
    kind = reply.headers.get("content-type", "").partition(";")[0].strip()
    return reply.status < 300 and kind == "text/event-stream"


def _is_failure(body: bytes) -> bool:
    try:
        return isinstance(read(body), Failure)
    except JsonRpcError:
        return False


async def _more(reply: HttpReply, name: str) -> bytes:
    try:
        return await reply.more()
    except ZigguratError as error:
        raise _tool_error(error, name) from error


def _tool_error(error: ZigguratError, name: str) -> ToolError:
    if isinstance(error, ToolError):
        return error
    kind: ToolErrorKind = "transient" if not error.sent else "interrupted"
    if isinstance(error, ModelError) and error.kind == "malformed":
        kind = "permanent"
    return ToolError(f"the MCP server {name}: {error}", kind=kind)
