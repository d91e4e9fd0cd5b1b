"""HTTP as the server speaks it: uvicorn's protocol, which also notes what connections wait for."""

import asyncio
import socket
from typing import TYPE_CHECKING, Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ziggurat.serve.connections import Connections

if TYPE_CHECKING:
    from uvicorn.protocols.http.flow_control import FlowControl

MAX_HEAD = 64 * 1024
"""Bytes of the longest head of a request."""

SEND_BUFFER = 128 * 1024
"""Bytes that the system is to buffer for a client that does not read; by itself it takes up to some MiB for each."""


class NotedProtocol(HttpToolsProtocol):
    """One connection, which is noted while it waits for its client, and ended if the head of a request is too long."""

    def __init__(self, connections: Connections, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._noted = connections
        self._head: int | None = 0  # bytes of the head that is being read; None behind it

    def connection_made(self, transport: Any) -> None:
        """Wait for the first request."""
        self._noted.begin(transport, "request")
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        super().connection_made(transport)
        self.flow: FlowControl = cast("FlowControl", _Flow(transport))

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing."""
        self._noted.end(self.transport, "request", "reading")
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        if self._head is not None:
            self._head += len(data)
        super().data_received(data)
        if self._head is not None and self._head > MAX_HEAD:
            self.transport.abort()

    def on_message_begin(self) -> None:
        """Wait for the rest of a request."""
        self._head = 0
        self._noted.begin(self.transport, "request")
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Read a header; those behind the body are none, as nobody who has passed the request on has checked them."""
        if self._head is not None:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Answer a request, perhaps before all of its body is there."""
        self._head = None
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Have all of a request."""
        self._noted.end(self.transport, "request")
        super().on_message_complete()

    def pause_writing(self) -> None:
        """Wait until the client has read."""
        self._noted.begin(self.transport, "reading")
        super().pause_writing()

    def resume_writing(self) -> None:
        """Go on, as the client has read."""
        self._noted.end(self.transport, "reading")
        super().resume_writing()


class _Flow:
    """Pauses and resumes a connection, as uvicorn's `FlowControl`, whose event takes 760 bytes for each connection."""

    __slots__ = ("_transport", "_writable", "read_paused", "write_paused")

    def __init__(self, transport: asyncio.Transport) -> None:
        self.read_paused = False
        self.write_paused = False
        self._transport = transport
        self._writable: asyncio.Event | None = None  # made when writers have to wait

    async def drain(self) -> None:
        """Wait until the client has read."""
        if self._writable is not None:
            await self._writable.wait()

    def pause_reading(self) -> None:
        """Read nothing more."""
        if not self.read_paused:
            self.read_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read on."""
        if self.read_paused:
            self.read_paused = False
            self._transport.resume_reading()

    def pause_writing(self) -> None:
        """Make writers wait."""
        if self._writable is None:
            self.write_paused = True
            self._writable = asyncio.Event()

    def resume_writing(self) -> None:
        """Let writers go on."""
        if self._writable is not None:
            self.write_paused = False
            self._writable.set()
            self._writable = None
