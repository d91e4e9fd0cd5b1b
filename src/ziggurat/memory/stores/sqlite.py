"""The memory store in a SQLite database, which may also hold runs: rows, words and vectors."""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
from msgspec.structs import replace

from ziggurat.core.errors import ConfigurationError
from ziggurat.core.settings import Seconds, checked
from ziggurat.databases.checks import StorePath, check_path
from ziggurat.databases.jobs import Job
from ziggurat.databases.sqlite.batch import write_batch
from ziggurat.databases.sqlite.connection import SqliteConnection
from ziggurat.databases.writer import Writer
from ziggurat.memory.record import MemoryRecord
from ziggurat.memory.search import COUNTED, Candidate, Entries, best, compared, hits
from ziggurat.memory.store import UNEMBEDDED, Hit, Query, findable, in_place_of, refuse_known, refuse_unfit
from ziggurat.memory.stores import sqlite_tables as sql
from ziggurat.memory.stores.rows import scan_pages
from ziggurat.memory.vectors import VectorIndexes
from ziggurat.memory.words import KEY_TAG, indexed_words

T = TypeVar("T")

_WRITES = "memories"
_NOTES = 1000
_PAUSE = 1.0
_CACHE = "PRAGMA cache_size = -131072"
"""Cache up to 128 MiB of the file: one search reads some hundred pages scattered over it. Memory mapping would be
faster still, but a damaged file would end the process with SIGBUS."""


