"""The command that serves agents, its options and its help."""

from typing import Annotated

import typer

from ziggurat.cli import options


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
    max_runs: Annotated[
        int, typer.Option("--max-runs", min=1, metavar="NUMBER", help="How many runs may be in progress.")
    ] = 100,
    max_streams: Annotated[
        int, typer.Option("--max-streams", min=1, metavar="NUMBER", help="How many streams may be open.")
    ] = 5_000,
    store: options.Store = None,
) -> None:
    """Serve agents by HTTP: start, watch, decide on, steer and replay their runs.

    \b
    Examples:
      ziggurat serve desk.py:agent
      ziggurat serve desk.py:agent report.py:flow --port 9000 --store sqlite:///runs.db
    """
    from ziggurat.cli.serve import serve_agents

    raise typer.Exit(
        serve_agents(
            agents,
            store,
            host=host,
            port=port,
            token=token,
            hosts=hosts or (),
            max_runs=max_runs,
            max_streams=max_streams,
        )
    )
