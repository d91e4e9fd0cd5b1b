"""``ziggurat export``: a stored run as its record, or as a self-contained test file."""

import re
from datetime import UTC, datetime
from keyword import iskeyword
from pathlib import Path
from typing import Annotated

from typer import Option

from ziggurat.agents.stop import MAX_STEPS
from ziggurat.cli import options
from ziggurat.cli.agents import options_for
from ziggurat.cli.memories import only_remembers
from ziggurat.cli.store import load_run
from ziggurat.cli.terminal import note, write, write_json
from ziggurat.core.codec import as_type
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.path import escaped
from ziggurat.core.visible import visible
from ziggurat.databases.files import write_private_text
from ziggurat.journal.entries import Result
from ziggurat.journal.journal import LocalJournal
from ziggurat.journal.store import LogInfo
from ziggurat.messages.agent import AgentRun
from ziggurat.messages.recorded import recorded_steps

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9]+")

_FILE = '''"""A recorded run as a test without network: a change of its course fails, with a diff.

{how}
"""

# The run {id}, recorded on {day}.

import asyncio
{imports}

RECORD = (
{lines}
)
AGENT = {agent}


def test_run_{name}() -> None:
    run = asyncio.run(replay_record(AGENT, RECORD{approvals}))
    assert status_of(run.stop) == {stop}
    assert run.text == {text}
'''


def export(
    run: options.Run,
    pytest: Annotated[bool, Option("--pytest", help="Write a test that replays it without a network.")] = False,
    output: Annotated[Path | None, Option("--output", "-o", metavar="FILE", help="Write to this file.")] = None,
    agent: options.Agent = None,
    store: options.Store = None,
) -> None:
    """Export a run as its record, or as a test that replays it.

    \b
    Examples:
      ziggurat export 3f2a > run.jsonl
      ziggurat export 3f2a --pytest -o test_rain.py
      ziggurat export r-17 --pytest --agent desk.py:agent
    """
    info, journal = load_run(run, store)
    text = _as_test(info, journal, agent) if pytest else journal.dump().decode()
    if output is None:
        write(text) if pytest else write_json(text)
        return
    try:
        write_private_text(output, text)
    except OSError as error:
        raise ConfigurationError(f"{output} cannot be written: {error.strerror}") from error
    note(f"wrote {output}")


def _as_test(info: LogInfo, journal: LocalJournal, agent: str | None) -> str:
    made = options_for(info.id, journal, options.AgentOptions(agent=agent))
    agent_text, imports, how = _agent(made)
    approvals = ""
    if made.approve:
        imports.append("from ziggurat import Approvals")
        approvals = f", approvals=Approvals({', '.join(map(_literal, made.approve))})"
    imports += ["from ziggurat.stops import status_of", "from ziggurat.testing import replay_record"]
    lines = [_literal(line.decode() + "\n") for line in journal.dump().splitlines()]
    return _FILE.format(
        id=_literal(info.id),
        day=datetime.fromtimestamp(info.created, UTC).date().isoformat(),
        how=how,
        imports="\n".join(dict.fromkeys(imports)),
        lines="\n".join(f"    {line}  # noqa: E501" for line in lines),
        name=_NOT_IN_A_NAME.sub("_", info.id)[:60],
        agent=agent_text,
        approvals=approvals,
        stop=_literal(journal.last_stop or info.status),
        text=_literal(_last_text(info, journal)),
    )


def _literal(value: str | float) -> str:
    """Return the source of a value without hidden characters; all that comes from a record is written through this."""
    source = repr(value)
    return source if visible(source) == source else ascii(value)


def _is_identifier(name: str) -> bool:
    return _NAME.fullmatch(name) is not None and not iskeyword(name)


def _agent(made: options.AgentOptions) -> tuple[str, list[str], str]:
    if made.agent is not None:
        name, imports = _imported(made.agent)
        return name, imports, "Its agent is imported as usual."
    arguments, tools = ["ReplayModel(RECORD)"], list[str]()
    imports = ["from ziggurat import Agent", "from ziggurat.testing import ReplayModel"]
    for tool in made.tools or ("calculator", "timestamp"):
        name, lines = _imported(tool if ":" in tool else f"ziggurat.tools:{tool}")
        tools.append(name)
        imports += lines
    if made.memory is not None:  # recalled memories are on record, but the tools must be offered to the model again
        imports.append("from ziggurat.memory import memory_tools")
        tools.append(f"*memory_tools(){'[:1]' if only_remembers(made.model or 'demo') else ''}")
    arguments.append(f"tools=[{', '.join(tools)}]")
    for name, value in (("instructions", made.instructions), ("timeout", made.timeout)):
        arguments += [] if value is None else [f"{name}={_literal(value)}"]
    arguments.append(f"max_steps={made.max_steps or MAX_STEPS}")
    return f"Agent({', '.join(arguments)})", imports, "Its model answers from the record; its tools are those it had."


def _imported(spec: str) -> tuple[str, list[str]]:
    where, _, name = spec.rpartition(":")
    if where.endswith(".py"):
        path = Path(where).expanduser().absolute()
        lines = ["import sys", f"sys.path.insert(0, {_literal(str(path.parent))})"]
        if _is_identifier(name) and not _is_identifier(path.stem):  # such as my-desk.py
            return f"import_module({_literal(path.stem)}).{name}", [*lines, "from importlib import import_module"]
        where = path.stem
    else:
        lines = []
    if not all(map(_is_identifier, (name, *where.split(".")))):
        raise ConfigurationError(f"{spec}: the test needs to know it as file.py:name or module:name")
    return name, [*lines, f"from {where} import {name}"]


def _last_text(info: LogInfo, journal: LocalJournal) -> str:
    root = escaped(info.agent)
    outcome = journal.find(root)
    if outcome is not None and isinstance(outcome.result, Result):
        return as_type(outcome.result.value, AgentRun).text
    _, steps = recorded_steps(journal.entries, root)
    texts = [reply.text for step in steps for reply in step.replies if step.complete]
    return texts[-1] if texts else ""
