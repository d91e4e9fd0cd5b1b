"""HTTP as the server speaks it: uvicorn's protocol with a limit for heads, which httptools does not have."""

import socket
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD = 64 * 1024
"""Bytes of the longest head of a request."""

SEND_BUFFER = 128 * 1024
"""Bytes that the system is to buffer for a client that does not read; by itself it takes up to some MiB for each."""


class LimitedProtocol(HttpToolsProtocol):
    """One connection, which is ended if the head of a request is too long."""

    _head: int | None = 0  # bytes of the head that is being read; None behind it

    def connection_made(self, transport: Any) -> None:
        """Limit the buffer of a new connection."""
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        if self._head is not None:
            self._head += len(data)
        super().data_received(data)
        if self._head is not None and self._head > MAX_HEAD:
            self.transport.abort()

    def on_message_begin(self) -> None:
        """Begin to count."""
        self._head = 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Read a header; those behind the body are none, as nobody who has passed the request on has checked them."""
        if self._head is not None:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Answer a request, perhaps before all of its body is there."""
        self._head = None
        super().on_headers_complete()
