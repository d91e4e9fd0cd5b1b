"""The transports of a client: to a server behind a URL, and to one that is a process."""

import asyncio
import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

from ziggurat.core.context import Context, root
from ziggurat.core.errors import ModelError, ToolError, ToolErrorKind, ZigguratError
from ziggurat.core.log import logger
from ziggurat.core.tasks import end_all
from ziggurat.core.visible import visible_line
from ziggurat.http.client import Client, HttpReply
from ziggurat.http.limits import Limits
from ziggurat.http.sse import EventParser
from ziggurat.mcp import wire
from ziggurat.mcp.headers import mirrored
from ziggurat.mcp.settings import Settings
from ziggurat.wires import jsonrpc

if TYPE_CHECKING:
    from ziggurat.mcp.connection import Connection


_ACCEPT = (("content-type", "application/json"), ("accept", "application/json, text/event-stream"))
_LIMITS = Limits(idle=None, total=None, reply=wire.MAX_MESSAGE, stream=1 << 30)
_FAREWELL = 1.0
_RECONNECTS = 10  # how often in a row a stream that brought nothing is asked for again
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
        self._calls: dict[jsonrpc.Id | None, asyncio.Task[None]] = {}
        self._posting: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Do nothing: each request opens a connection or takes one that is open."""

    async def begun(self) -> None:
        """Listen to what the server says outside of replies; only the older era has that."""
        if self.revision != wire.MODERN:
            self._converse(None, "GET", (), b"", root("mcp"))

    async def begin(self, request: jsonrpc.Request, headers: wire.Headers, ctx: Context) -> None:
        self._converse(request.id, "POST", (*headers, *self._mirrored(request)), jsonrpc.write(request), ctx)

    async def end(self, call: jsonrpc.Id) -> bool:
        """Close the reply to a request, which cancels it; in the era of sessions, the server must be told, too."""
        if (task := self._calls.get(call)) is not None:
            await end_all([task])
        return self.revision == wire.MODERN or self.gone

    # -- replies -------------------------------------------------------------------------------------------------

    def _converse(self, call: jsonrpc.Id | None, method: str, headers: wire.Headers, body: bytes, ctx: Context) -> None:
        async def work() -> None:
            try:
                await self._receive(call, method, headers, body, ctx)
            except Exception as error:  # noqa: BLE001 - it belongs to the one who calls
                if call is not None:
                    self._peer.failed(error, call)
                logger.debug("a stream of the MCP server %s has ended: %s", self._name, error)

        task = self._calls[call] = asyncio.get_running_loop().create_task(work())
        task.add_done_callback(lambda _: self._calls.pop(call))

    async def _receive(
        self, call: jsonrpc.Id | None, method: str, headers: wire.Headers, body: bytes, ctx: Context
    ) -> None:
        """Pass on what is received for a call, or for none; in the older era, go on with a stream that was cut."""
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

    async def _receive_reply(self, call: jsonrpc.Id | None, reply: HttpReply, events: "_Events") -> bool:
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

    async def _receive_one(self, call: jsonrpc.Id | None, reply: HttpReply) -> None:
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

    def _mirrored(self, message: jsonrpc.Message) -> wire.Headers:
        if self.revision != wire.MODERN or not isinstance(message, (jsonrpc.Request, jsonrpc.Notification)):
            return ()
        return mirrored(message.method, message.params)

    async def _send(self, method: str, headers: wire.Headers, body: bytes, ctx: Context) -> HttpReply:
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

    async def tell(self, message: jsonrpc.Message) -> None:
        reply = await self._send("POST", self._mirrored(message), jsonrpc.write(message), root("mcp"))
        await reply.end(whole=True)

    def post(self, message: jsonrpc.Message) -> None:
        task = asyncio.get_running_loop().create_task(self._tell_briefly(message))
        self._posting.add(task)
        task.add_done_callback(self._posting.discard)

    async def _tell_briefly(self, message: jsonrpc.Message) -> None:
        with suppress(ZigguratError):
            async with root("mcp").limit(_FAREWELL):
                await self.tell(message)

    def kill(self) -> None:
        """Do nothing: what hangs is behind the URL."""

    async def close(self) -> None:
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
    def __init__(self, name: str) -> None:
        self.last_id: str = ""
        self.retry: float = 1.0
        """Seconds to wait before the stream is asked for again."""
        self.empty: int = 0  # how often in a row the stream has brought nothing
        self._name = name

    def begin(self) -> None:
        self._parser = EventParser()

    async def read(self, reply: HttpReply) -> list[str] | None:
        """Return the data of the next events, perhaps of none; None at the end of the stream."""
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
        return isinstance(jsonrpc.read(body), jsonrpc.Failure)
    except jsonrpc.JsonRpcError:
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


_KEPT = ("HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER", "SYSTEMROOT", "APPDATA", "TEMP")
"""The variables of this process that a server gets; keys of providers are not among them."""

_GRACES = ((None, 2.0), (signal.SIGTERM, 1.0), (signal.SIGKILL, 2.0))
"""How a process is ended: its input is closed, then it gets the signals, each after a number of seconds."""

_TAIL = 2_000
_LAST_WORDS = 1.0  # seconds after the end of a server's output in which its exit code and its last words are waited for


class StdioTransport(asyncio.SubprocessProtocol):
    def __init__(self, settings: Settings, peer: "Connection") -> None:
        self.revision: str = ""
        self.gone: bool = True
        self._settings, self._peer = settings, peer
        self._name = settings.name
        self._rest: list[bytes] = []  # pieces of a line that has not ended
        self._held = 0
        self._tail = b""  # of its standard error
        self._last_words: asyncio.TimerHandle | None = None
        self._transport: asyncio.SubprocessTransport | None = None
        self._stdin: asyncio.WriteTransport | None = None
        self._exited: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._drained: asyncio.Future[None] | None = None

    # -- for the connection --------------------------------------------------------------------------------------

    async def open(self) -> None:
        settings = self._settings
        env = {key: os.environ[key] for key in _KEPT if key in os.environ} | dict(settings.env)
        try:
            await asyncio.get_running_loop().subprocess_exec(
                lambda: self, *settings.command, env=env, cwd=settings.folder, start_new_session=True
            )
        except (OSError, ValueError) as error:
            raise ToolError(f"the MCP server {self._name} cannot be started: {error}") from error

    async def begun(self) -> None:
        """Note that what it wrote so far belongs to its start."""
        self._tail = b""

    async def begin(self, request: jsonrpc.Request, headers: wire.Headers, ctx: Context) -> None:
        while self._drained is not None and not self.gone:
            await asyncio.shield(self._drained)
        if self.gone:
            if self._last_words is not None:
                await asyncio.wait([self._lost], timeout=_LAST_WORDS)
            raise self._error()
        self.post(request)

    async def end(self, call: jsonrpc.Id) -> bool:
        """Do nothing: the server must be told that an answer is not wanted."""
        return False

    async def tell(self, message: jsonrpc.Message) -> None:
        self.post(message)

    def post(self, message: jsonrpc.Message) -> None:
        if self._stdin is not None and not self.gone:
            self._stdin.write(jsonrpc.write(message) + b"\n")

    def kill(self) -> None:
        if self._transport is not None:
            self._kill(signal.SIGKILL)

    async def close(self) -> None:
        self._stop()
        process = self._transport
        if process is None:
            return
        try:
            for number, seconds in _GRACES:
                if number is not None:
                    self._kill(number)
                elif self._stdin is not None:
                    self._stdin.close()
                await asyncio.wait([self._exited], timeout=seconds)
                if self._exited.done():
                    break
        finally:
            self._kill(signal.SIGKILL)
            if self._last_words is not None:
                await asyncio.wait([self._lost], timeout=_LAST_WORDS)
            process.close()
            self._say_end()
        await asyncio.sleep(0)  # the pipes close in the loop's next turn

    def _kill(self, number: signal.Signals) -> None:
        """Send a signal to the group; a process that ignored the end of its leader is in it, too."""
        assert self._transport is not None
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._transport.get_pid(), number)

    # -- from the event loop -------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not when `open` goes on: a process that ends at once may have ended by then, and this is told only once.
        self._transport = cast("asyncio.SubprocessTransport", transport)
        self._stdin = cast("asyncio.WriteTransport", self._transport.get_pipe_transport(0))
        self.gone = False

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd != 1:
            self._tail = (self._tail + data)[-_TAIL:]
            return
        lines = data.split(b"\n")
        rest = lines.pop()
        if self._rest and lines:
            lines[0] = b"".join((*self._rest, lines[0]))
            self._rest.clear()
            self._held = 0
        try:
            for line in lines:
                if line.strip() and not self.gone:
                    self._peer.received(line)
        except wire.ServerGone as error:
            self._abort(error)
        if rest and not self.gone:
            self._rest.append(rest)
            self._held += len(rest)
            if self._held > wire.MAX_MESSAGE:
                text = f"the MCP server {self._name} sent a message of more than {wire.MAX_MESSAGE >> 20} MiB"
                self._abort(wire.ServerGone(text, kind="interrupted"))

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 1 and not self.gone:
            self._last_words = asyncio.get_running_loop().call_later(_LAST_WORDS, self._say_end)
            self._stop()

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail what is in progress: the process has ended, and all that it wrote is read."""
        if not self._lost.done():
            self._lost.set_result(None)
        self._say_end()

    def _say_end(self) -> None:
        """Fail what is in progress, if the server has ended by itself."""
        if self._last_words is None:
            return
        self._last_words.cancel()
        self._last_words = None
        self._fail(self._error())

    def process_exited(self) -> None:
        if not self._exited.done():
            self._exited.set_result(None)
        if self._transport is not None:
            self._kill(signal.SIGKILL)

    def pause_writing(self) -> None:
        self._drained = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._drained = None

    def _abort(self, error: wire.ServerGone) -> None:
        self._stop()
        self._rest.clear()
        self._fail(error)
        if self._transport is not None and (output := self._transport.get_pipe_transport(1)) is not None:
            output.close()

    def _stop(self) -> None:
        if not self.gone:
            self.gone = True
            self._peer.ended()
        self.resume_writing()

    def _fail(self, error: wire.ServerGone) -> None:
        if not self._peer.failed(error):
            logger.warning("%s", error)

    def _error(self) -> wire.ServerGone:
        code = None if self._transport is None else self._transport.get_returncode()
        how = "" if code is None else f" (exit code {code})"
        last = self._tail.decode("utf-8", "replace").strip().rpartition("\n")[2]
        wrote = f"; it wrote last: {visible_line(last):.300}" if last else ""
        return wire.ServerGone(f"the MCP server {self._name} has ended{how}{wrote}", kind="interrupted")
