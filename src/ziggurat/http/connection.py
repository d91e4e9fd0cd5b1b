"""Connection: an HTTP/1.1 connection with one request at a time, parsed by llhttp; and the reply that arrives on it,
decompressed and within limits of size and time; and the pool that keeps connections open."""

import asyncio
import select
import time
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, cast

from ziggurat.core.clock import Timer
from ziggurat.core.context import Context
from ziggurat.core.errors import MissingExtra, ModelError, attach
from ziggurat.http.limits import Limits

_LONGEST_HEAD = 1 << 16
_HELD = 1 << 18  # unread bytes at which reading from the server is paused
_PIECE = 1 << 20  # bytes decompressed at a time
_RATIO = 200  # event streams compress to a tenth; decompression bombs to a thousandth
_SMALL = 1 << 23
LEFT = 2.0  # seconds for a reply to end after its last event, so that the connection can be kept


class Incoming:
    """A reply that arrives on a connection; one timer enforces its time limits."""

    def __init__(self, line: "Connection", ctx: Context, limits: Limits, name: str, *, stream: bool) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.done: bool = False
        self.to_the_end = False  # no length and no chunks: it ends with the connection
        self.begun = False  # some data has arrived
        self.headed = False
        self._line = line
        self._limits = limits
        self._name = name
        self._most = limits.stream if stream else limits.reply
        self._pieces: list[bytes] = []
        self._held = self._given = 0
        self._paused = self._left = False
        self._inflater: Any = None  # of zlib, for a compressed body
        self._compressed = 0
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._emit = ctx.emit
        self._clock = ctx.clock
        self._now: Callable[[], float] = self._clock.monotonic
        self._started = self._last = self._now()
        self._blocked = ctx.emit.blocked
        due = min((each for each in (limits.idle, limits.total) if each is not None), default=None)
        self._timer: Timer | None = None if due is None else self._clock.call_at(self._started + due, self._fire)

    # -- from the connection -------------------------------------------------------------------------------------

    def add(self, data: bytes) -> None:
        if self._left:
            return
        self._pieces.append(data)
        self._held += len(data)

    def arrived(self) -> None:
        """Wake the reader; called once for all data received together."""
        self._last = self._now()
        if self._held > _HELD and not self._paused and not self.done:
            self._paused = True
            self._line.pause()
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def complete(self) -> None:
        self.done = True
        self._stop_timer()

    def fail(self, error: Exception) -> None:
        if not self.done:
            self._error = error
            self.complete()
            self.arrived()

    # -- to the reader -------------------------------------------------------------------------------------------

    async def head(self) -> None:
        while not self.headed:
            if self._error is not None:
                raise self._error
            await self._wait()
        encoding = self.headers.get("content-encoding", "identity").strip().lower()
        if encoding in ("gzip", "x-gzip"):
            self._inflater = zlib.decompressobj(31)
        elif encoding not in ("", "identity"):
            raise ModelError(f"the reply is encoded as {encoding[:40]!r}, which was not requested", kind="malformed")

    async def more(self) -> bytes:
        while True:
            if self._pieces or (self._inflater is not None and self._inflater.unconsumed_tail):
                data = self._take()
                if data:
                    return data
            elif self._error is not None:
                raise self._error
            elif self.done:
                return b""
            else:
                await self._wait()

    async def read(self) -> bytes:
        pieces: list[bytes] = []
        while data := await self.more():
            pieces.append(data)
        return b"".join(pieces)

    def close(self) -> None:
        if not self.done:
            self.complete()
            self._line.abandon()

    async def end(self, *, whole: bool) -> None:
        """End the reply: close the connection, or if `whole`, discard the rest while it arrives, for a short time."""
        if self.done or not whole:
            self.close()
            return
        self._left = True
        self._pieces.clear()
        self._stop_timer()
        self._timer = self._clock.call_at(self._now() + LEFT, self.close)
        if self._paused:
            self._paused = False
            self._line.resume()

    def _take(self) -> bytes:
        pieces = self._pieces
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self._held = 0
        inflater = self._inflater
        if inflater is not None:
            self._compressed += len(data)
            try:
                data = inflater.decompress(inflater.unconsumed_tail + data, _PIECE)
            except zlib.error as error:
                raise ModelError(f"the reply cannot be decompressed: {error}", kind="malformed") from error
        if self._paused and (inflater is None or not inflater.unconsumed_tail):
            self._paused = False
            self._line.resume()
        self._given += len(data)
        bomb = inflater is not None and self._given > max(_SMALL, _RATIO * self._compressed)
        if self._given > self._most or bomb:
            self.close()
            self._error = ModelError(
                f"the reply of {self._name} is larger than {self._most >> 20} MiB or grows too much when it is "
                "decompressed; Limits(reply=..., stream=...) bound it",
                kind="malformed",
                transient=False,
                status=self.status,
            )
            raise self._error
        return data

    async def _wait(self) -> None:
        self._last = self._now()
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        except BaseException:
            self.close()
            raise
        finally:
            self._waiter = None

    # -- time ----------------------------------------------------------------------------------------------------

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fire(self) -> None:
        """Fail if a time limit has passed, otherwise set the timer for the next one."""
        now, limits = self._now(), self._limits
        if self._waiter is None:
            self._last = now  # the reader is busy, so this is not the server's idle time
        dues: list[float] = []
        if limits.total is not None:
            dues.append(self._started + limits.total + self._emit.blocked - self._blocked)
        if limits.idle is not None:
            dues.append(self._last + limits.idle)
        if min(dues) > now:
            self._timer = self._clock.call_at(min(dues), self._fire)
            return
        late = limits.total is not None and dues[0] <= now
        what = f"was not done after {limits.total:g} s" if late else f"sent nothing for {limits.idle:g} s"
        bound = "total" if late else "idle"
        self.fail(ModelError(f"{self._name} {what}; Limits({bound}=...) bounds it", kind="timeout"))
        self._line.abandon()


