"""Arguments and options shared by several commands."""

import os
import shlex
from collections.abc import Callable
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any

from msgspec import Struct
from msgspec.structs import asdict
from typer import Argument, Option

from ziggurat.core import codec
from ziggurat.models.selection import MODEL
from ziggurat.tools.approval import Approvals

Model = Annotated[
    str | None,
    Option("--model", "-m", metavar="NAME", help="The model; by default $ZIGGURAT_MODEL, else auto."),
]
Tools = Annotated[
    list[str] | None,
    Option(
        "--tool",
        "-t",
        metavar="MODULE:FUNCTION",
        help="A tool, as module:function, file.py:function, or one of calculator, echo, timestamp. May be repeated. "
        "Without any: calculator and timestamp.",
    ),
]
Agent = Annotated[
    str | None,
    Option("--agent", "-a", metavar="FILE.PY:NAME", help="An agent of your own, as file.py:name or module:name."),
]
Instructions = Annotated[
    str | None, Option("--instructions", "-i", metavar="TEXT", help="The system instructions of the agent.")
]
Steps = Annotated[
    int | None, Option("--max-steps", min=1, metavar="N", help="The maximum number of steps; 25 by default.")
]
Timeout = Annotated[float | None, Option("--timeout", metavar="SECONDS", help="The time limit of the run.")]
Approve = Annotated[
    list[str] | None,
    Option(
        "--approve",
        metavar="PATTERN",
        help="Ask before calling a tool whose name matches, such as 'delete_*'. May be repeated.",
    ),
]
Memory = Annotated[
    str | None,
    Option(
        "--memory",
        metavar="NAME",
        help="Recall what NAME said in earlier runs, and let the agent remember more; stored with the runs.",
    ),
]
Mcp = Annotated[
    list[str] | None,
    Option(
        "--mcp",
        metavar="SERVER",
        help="An MCP server whose tools the agent may use: a command in quotes, an address, or a file of settings that "
        "ends with .json. May be repeated.",
    ),
]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Write the answer only, without the live view.")]
Store = Annotated[
    str | None,
    Option(
        "--store",
        metavar="URL",
        help="Where runs are stored, such as sqlite:///runs.db, file:///var/runs or memory: for nowhere; by default "
        "$ZIGGURAT_STORE, else a database in your data directory.",
    ),
]
Session = Annotated[
    str | None,
    Option("--session", "-s", metavar="NAME", help="The stored conversation to continue or to start."),
]
Run = Annotated[str, Argument(metavar="RUN", help="The run's id, or a unique prefix of it.")]
Json = Annotated[bool, Option("--json", help="Write events to standard output, one per line.")]
JsonRows = Annotated[bool, Option("--json", help="Write one JSON object per line.")]
Named = Annotated[str, Argument(metavar="FILE.PY:NAME", help="The agent, as file.py:name or module:name.")]
AgentName = Annotated[str | None, Option("--agent", "-a", metavar="NAME", help="Only runs of this agent.")]
Labels = Annotated[
    list[str] | None,
    Option("--label", metavar="NAME=VALUE", help="Only runs with this label; several must all fit."),
]
Concurrency = Annotated[
    int, Option("--concurrency", min=1, metavar="N", help="How many runs of each agent go on at the same time.")
]
Grace = Annotated[
    float, Option("--grace", min=0, metavar="SECONDS", help="How long runs may go on after a signal to end.")
]
Limit = Annotated[int, Option("--limit", "-n", min=1, metavar="N", help="The maximum number.")]
Token = Annotated[
    str | None,
    Option(
        "--token",
        envvar="ZIGGURAT_TOKEN",
        metavar="TOKEN",
        help="What programs must show, and what signs ids for them; by default a new one.",
    ),
]
Attempts = Annotated[
    int, Option("--attempts", min=1, metavar="N", help="How often in a row a run may lose its process.")
]

_OF_AGENT = {
    "model": Model,
    "tools": Tools,
    "agent": Agent,
    "instructions": Instructions,
    "max_steps": Steps,
    "timeout": Timeout,
    "approve": Approve,
    "memory": Memory,
    "mcp": Mcp,
}

FLAGS = {name: f"--{name.replace('_', '-')}" for name in _OF_AGENT} | {"tools": "--tool"}
"""The options of an agent as they are written, by the names of fields."""


class AgentOptions(Struct, frozen=True):
    model: str | None = None
    tools: tuple[str, ...] = ()
    agent: str | None = None
    instructions: str | None = None
    max_steps: int | None = None
    timeout: float | None = None
    approve: tuple[str, ...] = ()
    memory: str | None = None
    mcp: tuple[str, ...] = ()

    @property
    def approvals(self) -> Approvals | None:
        return Approvals(*self.approve) if self.approve else None

    @property
    def model_name(self) -> str:
        """The model of an agent that is built: the one that is named, else that of the environment."""
        return self.model if self.model is not None else os.environ.get(MODEL) or "demo"

    def given(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value not in (None, ())}

    def text(self) -> str:
        given = self.given().items()
        pairs = [(name, each) for name, value in given for each in (value if isinstance(value, tuple) else (value,))]
        return shlex.join(word for name, each in pairs if name in FLAGS for word in (FLAGS[name], str(each)))


def with_agent_options(command: Callable[..., int]) -> Callable[..., int]:
    """Return a command that also has the options of an agent; its function gets them first, as `AgentOptions`."""
    own = [Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=kind) for name, kind in _OF_AGENT.items()]
    others = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in list(signature(command).parameters.values())[1:]]

    @wraps(command)
    def call(**given: Any) -> int:
        chosen = {each.name: value for each in own if (value := given.pop(each.name)) is not None}
        return command(codec.convert(chosen, AgentOptions), **given)

    call.__dict__["__signature__"] = Signature([*own, *others])  # from which typer makes the options
    return call
