"""The store of a knowledge graph in a SQLite database; the file may also hold runs and memories."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct

from ziggurat.core import codec
from ziggurat.core.errors import CallerError
from ziggurat.core.settings import Seconds, checked
from ziggurat.databases.address import StorePath, check_path
from ziggurat.databases.sqlite import SqliteConnection, write_batch
from ziggurat.databases.writer import Job, Writer, reopened_after_fork
from ziggurat.knowledge.entities import Entity, Relation
from ziggurat.knowledge.graph import KnowledgeGraph, unknown

_TABLES = (
    """CREATE TABLE IF NOT EXISTS knowledge (
        place INTEGER PRIMARY KEY AUTOINCREMENT, graph TEXT NOT NULL, source TEXT NOT NULL, target TEXT NOT NULL,
        kind TEXT NOT NULL, changed INTEGER NOT NULL, value TEXT, UNIQUE (graph, source, target, kind))""",
    "CREATE INDEX IF NOT EXISTS knowledge_by_change ON knowledge (graph, changed)",
    "CREATE INDEX IF NOT EXISTS knowledge_by_target ON knowledge (graph, target)",
)
"""One row for each entity, with its id as source and no target, and one for each relation. `place` is the order of
declaration, `changed` a number that grows with each change. A removed one keeps a row without a value, so that other
processes notice the removal."""

_PUT = """INSERT INTO knowledge (graph, source, target, kind, changed, value) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (graph, source, target, kind) DO UPDATE SET changed = excluded.changed, value = excluded.value"""
_OF = "graph = ? AND (source = ? OR target = ?)"
_ONE = "graph = ? AND source = ? AND target = ? AND (? IS NULL OR kind = ?) AND target != ''"
_entity = codec.decoder(Entity)
_relation = codec.decoder(Relation)


class _Row(Struct, frozen=True):
    place: int
    source: str
    target: str
    kind: str
    changed: int
    value: Entity | Relation | None


def _key(thing: Entity | Relation) -> tuple[str, str, str]:
    return (thing.id, "", "") if isinstance(thing, Entity) else (thing.source, thing.target, thing.kind)


def _read(target: str, value: Any) -> Entity | Relation | None:
    if value is None:
        return None
    return _relation.decode(value) if target else _entity.decode(value)


T = TypeVar("T")

_WRITES = "knowledge"
_PAUSE = 1.0


class GraphStore:
    """Store a graph in a SQLite database; several processes may use it at once.

    What one call added or removed is written to the file when the call returns, all of it or nothing. `graph` returns
    the graph in memory, kept up to date with the file: only changes are read, whichever process made them.

    Args:
        path: The file, which may also be that of a run store or memory store; created with its folders.
        synchronous: With ``"FULL"`` writes survive a power loss; with ``"NORMAL"`` only a crash of the process.
        connect: Opens the database as `sqlite3.connect` does; replace it to use another file system.

    Raises:
        StoreError: of each method: the file cannot be read or written.
        EntityNotFound: of `add` and `update`: a relation refers to an entity that does not exist.
    """

    @reopened_after_fork
    @checked
    def __init__(
        self,
        path: StorePath,
        name: str = "main",
        *,
        synchronous: Literal["FULL", "NORMAL"] = "FULL",
        timeout: Seconds = 5.0,
        connect: Callable[..., sqlite3.Connection] = sqlite3.connect,
    ) -> None:
        self.path: Path = check_path(path, self)
        self.name = name
        self._database = SqliteConnection(self.path, synchronous, timeout, connect)
        self._writer = Writer(f"ziggurat {self.path.name}", self._together, lambda: None, _PAUSE, self._database.close)
        self._made = False
        self._graph = KnowledgeGraph()
        self._seen = 0
        self._last_place = 0

    def __repr__(self) -> str:
        return f"GraphStore({str(self.path)!r}, {self.name!r})"

    async def graph(self) -> KnowledgeGraph:
        """Return the graph as it is in the file; read it only. It is the same object each time."""
        self._apply(await self._writer.submit(self._changes))
        return self._graph

    async def add(self, *things: Entity | Relation) -> None:
        """Add entities and relations, replacing those that exist: all of them or none."""
        await self._write(lambda: self._put(things, together=False))

    async def update(self, *things: Entity | Relation) -> None:
        """Add or merge entities and relations, all or none; updates of one by several processes are all kept."""
        await self._write(lambda: self._put(things, together=True))

    async def remove_entity(self, name: str, /) -> bool:
        """Remove an entity with all its relations; return whether it existed."""
        return await self._write(lambda: self._mark_entity(name))

    async def remove_relation(self, source: str, target: str, kind: str | None = None) -> int:
        """Remove the relation of a kind from one entity to another, or all of them; return how many were removed."""
        return await self._write(lambda: self._mark_removed(_ONE, (self.name, source, target, kind, kind)))

    async def close(self) -> None:
        """Close the file; does nothing if it is closed already."""
        await self._writer.finish()

    # -- in the event loop ---------------------------------------------------------------------------------------

    def _write(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        return self._writer.submit(work, _WRITES)

    def _apply(self, rows: Sequence[_Row]) -> None:
        rows = [row for row in rows if row.changed > self._seen]
        for row in rows:
            if row.value is None or row.place > self._last_place:  # one declared again loses its old position
                self._discard(row)
        for row in rows:
            if isinstance(row.value, Entity):
                self._graph.add_entity(row.value)
            elif row.value is not None:
                self._graph.add_relation(row.value)
            self._seen = max(self._seen, row.changed)
            self._last_place = max(self._last_place, row.place)

    def _discard(self, row: _Row) -> None:
        if row.target:
            self._graph.remove_relation(row.source, row.target, row.kind)
        else:
            self._graph.remove_entity(row.source)

    # -- in the writer thread ------------------------------------------------------------------------------------

    def _tables(self) -> None:
        if not self._made:
            self._database.transaction(lambda: [self._database.execute(statement) for statement in _TABLES])
            self._made = True

    def _together(self, jobs: Sequence[Job[Any]]) -> None:
        write_batch(self._database, jobs, (CallerError,), before=self._tables)

    def _changes(self) -> list[_Row]:
        self._tables()
        return self._database.reading(self._unseen)

    def _unseen(self) -> list[_Row]:
        """Return the rows that have changed: first removals, then entities, then relations."""
        rows = self._database.execute(
            "SELECT place, source, target, kind, changed, value FROM knowledge WHERE graph = ? AND changed > ? "
            "ORDER BY value IS NOT NULL, target != '', place",
            (self.name, self._seen),
        )
        return [
            _Row(place, source, target, kind, number, _read(target, value))
            for place, source, target, kind, number, value in rows.fetchall()
        ]

    def _put(self, things: Sequence[Entity | Relation], *, together: bool) -> None:
        self._check(things)
        change = self._next()
        keys = [_key(thing) for thing in things]
        if together:
            things = [self._merge(thing, key) for thing, key in zip(things, keys, strict=True)]
        self._database.many(
            "DELETE FROM knowledge WHERE graph = ? AND source = ? AND target = ? AND kind = ? AND value IS NULL",
            [(self.name, *key) for key in keys],
        )
        values = [msgspec.json.encode(thing).decode() for thing in things]
        self._database.many(_PUT, [(self.name, *key, change, value) for key, value in zip(keys, values, strict=True)])

    def _mark_entity(self, name: str) -> bool:
        there = name in self._present([name])
        return there and self._mark_removed(_OF, (self.name, name, name)) > 0

    def _mark_removed(self, condition: str, values: Sequence[object]) -> int:
        return self._database.execute(
            f"UPDATE knowledge SET value = NULL, changed = ? WHERE {condition} AND value IS NOT NULL",  # noqa: S608
            (self._next(), *values),
        ).rowcount

    def _merge(self, thing: Entity | Relation, key: tuple[str, str, str]) -> Entity | Relation:
        row = self._database.execute(
            "SELECT value FROM knowledge WHERE graph = ? AND source = ? AND target = ? AND kind = ?",
            (self.name, *key),
        ).fetchone()
        old = None if row is None else _read(key[1], row[0])
        if isinstance(thing, Entity):
            return old.updated(thing) if isinstance(old, Entity) else thing
        return old.updated(thing) if isinstance(old, Relation) else thing

    def _next(self) -> int:
        rows = self._database.execute("SELECT max(changed) FROM knowledge WHERE graph = ?", (self.name,))
        return int(rows.fetchone()[0] or 0) + 1

    def _check(self, things: Sequence[Entity | Relation]) -> None:
        declared = {thing.id for thing in things if isinstance(thing, Entity)}
        ends = [end for thing in things if isinstance(thing, Relation) for end in (thing.source, thing.target)]
        needed = [end for end in dict.fromkeys(ends) if end not in declared]
        there = self._present(needed) if needed else set()
        missing = [name for name in needed if name not in there]
        if missing:
            everybody = self._database.execute(
                "SELECT source FROM knowledge WHERE graph = ? AND target = '' AND value IS NOT NULL", (self.name,)
            )
            raise unknown(missing[0], [*declared, *(row[0] for row in everybody)])

    def _present(self, names: Iterable[str]) -> set[str]:
        rows = self._database.execute(
            "SELECT source FROM knowledge WHERE graph = ? AND source IN (SELECT value FROM json_each(?)) "
            "AND target = '' AND value IS NOT NULL",
            (self.name, msgspec.json.encode(list(names)).decode()),
        )
        return {row[0] for row in rows}
