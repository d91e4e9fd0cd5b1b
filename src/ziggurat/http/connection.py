"""Connection: an HTTP/1.1 connection with one request at a time; replies are parsed by llhttp."""

import asyncio
import select
from typing import Any, Protocol, cast

from ziggurat.core.errors import MissingExtra, ModelError
from ziggurat.http.incoming import Incoming

_LONGEST_HEAD = 1 << 16


class _ConnectionOwner(Protocol):
    def release(self, connection: "Connection") -> None:
        """Take back a connection that can be used again."""
        ...

    def forget(self, connection: "Connection") -> None:
        """Remove a connection that is closed or will be."""
        ...


class Parser(Protocol):
    """The part of llhttp's parser that is used."""

    def feed_data(self, data: bytes) -> None:
        """Parse bytes, and call the connection's ``on_...`` methods."""
        ...

    def get_status_code(self) -> int: ...

    def should_keep_alive(self) -> bool:
        """Return whether the connection may be used again."""
        ...


def require_parser() -> None:
    try:
        import httptools  # noqa: F401
    except ModuleNotFoundError:
        raise MissingExtra("asking a model over HTTP", "http") from None


def _new_parser(connection: "Connection") -> tuple[Parser, type[Exception]]:
    import httptools

    return cast("Parser", httptools.HttpResponseParser(connection)), httptools.HttpParserError


class Connection(asyncio.Protocol):
    def __init__(self, home: _ConnectionOwner, name: str) -> None:
        self.home = home
        self.name = name
        self.idle_since: float = 0.0
        self._transport: asyncio.Transport | None = None
        self._poll: Any = None
        self._reply: Incoming | None = None
        self._passing = False  # an interim reply, such as 100 Continue
        self._unread = 0  # bytes since the last body data: those of a head, or of trailers
        self._lost = False
        self._parser, self._parser_error = _new_parser(self)

    # -- for the pool --------------------------------------------------------------------------------------------

    def ask(self, question: bytes, reply: Incoming) -> None:
        """Send a request, head and body together; its reply arrives in `reply`."""
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
        self.home.forget(self)
        if self._transport is not None:
            self._transport.abort()

    def pause(self) -> None:
        """Stop reading, so that the server must wait."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    # -- from the event loop -------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport, and a poll object to check for data on idle connections."""
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
        """Store the status, and skip interim replies."""
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
        if self._parser.should_keep_alive() and not self._lost:
            self.home.release(self)
        else:
            self.abandon()
