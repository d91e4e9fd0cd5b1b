"""``ziggurat serve``: agents behind HTTP, by uvicorn, which ends in order: readers learn of it, and runs can go on."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from ziggurat.cli import options
from ziggurat.cli.supervised import loaded_all, supervised
from ziggurat.cli.terminal import note
from ziggurat.core.errors import ConfigurationError, MissingExtra
from ziggurat.http.fetcher import Fetcher
from ziggurat.runtime.supervisor import ChildNotStarted
from ziggurat.serve.application import GRACE, ServedApp, app
from ziggurat.serve.guard import check_address

if TYPE_CHECKING:
    from uvicorn import Server

MAX_HEAD = 64 * 1024  # bytes of the longest head of a request
_SEND_BUFFER = 128 * 1024
"""Bytes that the system is to buffer for a client that does not read; by itself it takes up to some MiB for each."""


def serve(
    agents: Annotated[list[str], Argument(metavar="FILE.PY:NAME...", help="Agents, by file or module.")],
    host: Annotated[str, Option("--host", metavar="ADDRESS", help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, Option("--port", min=1, max=65535, help="The port to listen at.")] = 8800,
    token: options.Token = None,
    hosts: Annotated[
        list[str] | None,
        Option("--allow-host", metavar="NAME", help="Another name by which the server is addressed."),
    ] = None,
    proxies: Annotated[
        list[str] | None,
        Option("--proxy", metavar="ADDRESS", help="The address, or network, of a proxy that adds TLS and is trusted."),
    ] = None,
    max_runs: Annotated[int, Option("--max-runs", min=1, metavar="N", help="The most runs in progress.")] = 100,
    max_streams: Annotated[int, Option("--max-streams", min=1, metavar="N", help="The most open streams.")] = 5_000,
    grace: options.Grace = GRACE,
    push: Annotated[bool, Option("--push", help="Send changes of tasks to addresses that clients name.")] = False,
    work: Annotated[int, Option("--work", min=0, metavar="N", help="Also drive N due runs of each at a time.")] = 0,
    store: options.Store = None,
) -> int:
    """Serve agents by HTTP: start, watch, decide on, steer and replay their runs.

    With --work, it drives the runs that are due, too, and submits those of schedules: all in one process.

    \b
    Examples:
      ziggurat serve desk.py:agent reports.py:nightly --work 10
      ziggurat serve desk.py:agent report.py:flow --port 9000 --store sqlite:///runs.db
    """
    check_address(host, token)
    runnables, schedules = loaded_all(agents, store)
    if schedules and not work:
        raise ConfigurationError(f"the schedules of {', '.join(schedules)} need a worker here: add --work 10")
    application = app(
        runnables.values(),
        token=token,
        hosts=hosts or (),
        proxies=proxies or (),
        max_runs=max_runs,
        max_streams=max_streams,
        grace=grace,
        push=Fetcher() if push else None,
    )

    def make_server(ready: Callable[[], None]) -> "Server":
        def report_ready() -> None:
            note(f"serving {', '.join(application.agents.agents)} at http://{host}:{port}/")
            public = f"https://{hosts[0]}" if proxies and hosts else f"http://{host}:{port}"
            note(f"for a browser, once: {public}/?token={application.link}")
            if token is None:
                note(f"token for programs: {application.token}")
            ready()

        return server_for(application, host, port, ready=report_ready)

    served = application.agents.agents if work else {}
    workers = [
        each.worker(schedules=schedules.get(name, ()), concurrency=work, grace=grace) for name, each in served.items()
    ]
    try:
        return asyncio.run(supervised(workers, grace, make_server))
    except ChildNotStarted as error:
        raise error.__cause__ or error from error


def server_for(
    application: ServedApp,
    host: str,
    port: int,
    *,
    ready: Callable[[], None] = lambda: None,
) -> "Server":
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
            application.agents.closing.close()  # streams end first, or they would be waited for
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
