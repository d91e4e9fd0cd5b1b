"""An HTTP/1.1 server on loopback, which reads requests and sends answers exactly as given."""

import asyncio
import socket
import struct
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from http import HTTPStatus

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.core.clock import Clock
from ziggurat.core.errors import ConfigurationError
from ziggurat.testing.server.types import Ending, Headers, HttpResponse, Wait, error_answer

_TURNS = 4


class RawRequest(Struct, frozen=True):
    """An HTTP request; header names are in lowercase."""

    method: str
    path: str
    version: str
    headers: Headers
    body: bytes


class _BadRequest(Exception):
    """Raised when the received bytes are not an HTTP request."""


class _Connection(asyncio.Protocol):
    def __init__(self, serve: "Callable[[_Connection], Awaitable[None]]", open_ones: "set[_Connection]") -> None:
        self._serve = serve
        self._open = open_ones
        self._buffer = bytearray()
        self._came = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._ended = False
        self.lost: bool = False
        self.task: asyncio.Task[None] | None = None

    # -- called by asyncio -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=0)  # so that waiting to write means waiting until all is sent
        self._open.add(self)
        self.task = asyncio.get_running_loop().create_task(self._run())

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._came.set()

    def eof_received(self) -> bool:
        """Keep the connection open for writing: the client may still read."""
        self._ended = True
        self._came.set()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = self._ended = True
        self._came.set()
        self._writable.set()
        self._open.discard(self)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        """Let writers continue."""
        self._writable.set()

    async def _run(self) -> None:
        try:
            await self._serve(self)
        finally:
            self._transport.close()

    # -- called by the server ----------------------------------------------------------------------------------------

    async def _more(self) -> bool:
        """Wait for more data; False if none will come."""
        if self._ended:
            return False
        self._came.clear()
        await self._came.wait()
        return True

    async def _line(self) -> bytes:
        read = 0  # bytes that have no line end, so that a long line is searched once
        while (at := self._buffer.find(b"\n", read)) < 0:
            read = len(self._buffer)
            if not await self._more():
                raise _BadRequest("the connection ended in the middle of a line")
        line = bytes(self._buffer[:at])
        del self._buffer[: at + 1]
        return line.rstrip(b"\r")

    async def _bytes(self, count: int) -> bytes:
        while len(self._buffer) < count:
            if not await self._more():
                raise _BadRequest("the connection ended in the middle of a body")
        data = bytes(self._buffer[:count])
        del self._buffer[:count]
        return data

    async def begins(self) -> bool:
        """Wait until a request begins; False if none will come."""
        while not self._buffer:
            if not await self._more():
                return False
        return True

    async def request(self) -> RawRequest | None:
        """Read the next request; None if the client has closed the connection."""
        if not await self.begins():
            return None
        words = (await self._line()).decode("latin-1").split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            raise _BadRequest(f"this is not a request line: {' '.join(words)[:100]!r}")
        headers: list[tuple[str, str]] = []
        while line := (await self._line()).decode("latin-1"):
            name, _, value = line.partition(":")
            headers.append((name.strip().lower(), value.strip()))
        return RawRequest(words[0], words[1], words[2], tuple(headers), await self._body(dict(headers)))

    async def _body(self, headers: dict[str, str]) -> bytes:
        if headers.get("expect", "").lower() == "100-continue":
            await self.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        try:
            if headers.get("transfer-encoding", "").lower() != "chunked":
                return await self._bytes(int(headers.get("content-length") or 0))
            body = bytearray()
            while size := int((await self._line()).partition(b";")[0], 16):
                body += await self._bytes(size)
                await self._line()
            while await self._line():
                pass
        except ValueError as error:
            raise _BadRequest(f"this is not a length: {error}") from error
        return bytes(body)

    async def write(self, data: bytes) -> None:
        """Send data, and wait until the system has taken it; does nothing if the connection is lost."""
        if not self.gone_for_good:
            self._transport.write(data)
            await self._writable.wait()

    @property
    def gone_for_good(self) -> bool:
        """Whether data sent now could not arrive."""
        return self.lost or self._transport.is_closing()

    async def gone(self) -> None:
        """Wait until the client has closed its side of the connection."""
        while await self._more():
            pass

    def drop(self) -> None:
        """Close at once, dropping unsent data."""
        self._transport.abort()

    def reset(self) -> None:
        """Close at once with RST."""
        peer = self._transport.get_extra_info("socket")
        if peer is not None and not self.lost:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()


