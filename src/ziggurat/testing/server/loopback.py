"""An HTTP/1.1 server on loopback, which reads requests and sends answers exactly as given."""

import asyncio
import socket
import struct
import threading
from concurrent.futures import Future
from contextlib import suppress
from http import HTTPStatus
from types import TracebackType
from typing import Any, Literal, Self
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ziggurat.core.clock import Clock
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.tasks import end_all, first_of
from ziggurat.wires.types import Wire, error_body

Headers = tuple[tuple[str, str], ...]  # names and values in the order they are sent; a name may occur twice

_SECRET = ("authorization", "key", "cookie", "token", "secret")


class Wait(Struct, frozen=True):
    seconds: float | None = None


Piece = bytes | Wait  # A part of a body: bytes that are sent together, or a pause


class ReceivedRequest(Struct, frozen=True):
    """A request as the server saw it. Its repr shows no header that may hold a key, and no query.

    Attributes:
        number: Its number, from 1.
        method: The HTTP method, such as ``"POST"``.
        path: The path with the query, as received.
        headers: The headers; names in lowercase.
        body: The body, as received.
        wire: The format that the path selects; None for any other path.
    """

    number: int
    method: str
    path: str
    headers: Headers = ()
    body: bytes = b""
    wire: Wire | None = None

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name.lower()), None)

    @property
    def json(self) -> Any:
        """The body parsed as JSON.

        Raises:
            msgspec.DecodeError: it is not JSON.
        """
        return msgspec.json.decode(self.body)

    @property
    def stream(self) -> bool:
        """Whether it requests a stream."""
        try:
            body = self.json
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return False
        return isinstance(body, dict) and body.get("stream") is True

    def __repr__(self) -> str:
        headers = {key: "..." if any(word in key for word in _SECRET) else value for key, value in self.headers}
        path = urlsplit(self.path).path
        return f"ReceivedRequest({self.number}, {self.method} {path}, {headers}, {len(self.body)} bytes)"


Framing = Literal["length", "chunked", "close"]  # how the client knows where the body ends

Ending = Literal["keep", "close", "cut", "reset", "stale", "drop_next"]
"""What happens to the connection: kept open; closed after a complete body; closed with the end of the body missing;
reset; closed although it was announced as kept; closed when the next request arrives."""


class HttpResponse(Struct, frozen=True):
    status: int = 200
    headers: Headers = ()
    pieces: tuple[Piece, ...] = ()
    framing: Framing = "length"
    ending: Ending = "keep"
    length: int | None = None
    head: tuple[Piece, ...] | None = None

    @property
    def body(self) -> bytes:
        return b"".join(piece for piece in self.pieces if isinstance(piece, bytes))

    @property
    def size(self) -> int:
        return sum(len(piece) for piece in self.pieces if isinstance(piece, bytes))


def error_answer(
    wire: Wire | None, status: int, message: str = "", *, code: str | None = None, headers: Headers = ()
) -> HttpResponse:
    body = msgspec.json.encode(error_body(wire, status, message, code, request_id="req_fake"))
    return HttpResponse(status, (("content-type", "application/json"), *headers), (body,))


# -- the server -------------------------------------------------------------------------------------------------

_TURNS = 6
_LONGEST_LINE = 1 << 24


class _BadRequest(Exception): ...


class _Reader(asyncio.StreamReader):
    """Reads a connection, and sets `ended` when the client has closed its side, which may still read."""

    def __init__(self) -> None:
        super().__init__(_LONGEST_LINE)
        self.ended = asyncio.Event()

    def feed_eof(self) -> None:
        super().feed_eof()
        self.ended.set()

    def set_exception(self, exc: Exception) -> None:
        super().set_exception(exc)
        self.ended.set()


class _Connection(Struct, eq=False):
    reader: _Reader
    writer: asyncio.StreamWriter
    task: "asyncio.Task[object]"
    is_old: bool = False  # whether the last request was one of HTTP/1.0

    async def line(self) -> str:
        return (await self.reader.readuntil(b"\n")).rstrip(b"\r\n").decode("latin-1")

    async def request(self) -> ReceivedRequest | None:
        """Read the next request; None if the client has closed the connection."""
        try:
            words = (await self.line()).split(" ")
            if len(words) != 3 or not words[2].startswith("HTTP/1."):
                raise _BadRequest(f"this is not a request line: {' '.join(words)[:100]!r}")
            headers: list[tuple[str, str]] = []
            while line := await self.line():
                name, _, value = line.partition(":")
                headers.append((name.strip().lower(), value.strip()))
            self.is_old = words[2] == "HTTP/1.0"
            return ReceivedRequest(0, words[0], words[1], tuple(headers), await self.body(dict(headers)))
        except asyncio.IncompleteReadError as error:
            if not error.partial:
                return None
            raise _BadRequest("the connection ended in the middle of a request") from error

    async def body(self, headers: dict[str, str]) -> bytes:
        if headers.get("expect", "").lower() == "100-continue":
            await self.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        try:
            if headers.get("transfer-encoding", "").lower() != "chunked":
                return await self.reader.readexactly(int(headers.get("content-length") or 0))
            body = bytearray()
            while size := int((await self.line()).partition(";")[0], 16):
                body += await self.reader.readexactly(size)
                await self.line()
            while await self.line():
                pass
        except ValueError as error:
            raise _BadRequest(f"this is not a length: {error}") from error
        return bytes(body)

    async def write(self, data: bytes) -> None:
        """Send data, and wait until the system has taken it; does nothing if the connection is lost."""
        if not self.writer.is_closing():
            self.writer.write(data)
            with suppress(ConnectionError):
                await self.writer.drain()

    def reset(self) -> None:
        if not self.writer.is_closing():
            peer = self.writer.get_extra_info("socket")
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


