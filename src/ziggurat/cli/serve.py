"""``ziggurat serve``: agents behind HTTP."""

from typing import Annotated

import typer

from ziggurat.cli import options
from ziggurat.cli.agents import AgentOptions, agent_of
from ziggurat.cli.terminal import note
from ziggurat.serve.application import GRACE, app
from ziggurat.serve.guard import check_address
from ziggurat.serve.server import run_server


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
    store: options.Store = None,
) -> None:
    """Serve agents by HTTP: start, watch, decide on, steer and replay their runs.

    \b
    Examples:
      ziggurat serve desk.py:agent
      ziggurat serve desk.py:agent report.py:flow --port 9000 --store sqlite:///runs.db
    """
    check_address(host, token)
    served = [agent_of(AgentOptions(agent=spec), store) for spec in agents]
    application = app(
        served,
        token=token,
        hosts=hosts or (),
        proxies=proxies or (),
        max_runs=max_runs,
        max_streams=max_streams,
        grace=grace,
    )

    def report_ready() -> None:
        note(f"serving {', '.join(application.agents.agents)} at http://{host}:{port}/")
        public = f"https://{hosts[0]}" if proxies and hosts else f"http://{host}:{port}"
        note(f"for a browser, once: {public}/?token={application.link}")
        if token is None:
            note(f"token for programs: {application.token}")

    run_server(application, host, port, ready=report_ready)
