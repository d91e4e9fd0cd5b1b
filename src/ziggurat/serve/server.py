"""Run the application with uvicorn, and end it in order: readers learn of it, and every run can be resumed."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ziggurat.core.errors import ConfigurationError, MissingExtra
from ziggurat.serve.application import GRACE, ServedApp

if TYPE_CHECKING:
    from uvicorn import Server

MAX_HEAD = 64 * 1024
"""Bytes of the longest head of a request."""

_SEND_BUFFER = 128 * 1024
"""Bytes that the system is to buffer for a client that does not read; by itself it takes up to some MiB for each."""


def server_for(
    application: ServedApp,
    host: str,
    port: int,
    *,
    ready: Callable[[], None] = lambda: None,
) -> "Server":
    """Return a uvicorn server for an application; ``await server.serve()`` runs it."""
    try:
        import uvicorn
    except ImportError as error:
        raise MissingExtra("ziggurat serve", "serve") from error

    class _Server(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield  # signals are the caller's, for they end also what runs beside the server

        async def serve(self, sockets: list[socket.socket] | None = None) -> None:
            try:
                await super().serve(sockets)
            except SystemExit as error:  # uvicorn's word for a port that cannot be bound; it has logged why
                raise ConfigurationError(f"port {port} of {host} cannot be used; choose another, or a host") from error

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            ready()

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            application.closing.close()  # streams end first, or they would be waited for
            await super().shutdown(sockets)
            if self.force_exit:  # at once, after which uvicorn ends no lifespan
                application.agents.grace = 0.0
                await application.agents.drain()

    config = uvicorn.Config(
        application,
        host=host,
        port=port,
        http=_limited_protocol(),
        proxy_headers=False,
        loop="asyncio",
        ws="none",
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=int(GRACE),
    )
    return _Server(config)


def _limited_protocol() -> type[asyncio.Protocol]:
    """Return uvicorn's protocol with limits for what it has no setting for."""
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

    class Limited(HttpToolsProtocol):
        _head: int | None = 0  # bytes of the head that is being read; None behind it

        def connection_made(self, transport: Any) -> None:
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
            super().connection_made(transport)

        def data_received(self, data: bytes) -> None:
            if self._head is not None:
                self._head += len(data)
            super().data_received(data)
            if self._head is not None and self._head > MAX_HEAD:
                self.transport.abort()

        def on_message_begin(self) -> None:
            self._head = 0
            super().on_message_begin()

        def on_header(self, name: bytes, value: bytes) -> None:
            # headers behind the body are none: nobody who has passed the request on has checked them
            if self._head is not None:
                super().on_header(name, value)

        def on_headers_complete(self) -> None:
            self._head = None
            super().on_headers_complete()

    return Limited