def head_of(answer: HttpResponse) -> bytes:
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


class LoopbackServer:
    """Listens on loopback: with ``async with`` on the running event loop, with ``with`` in a thread of its own."""

    def __init__(self, clock: Clock, port: int) -> None:
        self._clock = clock
        self._wanted = port
        self._port = 0
        self._open: set[_Connection] = set()
        self._server: asyncio.Server | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stop: asyncio.Event | None = None
        self._released = asyncio.Event()

    async def _receive(self, seen: ReceivedRequest) -> HttpResponse:
        raise NotImplementedError

    @property
    def port(self) -> int:
        """The port that it listens on; 0 if it is not running."""
        return self._port

    @property
    def url(self) -> str:
        """The URL it listens on, without a path: ``http://127.0.0.1:PORT``.

        Raises:
            ConfigurationError: it is not running.
        """
        if not self._port:
            raise ConfigurationError("the fake provider is not running; use it in a with block")
        return f"http://127.0.0.1:{self._port}"

    @property
    def connections(self) -> int:
        return len(self._open)

    def release(self) -> None:
        """End all pauses that wait for `release()`."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._let_go)

    def _let_go(self) -> None:
        self._released.set()
        self._released = asyncio.Event()

    # -- start and stop ----------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if self._loop is not None:
            raise ConfigurationError("this fake provider is already running; make another one")
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: asyncio.StreamReaderProtocol(_Reader(), self._connected), "127.0.0.1", self._wanted
        )
        self._loop = loop
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        with suppress(NotImplementedError):  # the event loop does not watch sockets
            asyncio.get_running_loop().remove_reader(self._server.sockets[0].fileno())
        for _ in range(_TURNS):
            await asyncio.sleep(0)  # connections just accepted must be set up before the server closes
        self._server.close()
        still_open = list(self._open)
        await end_all([connection.task for connection in still_open])
        for connection in still_open:
            connection.writer.transport.abort()  # also what is not sent yet
        await self._server.wait_closed()
        await asyncio.sleep(0)  # dropped connections close in the next turn
        self._server = self._loop = None
        self._port = 0

    def __enter__(self) -> Self:
        ready: Future[None] = Future()
        thread = threading.Thread(target=lambda: asyncio.run(self._live(ready)), name="fake-provider")
        thread.start()
        try:
            ready.result()
        except BaseException:
            thread.join()
            raise
        self._thread = thread
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._thread is not None
        assert self._loop is not None
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    async def _live(self, ready: "Future[None]") -> None:
        try:
            async with self:
                self._stop = asyncio.Event()
                ready.set_result(None)
                await self._stop.wait()
        except BaseException as error:
            if ready.done():
                raise
            ready.set_exception(error)  # for the thread that waits for the start

    # -- connections -------------------------------------------------------------------------------------------------

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert isinstance(reader, _Reader)
        assert task is not None
        writer.transport.set_write_buffer_limits(high=0)  # so that to drain is to wait until all is sent
        connection = _Connection(reader, writer, task)
        self._open.add(connection)
        try:
            await self._serve(connection)
        except (ConnectionError, asyncio.CancelledError):
            pass  # the client is gone, or the server stops: Python 3.11 logs a traceback for a task that was cancelled
        finally:
            writer.close()
            self._open.discard(connection)

    async def _serve(self, connection: _Connection) -> None:
        while True:
            try:
                seen = await connection.request()
            except _BadRequest as error:
                await self._send(connection, replace(error_answer(None, 400, str(error)), framing="close"))
                return
            if seen is None:
                return
            answer = await self._receive(seen)
            if connection.is_old:
                answer = replace(answer, framing="close")
            if answer.ending == "keep" and (seen.header("connection") or "").lower() == "close":
                answer = replace(answer, ending="close")
            ending = await self._send(connection, answer)
            if ending == "drop_next":
                await connection.reader.read(1)
            if ending == "reset":
                connection.reset()
            if ending != "keep":
                return

    async def _send(self, connection: _Connection, answer: HttpResponse) -> Ending:
        """Send an answer byte for byte, and return what to do with the connection."""
        for piece in (head_of(answer),) if answer.head is None else answer.head:
            await self._send_piece(connection, piece)
        chunked = answer.framing == "chunked"
        for piece in answer.pieces:
            if connection.writer.is_closing():
                return "cut"
            if chunked and piece and isinstance(piece, bytes):
                piece = b"%x\r\n%b\r\n" % (len(piece), piece)
            await self._send_piece(connection, piece)
        if chunked and answer.ending not in ("cut", "reset"):
            await connection.write(b"0\r\n\r\n")
        return "close" if answer.framing == "close" and answer.ending == "keep" else answer.ending

    async def _send_piece(self, connection: _Connection, piece: bytes | Wait) -> None:
        """Send bytes, or pause, but no longer than the client stays connected."""
        if isinstance(piece, bytes):
            await connection.write(piece)
            return
        if piece.seconds == 0:
            await asyncio.sleep(0)
            return
        released = self._released
        over = released.wait() if piece.seconds is None else self._clock.sleep(piece.seconds)
        await first_of(over, connection.reader.ended.wait())
