"""The memories of served agents, to look through."""

from collections.abc import Iterable
from typing import Any

from ziggurat.agents.runnable import Runnable
from ziggurat.calls.enter import parts_of
from ziggurat.memory.record import MemoryRecord
from ziggurat.memory.store import LEASE_KIND, MemoryStore, Query
from ziggurat.serve.run_rows import time_of

_FIELDS = ("id", "owner", "kind", "origin", "tags", "taint", "importance", "uses", "archived", "supersedes")


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
        {name: getattr(record, name) for name in _FIELDS} | {"text": record.content, "updated": time_of(record.created)}
        for record in records[:limit]
    ]
    return rows, count or len(records)


def _stores(agents: Iterable[Runnable[Any]]) -> list[MemoryStore]:
    from ziggurat.agents.memory.middleware import Remembering  # a server of agents without memory needs none of it

    chains = [chain for agent in agents if (chain := parts_of(agent).chain) is not None]
    stores = [each.store for chain in chains for each in chain.middlewares if isinstance(each, Remembering)]
    return list({id(store): store for store in stores}.values())
