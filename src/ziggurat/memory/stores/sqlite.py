"""The memory store in a SQLite database, which may also hold runs, and the one in this process."""

import sqlite3
import threading
import time
import typing
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from weakref import finalize

import msgspec
from msgspec import structs

from ziggurat.core import codec, errors
from ziggurat.core.settings import Seconds, checked
from ziggurat.databases import address, sqlite
from ziggurat.databases.writer import Job, Writer, reopened_after_fork
from ziggurat.memory import search as searching, store as stores
from ziggurat.memory.record import MemoryRecord
from ziggurat.memory.vectors import VectorIndexes
from ziggurat.memory.words import KEY_TAG, indexed_words, is_stemming

T = typing.TypeVar("T")

_WRITES = "memories"

_FIELDS = MemoryRecord.__struct_fields__  # in the order of `structs.astuple`

_NOTES = 1000  # memories whose uses wait to be written, at most

_PAUSE = 1.0  # seconds that uses wait to be written

_CACHE = "PRAGMA cache_size = -131072"
"""Cache up to 128 MiB of the file: one search reads some hundred pages scattered over it. Memory mapping would be
faster still, but a damaged file would end the process with SIGBUS."""

_TABLES = (
    """CREATE TABLE IF NOT EXISTS memories (
        number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, owner TEXT NOT NULL, kind TEXT NOT NULL,
        archived INTEGER NOT NULL, created REAL NOT NULL, used REAL NOT NULL, uses INTEGER NOT NULL,
        importance REAL NOT NULL, tags TEXT NOT NULL, origin TEXT NOT NULL, taint TEXT NOT NULL, supersedes TEXT,
        facts TEXT NOT NULL, content TEXT NOT NULL, embedding BLOB, embedder TEXT NOT NULL DEFAULT '',
        length REAL NOT NULL DEFAULT 0)""",
    "CREATE INDEX IF NOT EXISTS memories_in_use ON memories (owner, archived)",
    "CREATE INDEX IF NOT EXISTS memories_by_kind ON memories (owner, kind) WHERE archived = 0",
    """CREATE INDEX IF NOT EXISTS memories_without_vector ON memories (owner, created)
        WHERE archived = 0 AND embedding IS NULL""",
    """CREATE INDEX IF NOT EXISTS memories_by_embedder ON memories (owner, embedder)
        WHERE archived = 0 AND embedding IS NOT NULL""",
    "CREATE INDEX IF NOT EXISTS memories_by_age ON memories (owner, created)",
    "CREATE INDEX IF NOT EXISTS memories_by_time ON memories (created)",
    """CREATE TABLE IF NOT EXISTS memory_terms (
        word TEXT NOT NULL, owner TEXT NOT NULL, number INTEGER NOT NULL, often REAL NOT NULL,
        PRIMARY KEY (word, owner, number)) WITHOUT ROWID""",
)
"""A memory that is replaced gets a new number, so that an index read up to some number reads it again."""

_COLUMNS = ", ".join(("number", *_FIELDS))  # the columns that `_record_of` reads

_INSERT = f"INSERT INTO memories ({', '.join(_FIELDS)}, length) VALUES ({', '.join('?' * (len(_FIELDS) + 1))})"  # noqa: S608
_SPREAD = """SELECT value, (SELECT count(*) FROM
    (SELECT 1 FROM memory_terms WHERE word = value {mine} LIMIT {counted})) FROM json_each(?)"""
"""In how many memories words are; `mine` is a condition on the owner."""

_TERM = "INSERT OR REPLACE INTO memory_terms (word, owner, number, often) VALUES (?, ?, ?, ?)"

_COUNT = "SELECT count(*) FROM (SELECT 1 FROM memories WHERE archived = 0 {mine} LIMIT {counted})"

_CHOSEN = "(SELECT value FROM json_each(?))"  # a list of values, passed as one JSON array

_TAG = "#"
"""The first character of a tag in the index of words: no word has it, so that no search by words finds a tag."""