def require_parser() -> None:
    try:
        import httptools  # noqa: F401
    except ModuleNotFoundError:
        raise MissingExtra("asking a model over HTTP", "http") from None


class Connection(asyncio.Protocol):
    """An HTTP/1.1 connection with one request at a time; with no pool, for one request only."""

    def __init__(self, home: "Pool | None", name: str) -> None:
        import httptools

        self.home = home
        self.name = name
        self.idle_since: float = 0.0
        self._transport: asyncio.Transport | None = None
        self._poll: Any = None
        self._reply: Incoming | None = None
        self._passing = False  # an interim reply, such as 100 Continue
        self._unread = 0  # bytes since the last body data: those of a head, or of trailers
        self._lost = False
        self._parser: Any = httptools.HttpResponseParser(self)
        self._parser_error: type[Exception] = httptools.HttpParserError

    # -- for the pool --------------------------------------------------------------------------------------------

    def ask(self, question: bytes, reply: Incoming) -> None:
        assert self._transport is not None
        self._reply = reply
        self._transport.write(question)

    def usable(self) -> bool:
        """Return whether an idle connection can be used: not closed by the server, and without unexpected data."""
        if self._lost or self._transport is None or self._transport.is_closing():
            return False
        return self._poll is None or not self._poll.poll(0)

    def abandon(self) -> None:
        self._lost = True
        if self.home is not None:
            self.home.forget(self)
        if self._transport is not None:
            self._transport.abort()

    def pause(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    # -- from the event loop -------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        sock = transport.get_extra_info("socket")
        if sock is not None and hasattr(select, "poll"):
            self._poll = select.poll()
            self._poll.register(sock.fileno(), select.POLLIN)

    def data_received(self, data: bytes) -> None:
        reply = self._reply
        if reply is None:
            self.abandon()
            return
        reply.begun = True
        self._unread += len(data)
        try:
            self._parser.feed_data(data)
        except self._parser_error as error:
            self._break(reply, ModelError(f"{self.name} does not speak HTTP/1.1: {error}", kind="malformed"))
            return
        if self._unread > _LONGEST_HEAD:
            self._break(reply, ModelError(f"{self.name} sent headers of more than 64 KiB", kind="malformed"))
            return
        reply.arrived()

    def _break(self, reply: Incoming, error: ModelError) -> None:
        reply.fail(error)
        self._reply = None
        self.abandon()

    def connection_lost(self, error: Exception | None) -> None:
        """Complete the reply if it ends with the connection, otherwise fail it."""
        self._lost = True
        if self.home is not None:
            self.home.forget(self)
        reply, self._reply = self._reply, None
        if reply is None or reply.done:
            return
        if reply.headed and reply.to_the_end and error is None:
            reply.complete()
            reply.arrived()
            return
        how = "in the middle of a reply" if reply.begun else "without a reply"
        why = f" ({error})" if error is not None and str(error) else ""
        reply.fail(ModelError(f"{self.name} closed the connection {how}{why}", kind="connection"))

    # -- from llhttp ---------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Mark the connection as lost if a reply begins without a request."""
        if self._reply is None:
            self._lost = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a header; repeated ones are joined with a comma."""
        reply = self._reply
        if reply is None:
            return
        known = name.decode("latin-1").lower()
        text = value.decode("latin-1")
        headers = reply.headers
        headers[known] = text if known not in headers else f"{headers[known]}, {text}"

    def on_headers_complete(self) -> None:
        reply = self._reply
        if reply is None:
            return
        status = self._parser.get_status_code()
        if 100 <= status < 200:
            self._passing = True
            reply.headers.clear()
            return
        reply.status = status
        reply.headed = True
        reply.to_the_end = "content-length" not in reply.headers and "transfer-encoding" not in reply.headers

    def on_body(self, data: bytes) -> None:
        if self._reply is not None:
            self._unread = 0
            self._reply.add(data)

    def on_message_complete(self) -> None:
        reply = self._reply
        if self._passing or reply is None:
            self._passing = False
            return
        self._reply = None
        self._unread = 0
        reply.complete()
        if self.home is not None and self._parser.should_keep_alive() and not self._lost:
            self.home.release(self)
        else:
            self.abandon()


class Pool:
    """Keeps connections open and lends each to one call at a time; waiting calls are served in order."""

    def __init__(self, connect: "Callable[[Pool, Context], Awaitable[Connection]]", limits: Limits) -> None:
        self._connect = connect
        self._limits = limits
        self._idle: list[Connection] = []
        self._lent: set[Connection] = set()
        self._places = asyncio.Semaphore(limits.connections)
        self._closed = False
        self._watch: AsyncGenerator[None, None] | None = None

    @property
    def open(self) -> int:
        return len(self._lent) + len(self._idle)

    async def borrow(self, ctx: Context) -> Connection:
        """Return an idle connection, or a new one; if there are as many as there may be, wait for one."""
        if self._watch is None:
            self._watch = self._until_the_loop_ends()
            await anext(self._watch)
        await self._places.acquire()
        try:
            connection = self._kept() or await self._connect(self, ctx)
            if self._closed:
                connection.abandon()
                raise ModelError("the client was closed", kind="connection", transient=False)
        except BaseException as error:
            self._places.release()
            attach(error, "sent", False)
            raise
        self._lent.add(connection)
        return connection

    def _kept(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if time.monotonic() - connection.idle_since < self._limits.keep_alive and connection.usable():
                return connection
            connection.abandon()
        return None

    def release(self, connection: Connection) -> None:
        if self._closed or connection not in self._lent or len(self._idle) >= self._limits.idle_connections:
            connection.abandon()
            return
        connection.idle_since = time.monotonic()
        self._idle.append(connection)
        self._lent.discard(connection)
        self._places.release()

    def forget(self, connection: Connection) -> None:
        """Remove a connection; a waiting call may open another in its place."""
        if connection in self._lent:
            self._lent.discard(connection)
            self._places.release()
        elif connection in self._idle:
            self._idle.remove(connection)

    def close(self) -> None:
        self._closed = True
        for connection in (*self._lent, *self._idle):
            connection.abandon()

    async def _until_the_loop_ends(self) -> AsyncGenerator[None, None]:
        """Close the pool when the event loop shuts down, which closes unfinished asynchronous generators."""
        try:
            yield
        finally:
            self.close()
            await asyncio.sleep(0)  # the transports close in the loop's next turn