def _head_of(answer: HttpResponse) -> bytes:
    """Return the status line and headers of an answer."""
    if answer.head is not None:
        return answer.head
    try:
        reason = HTTPStatus(answer.status).phrase
    except ValueError:
        reason = "Unknown"
    lines = [f"HTTP/1.1 {answer.status} {reason}", *(f"{name}: {value}" for name, value in answer.headers)]
    if answer.framing == "chunked":
        lines.append("transfer-encoding: chunked")
    elif answer.framing == "length":
        lines.append(f"content-length: {answer.size if answer.length is None else answer.length}")
    lines.append("connection: close" if answer.framing == "close" else "connection: keep-alive")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8")


async def _send(
    connection: _Connection, answer: HttpResponse, rest: Callable[[Wait, _Connection], Awaitable[None]]
) -> Ending:
    """Send an answer byte for byte, and return what to do with the connection."""
    head = _head_of(answer)
    if answer.head_pace == 0:
        await connection.write(answer.before + head)
    else:
        await connection.write(answer.before)
        for at in range(len(head)):
            await connection.write(head[at : at + 1])
            await rest(Wait(answer.head_pace), connection)
    chunked = answer.framing == "chunked" and answer.head is None
    for piece in answer.pieces:
        if connection.gone_for_good:
            return "cut"
        if isinstance(piece, Wait):
            await rest(piece, connection)
        elif piece:
            await connection.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
    if chunked and answer.ending not in ("cut", "reset"):
        await connection.write(b"0\r\n\r\n")
    return "close" if answer.framing == "close" and answer.ending == "keep" else answer.ending


class LoopbackServer:
    """Listens on loopback, on the running event loop or in a thread of its own."""

    def __init__(self, answer: Callable[[RawRequest], Awaitable[HttpResponse]], clock: Clock, port: int) -> None:
        self._answer = answer
        self._clock = clock
        self._wanted = port
        self.port: int = 0
        self.connections: set[_Connection] = set()
        self._server: asyncio.Server | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stop: asyncio.Event | None = None
        self._released = asyncio.Event()

    async def start(self) -> None:
        """Start listening on the running event loop."""
        self._check_idle()
        await self._listen()

    async def _listen(self) -> None:
        loop = self._loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _Connection(self._serve, self.connections), "127.0.0.1", self._wanted
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening and close every connection."""
        assert self._server is not None
        with suppress(NotImplementedError):  # the event loop does not watch sockets
            asyncio.get_running_loop().remove_reader(self._server.sockets[0].fileno())
        for _ in range(_TURNS):
            await asyncio.sleep(0)  # connections just accepted must be set up before the server closes
        self._server.close()
        tasks = [connection.task for connection in self.connections if connection.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for connection in list(self.connections):
            connection.drop()
        await self._server.wait_closed()
        await asyncio.sleep(0)  # dropped connections close in the next turn
        self._server = self._loop = None
        self.port = 0

    def start_thread(self) -> None:
        self._check_idle()
        ready: Future[None] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._live(ready)), name="fake-provider")
        self._thread.start()
        try:
            ready.result()
        except BaseException:
            self._thread.join()
            self._thread = None
            raise

    def stop_thread(self) -> None:
        """Stop listening, close every connection and end the thread."""
        assert self._thread is not None
        assert self._loop is not None
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._thread = None

    async def _live(self, ready: "Future[None]") -> None:
        self._stop = asyncio.Event()
        try:
            await self._listen()
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits for the start
            ready.set_exception(error)
            return
        ready.set_result(None)
        try:
            await self._stop.wait()
        finally:
            await self.stop()

    def _check_idle(self) -> None:
        if self._loop is not None or self._thread is not None:
            raise ConfigurationError("this fake provider is already running; make another one")

    def release(self) -> None:
        """End all pauses without a time."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._let_go)

    def _let_go(self) -> None:
        self._released.set()
        self._released = asyncio.Event()

    async def _serve(self, connection: _Connection) -> None:
        while True:
            try:
                raw = await connection.request()
            except _BadRequest as error:
                await _send(connection, replace(error_answer(None, 400, str(error)), framing="close"), self._rest)
                return
            if raw is None:
                return
            answer = await self._answer(raw)
            if raw.version == "HTTP/1.0":
                answer = replace(answer, framing="close")
            if answer.ending == "keep" and dict(raw.headers).get("connection", "").lower() == "close":
                answer = replace(answer, ending="close")
            ending = await _send(connection, answer, self._rest)
            if ending == "drop_next":
                await connection.begins()
            if ending == "reset":
                connection.reset()
            if ending != "keep":
                return

    async def _rest(self, wait: Wait, connection: _Connection) -> None:
        """Pause, but no longer than the client stays connected."""
        if wait.seconds == 0:
            await asyncio.sleep(0)
            return
        released = self._released
        over = released.wait() if wait.seconds is None else self._clock.sleep(wait.seconds)
        tasks = [asyncio.ensure_future(over), asyncio.ensure_future(connection.gone())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