class SqliteMemoryStore:
    """Store memories in a SQLite database; several processes may use it at once."""

    @checked
    def __init__(
        self,
        path: StorePath,
        *,
        synchronous: Literal["FULL", "NORMAL"] = "FULL",
        timeout: Seconds = 5.0,
        connect: Callable[..., sqlite3.Connection] = sqlite3.connect,
    ) -> None:
        self.path: Path = check_path(path, self)
        self._database = SqliteConnection(self.path, synchronous, timeout, connect)
        self._writer = Writer(f"ziggurat {self.path.name}", self._together, self._idle, _PAUSE, self._database.close)
        self._shelves = VectorIndexes(Path(f"{self.path}-vectors"), self._database)
        self._notes: dict[str, tuple[float, int]] = {}
        self._written = time.monotonic()
        self._made = False

    def __repr__(self) -> str:
        return f"SqliteMemoryStore({str(self.path)!r})"

    # -- in the writer thread, as are the methods of Source ------------------------------------------------------

    def _tables(self) -> None:
        if not self._made:
            self._database.transaction(lambda: sql.create_tables(self._database))
            self._database.reading(lambda: self._database.execute(_CACHE))
            self._made = True

    def _together(self, jobs: Sequence[Job[Any]]) -> None:
        """Run all writing jobs in one transaction, with the recorded uses; if it fails, all of them fail."""
        failed = write_batch(self._database, jobs, (ConfigurationError,), before=self._tables, last=self._write_uses)
        if failed is None:
            self._notes.clear()

    def _write_uses(self) -> None:
        if self._notes:
            self._database.many(
                "UPDATE memories SET used = max(used, ?), uses = uses + ? WHERE id = ?",
                [(at, times, name) for name, (at, times) in self._notes.items()],
            )

    def _idle(self) -> None:
        """Write the recorded uses once a second: with each recall, they would make the next one wait for the disk."""
        if self._notes and time.monotonic() - self._written >= _PAUSE:
            self._flush()

    def _flush(self) -> None:
        if self._notes:
            self._written = time.monotonic()
            self._database.transaction(self._write_uses)
            self._notes.clear()

    def _load(self, ids: Sequence[str]) -> dict[str, tuple[int, MemoryRecord]]:
        rows = self._database.execute(
            f"SELECT {sql.COLUMNS} FROM memories WHERE id IN {sql.CHOSEN}",  # noqa: S608
            (_json(ids),),
        )
        return {row[1]: (row[0], self._with_uses(sql.record_of(row))) for row in rows}

    def _with_uses(self, record: MemoryRecord) -> MemoryRecord:
        at, times = self._notes.get(record.id, (0.0, 0))
        return replace(record, used=max(at, record.used), uses=record.uses + times) if times else record

    def _add(self, records: Sequence[MemoryRecord]) -> None:
        names = [record.id for record in records]
        refuse_known(names, self._load(names))
        self._insert(records)

    def _insert(self, records: Sequence[MemoryRecord]) -> None:
        words: list[tuple[object, ...]] = []
        for record in records:
            counts = {} if record.archived else indexed_words(record)
            number = self._database.execute(sql.INSERT, (*sql.row_of(record), sum(counts.values()))).lastrowid
            if not record.archived and number is not None:
                words.extend(sql.terms_of(number, record, counts))
        self._database.many(sql.TERM, sorted(words))  # in the order of the table, which is quicker

    def _put(self, records: Sequence[MemoryRecord]) -> None:
        self._remove([record.id for record in records])
        self._insert(list({record.id: record for record in records}.values()))

    def _remove(self, ids: Sequence[str]) -> int:
        there = self._load(ids)
        for name in there:
            self._notes.pop(name, None)
        self._database.many(
            "DELETE FROM memory_terms WHERE word = ? AND owner = ? AND number = ?",
            [
                row[:3]
                for number, record in there.values()
                if not record.archived
                for row in sql.terms_of(number, record, indexed_words(record))
            ],
        )
        self._database.many("DELETE FROM memories WHERE number = ?", [(number,) for number, _ in there.values()])
        return len(there)

    def _put_in_place(self, record: MemoryRecord, tag: str) -> list[MemoryRecord]:
        refuse_known([record.id], self._load([record.id]))
        condition, values = sql.where(record.owner, record.kind, [tag])
        before = [each for _, each in self._page(condition, values, "ASC", -1, few=True)]
        self._put(in_place_of(record, before))
        return before

    def _trim(self, ids: Sequence[str], capacity: int, delete: bool) -> int:
        records = self._load(ids)
        there = [records[name][1] for name in ids if name in records and not records[name][1].archived]
        if not there:
            return 0
        condition, values = sql.where(there[0].owner, there[0].kind)
        ((used,),) = self._database.execute(f"SELECT count(*) FROM memories WHERE {condition}", values).fetchall()  # noqa: S608
        going = there[: max(0, used - capacity)]
        if delete:
            self._remove([record.id for record in going])
        else:
            self._put([replace(record, archived=True) for record in going])
        return max(0, int(used) - capacity - len(going))

    def _stale(self, owner: str | None, embedder: str | None, limit: int) -> list[MemoryRecord]:
        condition, values = sql.where(owner, None, without=UNEMBEDDED)
        bare = self._page(f"{condition} AND embedding IS NULL", values, "ASC", limit, index="memories_without_vector")
        if embedder is None:
            return [record for _, record in bare]
        others = f"{condition} AND embedding IS NOT NULL AND embedder {{}} ?"
        rows = [
            self._page(others.format(beyond), [*values, embedder], "ASC", limit, index="memories_by_embedder")
            for beyond in ("<", ">")
        ]
        both = sorted([*bare, *rows[0], *rows[1]], key=lambda each: (each[1].created, each[0]))
        return [record for _, record in both[:limit]]

    def _set_vectors(self, vectors: Mapping[str, bytes], embedder: str) -> int:
        records = [record for _, record in self._load(list(vectors)).values() if not record.archived]
        self._put([replace(record, embedding=vectors[record.id], embedder=embedder) for record in records])
        return len(records)

    def _touch(self, ids: Sequence[str], at: float) -> None:
        for name in ids:
            before, times = self._notes.get(name, (at, 0))
            self._notes[name] = (max(at, before), times + 1)
        if len(self._notes) > _NOTES:
            self._flush()

    def _search(self, query: Query) -> list[Hit]:
        matches = best(query, self)
        chosen = _json([each.number for each in matches])
        rows = self._database.execute(
            f"SELECT {sql.COLUMNS} FROM {sql.CHOSEN} CROSS JOIN memories ON number = value",  # noqa: S608
            (chosen,),
        )
        records = {row[0]: self._with_uses(sql.record_of(row)) for row in rows}
        return hits(matches, records)

    def nearest(self, query: Query, count: int) -> Sequence[int]:
        return self._shelves.nearest(query.owner, query.embedding or b"", count)

    def spread(self, query: Query, words: Sequence[str]) -> tuple[int, Mapping[str, int]]:
        mine, values = _mine(query)
        ((whole,),) = self._database.execute(sql.COUNT.format(mine=mine, counted=COUNTED), values).fetchall()
        rows = self._database.execute(sql.SPREAD.format(mine=mine, counted=COUNTED), (*values, _json(words)))
        return whole, dict(rows.fetchall())

    def entries(self, query: Query, words: Sequence[str], limit: int) -> Entries:
        mine, values = _mine(query)
        statement = f"SELECT number, often FROM memory_terms WHERE word = ? {mine} ORDER BY number LIMIT ?"  # noqa: S608
        return {word: dict(self._database.execute(statement, (word, *values, limit)).fetchall()) for word in words}

    def entries_of(self, query: Query, words: Sequence[str], numbers: Sequence[int]) -> Entries:
        mine, values = _mine(query)
        statement = f"SELECT number, often FROM memory_terms WHERE word = ? {mine} AND number IN {sql.CHOSEN}"  # noqa: S608
        chosen = _json(sorted(numbers))
        return {word: dict(self._database.execute(statement, (word, *values, chosen)).fetchall()) for word in words}

    def chosen(self, query: Query, most: int) -> Sequence[int] | None:
        condition, values = sql.where(query.owner, query.kind, query.tags)
        kinds = sorted(set(query.without))
        numbers: list[int] = []
        for after, before in zip(["", *kinds], [*kinds, None], strict=True):  # an index jumps over those left out
            gap, ends = ("kind > ?", [after]) if before is None else ("kind > ? AND kind < ?", [after, before])
            statement = f"SELECT number FROM memories WHERE {condition} AND {gap} LIMIT ?"  # noqa: S608
            numbers += [row[0] for row in self._database.execute(statement, (*values, *ends, most + 1))]
        return numbers if len(numbers) <= most else None

    def candidates(self, query: Query, numbers: Sequence[int]) -> Sequence[Candidate]:
        condition, values = sql.where(query.owner, query.kind, query.tags, without=query.without)
        vector = "NULL" if query.embedding is None else "embedding"
        rows = self._database.execute(
            f"SELECT number, length, {vector}, embedder, created, kind "  # noqa: S608
            f"FROM {sql.CHOSEN} CROSS JOIN memories ON number = value WHERE {condition}",
            (_json(numbers), *values),
        )
        return compared(query, rows.fetchall())

    def _page(
        self, condition: str, values: Sequence[object], order: str, limit: int, *, few: bool = False, index: str = ""
    ) -> list[tuple[int, MemoryRecord]]:
        """Return memories by age, with their numbers."""
        source, by = f"memories INDEXED BY {index}" if index else "memories", "+created" if few else "created"
        rows = self._database.execute(
            f"SELECT {sql.COLUMNS} FROM {source} WHERE {condition} ORDER BY {by} {order}, number {order} LIMIT ?",  # noqa: S608
            (*values, limit),
        )
        return [(row[0], self._with_uses(sql.record_of(row))) for row in rows]

    # -- the methods of MemoryStore ------------------------------------------------------------------------------

    def _write(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        return self._writer.submit(work, _WRITES)

    def _read(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        def reading() -> T:
            self._tables()
            return self._database.reading(work)

        return self._writer.submit(reading)

    async def add(self, records: Sequence[MemoryRecord], /) -> None:
        refuse_unfit(records)
        await self._write(lambda: self._add(records))

    async def put(self, records: Sequence[MemoryRecord], /) -> None:
        refuse_unfit(records)
        await self._write(lambda: self._put(records))

    async def put_in_place(self, record: MemoryRecord, tag: str, /) -> list[MemoryRecord]:
        refuse_unfit([record])
        return await self._write(lambda: self._put_in_place(record, tag))

    async def trim(self, ids: Sequence[str], capacity: int, *, delete: bool = False) -> int:
        return await self._write(lambda: self._trim(ids, capacity, delete))

    async def stale(self, owner: str | None, embedder: str | None, limit: int, /) -> list[MemoryRecord]:
        return await self._read(lambda: self._stale(owner, embedder, limit))

    async def set_vectors(self, vectors: Mapping[str, bytes], embedder: str, /) -> int:
        return await self._write(lambda: self._set_vectors(vectors, embedder))

    async def get(self, ids: Sequence[str], /) -> list[MemoryRecord]:
        records = await self._read(lambda: self._load(findable(ids)))
        return [records[name][1] for name in ids if name in records]

    async def touch(self, ids: Sequence[str], at: float, /) -> None:
        await self._read(lambda: self._touch(findable(ids), at))

    async def remove(self, ids: Sequence[str], /) -> int:
        return await self._write(lambda: self._remove(findable(ids)))

    def scan(
        self,
        *,
        owner: str | None,
        kind: str | None = None,
        tags: Sequence[str] = (),
        archived: bool | None = False,
        newest_first: bool = False,
        limit: int | None = None,
    ) -> AsyncIterator[MemoryRecord]:
        condition, values = sql.where(owner, kind, tags, archived)
        order, beyond = ("DESC", "<") if newest_first else ("ASC", ">")
        few = any(tag.startswith(KEY_TAG) for tag in tags)

        async def read(after: tuple[float, int] | None, many: int) -> Sequence[tuple[int, MemoryRecord]]:
            rest = condition if after is None else f"{condition} AND (created, number) {beyond} (?, ?)"
            return await self._read(lambda: self._page(rest, (*values, *(after or ())), order, many, few=few))

        return scan_pages(read, limit)

    async def count(self, *, owner: str | None, kind: str | None = None, archived: bool | None = False) -> int:
        condition, values = sql.where(owner, kind, (), archived)
        statement = f"SELECT count(*) FROM memories WHERE {condition}"  # noqa: S608
        return int((await self._read(lambda: self._database.execute(statement, values).fetchone()))[0])

    async def search(self, query: Query, /) -> list[Hit]:
        return await self._read(lambda: self._search(query))

    async def close(self) -> None:
        try:
            if not self._writer.closed:
                await self._writer.submit(self._last_words)
        finally:
            await self._writer.finish()

    def _last_words(self) -> None:
        self._flush()
        self._shelves.save(everything=True)


def _json(values: Sequence[object]) -> str:
    """Return values as `CHOSEN` takes them."""
    return msgspec.json.encode(values).decode()


def _mine(query: Query) -> tuple[str, tuple[str, ...]]:
    """Return a condition on the query's owner, and its value."""
    return ("", ()) if query.owner is None else ("AND owner = ?", (query.owner,))
