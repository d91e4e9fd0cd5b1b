"""``ziggurat serve``: agents behind HTTP."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from ziggurat.cli import options
from ziggurat.cli.supervised import loaded_all, supervised
from ziggurat.cli.terminal import note
from ziggurat.core.errors import ConfigurationError
from ziggurat.http.fetcher import Fetcher
from ziggurat.runtime.supervisor import ChildNotStarted
from ziggurat.serve.application import GRACE, app
from ziggurat.serve.guard import check_address
from ziggurat.serve.server import server_for

if TYPE_CHECKING:
    from uvicorn import Server


def serve(
    agents: Annotated[
        list[str], typer.Argument(metavar="FILE.PY:NAME...", help="The agents, as file.py:name or module:name.")
    ],
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="The port to listen at.")] = 8800,
    token: Annotated[
        str | None,
        typer.Option(
            "--token",
            envvar="ZIGGURAT_TOKEN",
            metavar="TOKEN",
            help="What programs must show; by default a new one, which is printed.",
        ),
    ] = None,
    hosts: Annotated[
        list[str] | None,
        typer.Option("--allow-host", metavar="NAME", help="Another name by which the server is addressed."),
    ] = None,
    proxies: Annotated[
        list[str] | None,
        typer.Option(
            "--proxy", metavar="ADDRESS", help="The address, or network, of a proxy that adds TLS and is trusted."
        ),
    ] = None,
    max_runs: Annotated[
        int, typer.Option("--max-runs", min=1, metavar="NUMBER", help="How many runs may be in progress.")
    ] = 100,
    max_streams: Annotated[
        int, typer.Option("--max-streams", min=1, metavar="NUMBER", help="How many streams may be open.")
    ] = 5_000,
    grace: Annotated[
        float, typer.Option("--grace", min=0, metavar="SECONDS", help="How long runs may go on after a signal to end.")
    ] = GRACE,
    push: Annotated[
        bool, typer.Option("--push", help="Send changes of tasks to public addresses that clients of A2A name.")
    ] = False,
    work: Annotated[
        int, typer.Option("--work", min=0, metavar="N", help="Also be a worker that drives N runs of each at a time.")
    ] = 0,
    store: options.Store = None,
) -> int:
    """Serve agents by HTTP: start, watch, decide on, steer and replay their runs.

    With --work, it drives the runs that are due, too, and submits those of schedules: all in one process.

    \b
    Examples:
      ziggurat serve desk.py:agent
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
