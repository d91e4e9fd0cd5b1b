"""``ziggurat serve``: agents behind HTTP."""

from collections.abc import Sequence

from ziggurat.cli.agent_options import AgentOptions
from ziggurat.cli.build import agent_of
from ziggurat.cli.exit_codes import COMPLETED
from ziggurat.cli.terminal import note
from ziggurat.serve.application import app
from ziggurat.serve.guard import check_address
from ziggurat.serve.server import run_server


def serve_agents(
    agents: Sequence[str],
    store: str | None,
    *,
    host: str,
    port: int,
    token: str | None,
    hosts: Sequence[str],
    max_runs: int,
    max_streams: int,
) -> int:
    """Serve agents until a signal ends the process; return the exit code."""
    check_address(host, token)
    served = [agent_of(AgentOptions(agent=spec), store) for spec in agents]
    application = app(served, token=token, hosts=hosts, max_runs=max_runs, max_streams=max_streams)

    def report_ready() -> None:
        note(f"serving {', '.join(application.agents.agents)} at http://{host}:{port}/")
        note(f"for a browser, once: http://{host}:{port}/?token={application.link}")
        if token is None:
            note(f"token for programs: {application.token}")

    run_server(application, host, port, ready=report_ready)
    return COMPLETED
