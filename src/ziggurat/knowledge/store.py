"""The store of a knowledge graph in a SQLite database; the file may also hold runs and memories."""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from ziggurat.core.errors import ConfigurationError
from ziggurat.core.settings import Seconds, checked
from ziggurat.databases.checks import StorePath, check_path
from ziggurat.databases.jobs import Job
from ziggurat.databases.sqlite.batch import write_batch
from ziggurat.databases.sqlite.connection import SqliteConnection
from ziggurat.databases.writer import Writer
from ziggurat.knowledge.entities import Entity, Relation
from ziggurat.knowledge.graph import KnowledgeGraph
from ziggurat.knowledge.rows import TABLES, Row, Rows

T = TypeVar("T")

_WRITES = "knowledge"
_PAUSE = 1.0


class GraphStore:
    """Store a graph in a SQLite database; several processes may use it at once.

    ::

        store = GraphStore("agents.db")
        await store.add(Entity("alice"), Entity("bob"), Relation("alice", "bob", "knows"))
        (await store.graph()).bfs("alice")

    What one call added or removed is written to the file when the call returns, all of it or nothing. `graph` returns
    the graph in memory, kept up to date with the file: only changes are read, whichever process made them.

    Args:
        path: The file; created with its folders if it does not exist. It may be the file of a run store or memory
            store.
        name: The name of the graph within the file.
        synchronous: With ``"FULL"`` writes survive a power loss; with ``"NORMAL"`` only a crash of the process, but it
            is faster.
        timeout: Seconds to wait while another process writes.
        connect: Opens the database as `sqlite3.connect` does; replace it to use another file system.
    """

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
        self._rows = Rows(self._database, name)
        self._made = False
        self._graph = KnowledgeGraph()
        self._seen = 0
        self._last_place = 0

    def __repr__(self) -> str:
        return f"GraphStore({str(self.path)!r}, {self.name!r})"

    async def graph(self) -> KnowledgeGraph:
        """Return the graph as it is in the file; read it only. It is the same object each time.

        Raises:
            StoreError: the file cannot be read.
        """
        self._apply(await self._read(lambda: self._rows.since(self._seen)))
        return self._graph

    async def add(self, *things: Entity | Relation) -> None:
        """Add entities and relations, replacing those that exist: all of them or none.

        Raises:
            ConfigurationError: a relation refers to an entity that does not exist; the message lists similar names.
            StoreError: the file cannot be written.
        """
        await self._write(lambda: self._rows.put(things, together=False))

    async def update(self, *things: Entity | Relation) -> None:
        """Add entities and relations, merging each with the existing one: all of them or none.

        See `Entity.updated` and `Relation.updated`. Updates of one entity by several processes are all kept.

        Raises:
            ConfigurationError: a relation refers to an entity that does not exist; the message lists similar names.
            StoreError: the file cannot be written.
        """
        await self._write(lambda: self._rows.put(things, together=True))

    async def remove_entity(self, name: str, /) -> bool:
        """Remove an entity with all its relations; return whether it existed.

        Raises:
            StoreError: the file cannot be written.
        """
        return await self._write(lambda: self._rows.remove_entity(name))

    async def remove_relation(self, source: str, target: str, kind: str | None = None) -> int:
        """Remove the relation of a kind from one entity to another, or all of them; return how many were removed.

        Raises:
            StoreError: the file cannot be written.
        """
        return await self._write(lambda: self._rows.remove_relation(source, target, kind))

    async def close(self) -> None:
        """Close the file; does nothing if it is closed already."""
        await self._writer.finish()

    # -- in the event loop ---------------------------------------------------------------------------------------

    def _write(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        return self._writer.submit(work, _WRITES)

    def _read(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        def reading() -> T:
            self._tables()
            return self._database.reading(work)

        return self._writer.submit(reading)

    def _apply(self, rows: Sequence[Row]) -> None:
        """Apply changed rows to the graph; changes applied before are skipped."""
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

    def _discard(self, row: Row) -> None:
        if row.target:
            self._graph.remove_relation(row.source, row.target, row.kind)
        else:
            self._graph.remove_entity(row.source)

    # -- in the writer thread ------------------------------------------------------------------------------------

    def _tables(self) -> None:
        if not self._made:
            self._database.transaction(lambda: [self._database.execute(statement) for statement in TABLES])
            self._made = True

    def _together(self, jobs: Sequence[Job[Any]]) -> None:
        """Run all writing jobs in one transaction; if it fails, all of them fail."""
        write_batch(self._database, jobs, (ConfigurationError,), before=self._tables)