_words = codec.decoder(tuple[str, ...])
_facts = codec.decoder(dict[str, object])


def _row_of(record: MemoryRecord) -> tuple[object, ...]:
    values = structs.astuple(record)
    return tuple(msgspec.json.encode(each).decode() if isinstance(each, tuple | dict) else each for each in values)


def _record_of(row: Sequence[Any]) -> MemoryRecord:
    values = dict(zip(_FIELDS, row[1:], strict=True))
    values |= {name: _words.decode(values[name]) for name in ("tags", "taint")}
    values |= {"archived": bool(values["archived"]), "facts": _facts.decode(values["facts"])}
    return MemoryRecord(**values)


def _terms_of(number: int, record: MemoryRecord, words: Mapping[str, float]) -> list[tuple[object, ...]]:
    entries = [*words.items(), *((_TAG + tag, 0.0) for tag in record.tags)]
    return [(word, record.owner, number, often) for word, often in entries]


def _where(
    owner: str | None,
    kind: str | None,
    tags: Sequence[str] = (),
    archived: bool | None = False,
    without: Sequence[str] = (),
) -> tuple[str, list[object]]:
    terms, values = ["1"], list[object]()
    for term, value in (("memories.owner = ?", owner), ("kind = ?", kind)):
        if value is not None:
            terms.append(term)
            values.append(value)
    if archived is not None:
        terms.append(f"archived = {int(archived)}")  # not a parameter, so that partial indexes are used
    for tag in tags:
        terms.append("EXISTS (SELECT 1 FROM json_each(memories.tags) WHERE value = ?)")
        values.append(tag)
    if tags and owner is not None and archived is False:
        terms.append("number IN (SELECT number FROM memory_terms WHERE word = ? AND memory_terms.owner = ?)")
        values += [_TAG + tags[0], owner]
    terms.extend("kind <> ?" for _ in without)
    return " AND ".join(terms), [*values, *without]


