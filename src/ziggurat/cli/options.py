"""Arguments and options shared by several commands."""

from typing import Annotated

import typer

Model = Annotated[
    str | None,
    typer.Option("--model", "-m", metavar="NAME", help="The model; by default $ZIGGURAT_MODEL, else auto."),
]
Tools = Annotated[
    list[str] | None,
    typer.Option(
        "--tool",
        "-t",
        metavar="MODULE:FUNCTION",
        help="A tool, as module:function, file.py:function, or one of calculator, echo, timestamp. May be repeated. "
        "Without any: calculator and timestamp.",
    ),
]
Agent = Annotated[
    str | None,
    typer.Option("--agent", "-a", metavar="FILE.PY:NAME", help="An agent of your own, as file.py:name or module:name."),
]
Instructions = Annotated[
    str | None, typer.Option("--instructions", "-i", metavar="TEXT", help="The system instructions of the agent.")
]
Steps = Annotated[
    int | None, typer.Option("--max-steps", min=1, metavar="N", help="The maximum number of steps; 25 by default.")
]
Timeout = Annotated[float | None, typer.Option("--timeout", metavar="SECONDS", help="The time limit of the run.")]
Approve = Annotated[
    list[str] | None,
    typer.Option(
        "--approve",
        metavar="PATTERN",
        help="Ask before calling a tool whose name matches, such as 'delete_*'. May be repeated.",
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(
        "--memory",
        metavar="NAME",
        help="Recall what NAME said in earlier runs, and let the agent remember more; stored with the runs.",
    ),
]
Mcp = Annotated[
    list[str] | None,
    typer.Option(
        "--mcp",
        metavar="SERVER",
        help="An MCP server whose tools the agent may use: a command in quotes, an address, or a file of settings that "
        "ends with .json. May be repeated.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Write the answer only, without the live view.")]
Store = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="Where runs are stored, such as sqlite:///runs.db, file:///folder or memory: for nowhere; by default "
        "$ZIGGURAT_STORE, else a database in your data directory.",
    ),
]
Session = Annotated[
    str | None,
    typer.Option("--session", "-s", metavar="NAME", help="The stored conversation to continue or to start."),
]
Run = Annotated[str, typer.Argument(metavar="RUN", help="The run's id, or a unique prefix of it.")]
Json = Annotated[bool, typer.Option("--json", help="Write events to standard output, one per line.")]
JsonRows = Annotated[bool, typer.Option("--json", help="Write one JSON object per line.")]
Named = Annotated[str, typer.Argument(metavar="FILE.PY:NAME", help="The agent, as file.py:name or module:name.")]
AgentName = Annotated[str | None, typer.Option("--agent", "-a", metavar="NAME", help="Only runs of this agent.")]
Labels = Annotated[
    list[str] | None,
    typer.Option("--label", metavar="NAME=VALUE", help="Only runs with this label; several must all fit."),
]
Attempts = Annotated[
    int, typer.Option("--attempts", min=1, metavar="N", help="How often in a row a run may lose its process.")
]
