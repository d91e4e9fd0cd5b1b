"""Every kind of team, asked twice in a session; a member has acted in the first turn, and waits in the second."""

from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

from tests.golden.stores import FOLDER
from tests.stores.places import PLACES
from tests.teams.models import after_tools
from tests.teams.patterns import built, member
from ziggurat import AgentRun, Approve, Runnable, tool
from ziggurat.agents import Environment
from ziggurat.core.codec import SHAPE_VERSION, Raw
from ziggurat.journal import LogInfo, Row, Store
from ziggurat.journal.store import chained
from ziggurat.messages import tool_call
from ziggurat.stores import Session, SqliteStore
from ziggurat.testing import HandClock

TEAMS = f"version-{SHAPE_VERSION}/teams"

KEPT = {path.stem: path.read_bytes() for path in sorted((FOLDER / TEAMS).glob("*.jsonl"))}
"""What was recorded, by the kind of the team."""

PROMPTS = ("Do it.", "Do it again.", "And now?")


class _Line(msgspec.Struct):
    """A row of a log, and what the store knows of the log."""

    log: str
    agent: str
    request: str
    status: str
    asks: bool
    data: Raw


@tool(effect="once", approval=True)
async def act() -> str:
    """Act."""
    return "acted"


def team(kind: str, store: Store) -> Runnable[Any]:
    """Return a team of a kind, one of whose members acts."""
    worker = member("worker", after_tools("sent", tool_call("act")), tools=[act])
    return built((kind,), worker, store=store)


async def turn(kind: str, store: Store, number: int, *, approve: bool = True) -> AgentRun[Any]:
    """Ask a team in the session, or go on with what it was asked."""
    asked, environment = team(kind, store), Environment(clock=HandClock(auto=True))
    run = await asked.run(PROMPTS[number], run_id=f"r-{number}", session="alice", environment=environment)
    while run.pending and approve:
        decisions = {item.id: Approve() for item in run.pending}
        run = await asked.resume(run.id, decisions, environment=environment)
    return run


async def recorded(kind: str, folder: Path) -> bytes:
    """Ask a team twice, and return all that the store holds."""
    store = SqliteStore(folder / "runs.db", clock=HandClock())
    await turn(kind, store, 0)
    await turn(kind, store, 1, approve=False)
    lines = [
        _Line(info.log, info.agent, info.request, row.status, row.asks, Raw(row.data))
        for info in sorted(await store.logs(), key=lambda info: info.log)
        for row in await store.read(info.log)
    ]
    await store.close()
    return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)


async def put(store: Store, recording: bytes) -> None:
    """Put all that was recorded of a team into a store."""
    lines = [msgspec.json.decode(line, type=_Line) for line in recording.splitlines()]
    for log, its in groupby(lines, key=lambda line: line.log):
        rows: list[Row] = []
        for number, line in enumerate(its, 1):
            digest = chained(rows[-1].digest if rows else "", bytes(line.data))
            rows.append(Row(number, digest, bytes(line.data), line.status, line.asks))
        await store.release(log, await store.create(LogInfo(log, line.agent, line.request), rows))


async def read(kind: str, recording: bytes, folder: Path, place: str = "sqlite") -> dict[str, Any]:
    """Return what a recording says: the first run when it is replayed, the second when it goes on, and a third one."""
    folder.mkdir(exist_ok=True)
    store = PLACES[place](folder)()
    await put(store, recording)
    first = await team(kind, store).replay("r-0")
    runs = [first, await turn(kind, store, 1), await turn(kind, store, 2)]
    session = await Session("alice", store).get_messages()
    await store.close()
    return {"session": session, **_said(runs)}


def _said(runs: Iterable[AgentRun[Any]]) -> dict[str, Any]:
    return {
        f"{what} {number}": value
        for number, run in enumerate(runs)
        for what, value in (("messages", [*run.messages]), ("stop", run.stop), ("usage", run.usage_by_model))
    }