class SqliteMemoryStore:
    """Store memories in a SQLite database; several processes may use it at once."""

    @reopened_after_fork
    @checked
    def __init__(
        self,
        path: address.StorePath,
        *,
        synchronous: typing.Literal["FULL", "NORMAL"] = "FULL",
        timeout: Seconds = 5.0,
        connect: Callable[..., sqlite3.Connection] = sqlite3.connect,
    ) -> None:
        self.path: Path = address.check_path(path, self)
        self._open(sqlite.SqliteConnection(self.path, synchronous, timeout, connect))
        self._writer = Writer(
            f"ziggurat {self.path.name}", self._together, self._flush_if_due, _PAUSE, self._database.close
        )

    def _open(self, database: sqlite.SqliteConnection) -> None:
        self._database = database
        self.vectors: VectorIndexes = VectorIndexes(database)
        self._notes: dict[str, tuple[float, int]] = {}  # uses to be written, by memory: the last one, and how many
        self._written = time.monotonic()
        self._prepared = False

    def __repr__(self) -> str:
        return f"SqliteMemoryStore({str(self.path)!r})"

    # -- in the writer thread, as are the methods of Source ------------------------------------------------------

    def _together(self, jobs: Sequence[Job[Any]]) -> None:
        """Run all writing jobs in one transaction, with the recorded uses; if it fails, all of them fail."""
        failed = sqlite.write_batch(
            self._database, jobs, (errors.CallerError,), before=self._prepare, last=self._write_uses
        )
        if failed is None:
            self._notes.clear()

    def _write(self, work: Callable[[], T]) -> Awaitable[T]:
        return self._writer.submit(work, _WRITES)

    def _read(self, work: Callable[[], T]) -> Awaitable[T]:
        return self._writer.submit(lambda: self._look(work))

    def _look(self, work: Callable[[], T]) -> T:
        self._prepare()
        return self._database.reading(work)

    def _prepare(self) -> None:
        if not self._prepared:
            self._database.transaction(self._create_tables)
            self._database.reading(lambda: self._database.execute(_CACHE))
            self._prepared = True

    def _create_tables(self) -> None:
        """Create missing tables; index all words by their stems if they were written without."""
        execute = self._database.execute
        stemmed = bool(execute("SELECT 1 FROM sqlite_master WHERE name = 'memory_stems'").fetchall())
        if stemmed and not is_stemming():
            raise errors.MissingExtra("a file of memories that are indexed by the stems of words", "memory")
        for statement in _TABLES:
            execute(statement)
        if is_stemming() and not stemmed:
            execute("CREATE TABLE memory_stems (algorithm TEXT)")
            execute("DELETE FROM memory_terms")
            self._put([record for _, record in self._page("archived = 0", (), "ASC", -1)])

    def _write_uses(self) -> None:
        if self._notes:
            self._database.many(
                "UPDATE memories SET used = max(used, ?), uses = uses + ? WHERE id = ?",
                [(at, times, name) for name, (at, times) in self._notes.items()],
            )

    def _flush_if_due(self) -> None:
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
            f"SELECT {_COLUMNS} FROM memories WHERE id IN {_CHOSEN}",  # noqa: S608
            (_json(ids),),
        )
        return {row[1]: (row[0], self._with_uses(_record_of(row))) for row in rows}

    def _with_uses(self, record: MemoryRecord) -> MemoryRecord:
        at, times = self._notes.get(record.id, (0.0, 0))
        return structs.replace(record, used=max(at, record.used), uses=record.uses + times) if times else record

    def _insert(self, records: Sequence[MemoryRecord]) -> None:
        words: list[tuple[object, ...]] = []
        for record in records:
            counts = {} if record.archived else indexed_words(record)
            number = self._database.execute(_INSERT, (*_row_of(record), sum(counts.values()))).lastrowid
            if not record.archived and number is not None:
                words.extend(_terms_of(number, record, counts))
        self._database.many(_TERM, sorted(words))  # in the order of the table, which is quicker

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
                for row in _terms_of(number, record, indexed_words(record))
            ],
        )
        self._database.many("DELETE FROM memories WHERE number = ?", [(number,) for number, _ in there.values()])
        return len(there)

    def records(self, numbers: Sequence[int]) -> Mapping[int, MemoryRecord]:
        rows = self._database.execute(
            f"SELECT {_COLUMNS} FROM {_CHOSEN} CROSS JOIN memories ON number = value",  # noqa: S608
            (_json(numbers),),
        )
        return {row[0]: self._with_uses(_record_of(row)) for row in rows}

    def nearest(self, query: stores.Query, count: int) -> Sequence[int]:
        return self.vectors.nearest(query.owner, query.embedding or b"", count)

    def spread(self, query: stores.Query, words: Sequence[str]) -> tuple[int, Mapping[str, int]]:
        mine, values = _mine(query)
        ((whole,),) = self._database.execute(_COUNT.format(mine=mine, counted=searching.COUNTED), values).fetchall()
        rows = self._database.execute(_SPREAD.format(mine=mine, counted=searching.COUNTED), (*values, _json(words)))
        return whole, dict(rows.fetchall())

    def entries(self, query: stores.Query, words: Sequence[str], limit: int) -> searching.Entries:
        mine, values = _mine(query)
        statement = f"SELECT number, often FROM memory_terms WHERE word = ? {mine} ORDER BY number LIMIT ?"  # noqa: S608
        return {word: dict(self._database.execute(statement, (word, *values, limit)).fetchall()) for word in words}

    def entries_of(self, query: stores.Query, words: Sequence[str], numbers: Sequence[int]) -> searching.Entries:
        mine, values = _mine(query)
        statement = f"SELECT number, often FROM memory_terms WHERE word = ? {mine} AND number IN {_CHOSEN}"  # noqa: S608
        chosen = _json(sorted(numbers))
        return {word: dict(self._database.execute(statement, (word, *values, chosen)).fetchall()) for word in words}

    def chosen(self, query: stores.Query, most: int) -> Sequence[int] | None:
        condition, values = _where(query.owner, query.kind, query.tags)
        kinds = sorted(set(query.without))
        numbers: list[int] = []
        for after, before in zip(["", *kinds], [*kinds, None], strict=True):  # an index jumps over those left out
            gap, ends = ("kind > ?", [after]) if before is None else ("kind > ? AND kind < ?", [after, before])
            statement = f"SELECT number FROM memories WHERE {condition} AND {gap} LIMIT ?"  # noqa: S608
            numbers += [row[0] for row in self._database.execute(statement, (*values, *ends, most + 1))]
        return numbers if len(numbers) <= most else None

    def candidates(self, query: stores.Query, numbers: Sequence[int]) -> Sequence[searching.Candidate]:
        condition, values = _where(query.owner, query.kind, query.tags, without=query.without)
        vector = "NULL" if query.embedding is None else "embedding"
        rows = self._database.execute(
            f"SELECT number, length, {vector}, embedder, created, kind "  # noqa: S608
            f"FROM {_CHOSEN} CROSS JOIN memories ON number = value WHERE {condition}",
            (_json(numbers), *values),
        )
        return searching.compared(query, rows.fetchall())

    def _count(self, owner: str | None, kind: str | None, archived: bool | None = False) -> int:
        condition, values = _where(owner, kind, (), archived)
        ((count,),) = self._database.execute(f"SELECT count(*) FROM memories WHERE {condition}", values).fetchall()  # noqa: S608
        return int(count)

    def _page(
        self, condition: str, values: Sequence[object], order: str, limit: int, *, few: bool = False, index: str = ""
    ) -> list[tuple[int, MemoryRecord]]:
        source, by = f"memories INDEXED BY {index}" if index else "memories", "+created" if few else "created"
        rows = self._database.execute(
            f"SELECT {_COLUMNS} FROM {source} WHERE {condition} ORDER BY {by} {order}, number {order} LIMIT ?",  # noqa: S608
            (*values, limit),
        )
        return [(row[0], self._with_uses(_record_of(row))) for row in rows]

    # -- the methods of MemoryStore ------------------------------------------------------------------------------

    async def add(self, records: Sequence[MemoryRecord], /) -> None:
        stores.refuse_unfit(records)

        def work() -> None:
            names = [record.id for record in records]
            stores.refuse_known(names, self._load(names))
            self._insert(records)

        await self._write(work)

    async def put(self, records: Sequence[MemoryRecord], /) -> None:
        stores.refuse_unfit(records)
        await self._write(lambda: self._put(records))

    async def put_in_place(self, record: MemoryRecord, tag: str, /) -> list[MemoryRecord]:
        stores.refuse_unfit([record])

        def work() -> list[MemoryRecord]:
            stores.refuse_known([record.id], self._load([record.id]))
            condition, values = _where(record.owner, record.kind, [tag])
            before = [each for _, each in self._page(condition, values, "ASC", -1, few=True)]
            self._put([stores.in_place_of(record, before), *(structs.replace(each, archived=True) for each in before)])
            return before

        return await self._write(work)

    async def trim(self, ids: Sequence[str], capacity: int, /) -> int:

        def work() -> int:
            records = self._load(ids)
            there = [records[name][1] for name in ids if name in records and not records[name][1].archived]
            over = self._count(there[0].owner, there[0].kind) - capacity if there else 0
            going = there[: max(0, over)]
            self._put([structs.replace(record, archived=True) for record in going])
            return max(0, over - len(going))

        return await self._write(work)

    async def stale(self, owner: str | None, embedder: str | None, limit: int, /) -> list[MemoryRecord]:
        condition, values = _where(owner, None, without=stores.UNEMBEDDED)
        bare, made = "memories_without_vector", "memories_by_embedder"

        def work() -> list[tuple[int, MemoryRecord]]:
            found = self._page(f"{condition} AND embedding IS NULL", values, "ASC", limit, index=bare)
            for beyond in () if embedder is None else ("<", ">"):
                others = f"{condition} AND embedding IS NOT NULL AND embedder {beyond} ?"
                found += self._page(others, [*values, embedder], "ASC", limit, index=made)
            return found

        found = sorted(await self._read(work), key=lambda each: (each[1].created, each[0]))
        return [record for _, record in found[:limit]]

    async def set_vectors(self, vectors: Mapping[str, bytes], embedder: str, /) -> int:

        def work() -> int:
            records = [record for _, record in self._load(list(vectors)).values() if not record.archived]
            self._put([structs.replace(record, embedding=vectors[record.id], embedder=embedder) for record in records])
            return len(records)

        return await self._write(work)

    async def get(self, ids: Sequence[str], /) -> list[MemoryRecord]:
        records = await self._read(lambda: self._load(stores.findable(ids)))
        return [records[name][1] for name in ids if name in records]

    async def touch(self, ids: Sequence[str], at: float, /) -> None:

        def work() -> None:
            for name in stores.findable(ids):
                before, times = self._notes.get(name, (at, 0))
                self._notes[name] = (max(at, before), times + 1)
            if len(self._notes) > _NOTES:
                self._flush()

        await self._read(work)

    async def remove(self, ids: Sequence[str], /) -> int:
        return await self._write(lambda: self._remove(stores.findable(ids)))

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
        order, beyond = ("DESC", "<") if newest_first else ("ASC", ">")
        few = any(tag.startswith(KEY_TAG) for tag in tags)

        async def read(after: tuple[float, int] | None, many: int) -> Sequence[tuple[int, MemoryRecord]]:
            condition, values = _where(owner, kind, tags, archived)
            if after is not None:
                condition, values = f"{condition} AND (created, number) {beyond} (?, ?)", [*values, *after]
            return await self._read(lambda: self._page(condition, values, order, many, few=few))

        return stores.scan_pages(read, limit)

    async def count(self, *, owner: str | None, kind: str | None = None, archived: bool | None = False) -> int:
        return await self._read(lambda: self._count(owner, kind, archived))

    async def search(self, query: stores.Query, /) -> list[stores.Hit]:
        return await self._read(lambda: searching.best(query, self))

    async def close(self) -> None:
        try:
            if not self._writer.closed:
                await self._writer.submit(self._flush)
        finally:
            await self._writer.finish()


