"""Run the application with uvicorn, and end it in order: readers learn of it, and every run can be resumed."""

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from ziggurat.core.errors import ConfigurationError, MissingExtra
from ziggurat.serve.application import ServedApp

if TYPE_CHECKING:
    from uvicorn import Server

GRACE = 5.0
"""Seconds that requests other than streams have to finish when the server ends."""


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

    from ziggurat.serve.protocol import LimitedProtocol

    class _Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            ready()

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            application.closing.close()  # streams end first, or they would be waited for
            await super().shutdown(sockets)

    config = uvicorn.Config(
        application,
        host=host,
        port=port,
        http=LimitedProtocol,
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


def run_server(application: ServedApp, host: str, port: int, *, ready: Callable[[], None] = lambda: None) -> None:
    """Serve until a signal ends the process, and call `ready` when the server listens."""
    import asyncio

    server = server_for(application, host, port, ready=ready)
    try:
        asyncio.run(server.serve())
    except SystemExit as error:  # uvicorn's word for a port that cannot be bound; it has logged why
        raise ConfigurationError(
            f"port {port} of {host} cannot be used; choose another with --port, or --host"
        ) from error
