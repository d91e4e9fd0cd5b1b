"""Runs, sessions, and memories of agents, as rows of lists: no more of a record is read than its ends."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from msgspec import Struct

from ziggurat.agents.runnable import Runnable
from ziggurat.calls.enter import parts_of
from ziggurat.core.codec import as_type
from ziggurat.core.errors import JournalCorrupt
from ziggurat.journal.entries import Ended, JournalEntry, Opened, Result, read_entry
from ziggurat.journal.rows import lines_of
from ziggurat.journal.store import LogInfo, Store
from ziggurat.memory.record import MemoryRecord
from ziggurat.memory.store import LEASE_KIND, MemoryStore, Query
from ziggurat.messages.agent import AgentRequest, AgentRun
from ziggurat.messages.formatting import shortened
from ziggurat.messages.usage import Usage, total_of
from ziggurat.runs.runs import conditions_of

_PROMPT = 200  # characters of a prompt in a list
_REMEMBERED = 1000  # rows that are not made again while their run stays as it is
_OF_MEMORY = ("id", "owner", "kind", "origin", "tags", "taint", "importance", "uses", "archived", "supersedes")


class RunRow(Struct, frozen=True):
    run_id: str
    agent: str
    status: str
    prompt: str
    started: str
    updated: str
    labels: dict[str, Any]
    driven: bool
    session: str
    usage: Usage | None
    cost: Decimal | None


class RunRows:
    """Makes the rows of runs, and keeps the latest."""

    def __init__(self) -> None:
        self._rows: dict[str, tuple[LogInfo, RunRow]] = {}

    async def row(self, store: Store, info: LogInfo) -> RunRow:
        previous = self._rows.pop(info.log, None)
        row = previous[1] if previous is not None and previous[0] == info else await _row(store, info)
        self._rows[info.log] = (info, row)
        if len(self._rows) > _REMEMBERED:
            del self._rows[next(iter(self._rows))]
        return row

    @staticmethod
    async def run(store: Store, info: LogInfo) -> AgentRun | None:
        """Return a run as it ended or waits, with its output as plain data; None if it has done neither."""
        return (await _ends(store, info))[1]


async def _row(store: Store, info: LogInfo) -> RunRow:
    opened, run = await _ends(store, info)
    return RunRow(
        run_id=info.log.removeprefix("run:"),
        agent=info.agent,
        status="queued" if is_queued(info, driven=bool(info.owner)) else info.status,
        prompt="(damaged)" if opened is None else shortened(prompt_of(opened), _PROMPT),
        started=time_of(info.created),
        updated=time_of(info.updated),
        labels=info.labels,
        driven=bool(info.owner),
        session="" if opened is None else conditions_of(opened).session,
        usage=None if run is None else run.usage,
        cost=None if run is None else total_of(run.usage_by_model or {"": run.usage}),
    )


def is_queued(info: LogInfo, *, driven: bool) -> bool:
    """Return whether a run was submitted, and nobody has begun to drive it."""
    return info.status == "running" and info.count == 1 and not driven


async def _ends(store: Store, info: LogInfo) -> tuple[JournalEntry | None, AgentRun | None]:
    try:
        entries = await read_entries(store, info, 0, 1)
        if info.status != "running" and info.count > 1:
            entries += await read_entries(store, info, max(1, info.count - 2))
    except JournalCorrupt:  # one damaged run must not hide the others
        return None, None
    return entries[0] if entries else None, _run(entries[-2:])


async def read_entries(store: Store, info: LogInfo, after: int, limit: int | None = None) -> list[JournalEntry]:
    rows = await store.read(info.log, after, limit)
    return [read_entry(line) for line in await lines_of(store, info.log, rows)]


def _run(entries: Sequence[JournalEntry]) -> AgentRun | None:
    if len(entries) < 2 or not isinstance(entries[1], Ended):
        return None
    run = _as_run(entries[1].run)
    return _as_run(entries[0].value) if run is None and isinstance(entries[0], Result) else run


def _as_run(value: object) -> AgentRun | None:
    try:
        return None if value is None else as_type(value, AgentRun)
    except JournalCorrupt:  # the result of something else, such as a flow
        return None


def prompt_of(opened: JournalEntry) -> str:
    """Return the last message with which a run was begun, by its first entry; empty if there is none."""
    if not isinstance(opened, Opened) or opened.request is None:
        return ""
    return as_type(opened.request, AgentRequest).messages[-1].text


def time_of(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


async def read_sessions(stores: Iterable[Store]) -> list[dict[str, Any]]:
    infos = [info for store in stores for info in await store.logs("session:", limit=500)]
    infos.sort(key=lambda info: info.updated, reverse=True)
    return [{"id": info.log.removeprefix("session:"), "updated": time_of(info.updated)} for info in infos]


async def read_memories(
    agents: Iterable[Runnable[Any]], *, search: str, owner: str | None, limit: int
) -> tuple[list[dict[str, Any]], int]:
    """Return memories of agents and how many there are: the latest with archived ones, or what matches words best."""
    records: list[MemoryRecord] = []
    count = 0
    for store in _stores(agents):
        if search:
            hits = await store.search(Query(owner=owner, text=search, limit=limit))
            records += [hit.record for hit in hits]
        else:
            scan = store.scan(owner=owner, archived=None, newest_first=True, limit=limit)
            records += [record async for record in scan if record.kind != LEASE_KIND]
            count += await store.count(owner=owner, archived=None)
    if not search:
        records.sort(key=lambda record: record.created, reverse=True)
    rows = [
        {name: getattr(record, name) for name in _OF_MEMORY}
        | {"text": record.content, "updated": time_of(record.created)}
        for record in records[:limit]
    ]
    return rows, count or len(records)


def _stores(agents: Iterable[Runnable[Any]]) -> list[MemoryStore]:
    from ziggurat.agents.memory.middleware import Remembering  # a server of agents without memory needs none of it

    chains = [chain for agent in agents if (chain := parts_of(agent).chain) is not None]
    stores = [each.store for chain in chains for each in chain.middlewares if isinstance(each, Remembering)]
    return list({id(store): store for store in stores}.values())