def _json(values: Sequence[object]) -> str:
    return msgspec.json.encode(values).decode()


def _mine(query: stores.Query) -> tuple[str, tuple[str, ...]]:
    return ("", ()) if query.owner is None else ("AND owner = ?", (query.owner,))


class _InMemory(sqlite.SqliteConnection):
    """A database in this process: nothing is locked beside it, and no failure closes it."""

    def __init__(self) -> None:
        self._memory = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        finalize(self, self._memory.close)  # nobody has to close memories of a process; Python 3.13 warns of it
        self._using = threading.RLock()

    def execute(self, statement: str, values: Sequence[object] = ()) -> sqlite3.Cursor:
        return self._memory.execute(statement, values)

    def many(self, statement: str, values: Sequence[Sequence[object]]) -> None:
        self._memory.executemany(statement, values)

    def transaction(self, work: Callable[[], T]) -> T:
        with self._using:
            self._memory.execute("BEGIN")
            try:
                result = work()
            except BaseException:
                self._memory.execute("ROLLBACK")
                raise
            self._memory.execute("COMMIT")
            return result

    def reading(self, work: Callable[[], T]) -> T:
        with self._using:
            return work()


class LocalMemoryStore(SqliteMemoryStore):
    """Store memories in this process, for tests and short-lived use; results are the same as from every other store."""

    def __init__(self) -> None:
        self._open(_InMemory())

    def __repr__(self) -> str:
        return "LocalMemoryStore()"

    async def _write(self, work: Callable[[], T]) -> T:
        self._prepare()
        return self._database.transaction(work)

    async def _read(self, work: Callable[[], T]) -> T:
        return self._look(work)

    async def close(self) -> None:
        pass
