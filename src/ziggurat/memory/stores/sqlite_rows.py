"""The rows of memories in a SQLite database: their tables, words and vectors, and how often they were used."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import astuple, replace

from ziggurat.core import codec
from ziggurat.core.errors import MissingExtra
from ziggurat.databases.sqlite import SqliteConnection
from ziggurat.memory.record import MemoryRecord
from ziggurat.memory.search import COUNTED, Candidate, Entries, best, compared
from ziggurat.memory.store import UNEMBEDDED, Hit, Query, in_place_of, refuse_known
from ziggurat.memory.stores.rows import FIELDS
from ziggurat.memory.vectors import VectorIndexes
from ziggurat.memory.words import KEY_TAG, indexed_words, is_stemming

_NOTES = 1000  # memories whose uses wait to be written, at most

PAUSE = 1.0  # seconds that uses wait to be written

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

_COLUMNS = ", ".join(("number", *FIELDS))  # the columns that `_record_of` reads

_INSERT = f"INSERT INTO memories ({', '.join(FIELDS)}, length) VALUES ({', '.join('?' * (len(FIELDS) + 1))})"  # noqa: S608
"""The statement for the values of `_row_of` and the number of words."""

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
    values = astuple(record)
    return tuple(msgspec.json.encode(each).decode() if isinstance(each, tuple | dict) else each for each in values)


def _record_of(row: Sequence[Any]) -> MemoryRecord:
    values = dict(zip(FIELDS, row[1:], strict=True))
    values |= {name: _words.decode(values[name]) for name in ("tags", "taint")}
    values |= {"archived": bool(values["archived"]), "facts": _facts.decode(values["facts"])}
    return MemoryRecord(**values)


def _create_tables(database: SqliteConnection) -> None:
    """Create missing tables; index all words by their stems if they were written without."""
    stemmed = bool(database.execute("SELECT 1 FROM sqlite_master WHERE name = 'memory_stems'").fetchall())
    if stemmed and not is_stemming():
        raise MissingExtra("a file of memories that are indexed by the stems of words", "memory")
    for statement in _TABLES:
        database.execute(statement)
    if is_stemming() and not stemmed:
        database.execute("CREATE TABLE memory_stems (algorithm TEXT)")
        database.execute("DELETE FROM memory_terms")
        for row in database.execute(f"SELECT {_COLUMNS} FROM memories WHERE archived = 0").fetchall():  # noqa: S608
            _write_words(database, row[0], _record_of(row))


def _write_words(database: SqliteConnection, number: int, record: MemoryRecord) -> None:
    words = indexed_words(record)
    database.many(_TERM, _terms_of(number, record, words))
    database.execute("UPDATE memories SET length = ? WHERE number = ?", (sum(words.values()), number))


def _terms_of(number: int, record: MemoryRecord, words: Mapping[str, float]) -> list[tuple[object, ...]]:
    """Return the rows of `_TERM` for a memory in use: its words and its tags."""
    entries = [*words.items(), *((_TAG + tag, 0.0) for tag in record.tags)]
    return [(word, record.owner, number, often) for word, often in entries]


def _where(
    owner: str | None,
    kind: str | None,
    tags: Sequence[str] = (),
    archived: bool | None = False,
    without: Sequence[str] = (),
) -> tuple[str, list[object]]:
    """Return an SQL condition that selects memories, and its values."""
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


class MemoryRows:
    """The memories in a SQLite database; all methods must be called in the thread of its connection."""

    def __init__(self, database: SqliteConnection) -> None:
        self.vectors: VectorIndexes = VectorIndexes(database)
        self._database = database
        self._notes: dict[str, tuple[float, int]] = {}
        """Uses that are not written yet, by memory: the time of the last one, and how many."""
        self._written = time.monotonic()
        self._made = False

    def prepare(self) -> None:
        if not self._made:
            self._database.transaction(lambda: _create_tables(self._database))
            self._database.reading(lambda: self._database.execute(_CACHE))
            self._made = True

    def write_uses(self) -> None:
        if self._notes:
            self._database.many(
                "UPDATE memories SET used = max(used, ?), uses = uses + ? WHERE id = ?",
                [(at, times, name) for name, (at, times) in self._notes.items()],
            )

    def forget_uses(self) -> None:
        self._notes.clear()

    def flush_if_due(self) -> None:
        """Write the recorded uses once a second: with each recall, they would make the next one wait for the disk."""
        if self._notes and time.monotonic() - self._written >= PAUSE:
            self.flush()

    def flush(self) -> None:
        if self._notes:
            self._written = time.monotonic()
            self._database.transaction(self.write_uses)
            self._notes.clear()

    def load(self, ids: Sequence[str]) -> dict[str, tuple[int, MemoryRecord]]:
        rows = self._database.execute(
            f"SELECT {_COLUMNS} FROM memories WHERE id IN {_CHOSEN}",  # noqa: S608
            (_json(ids),),
        )
        return {row[1]: (row[0], self._with_uses(_record_of(row))) for row in rows}

    def _with_uses(self, record: MemoryRecord) -> MemoryRecord:
        at, times = self._notes.get(record.id, (0.0, 0))
        return replace(record, used=max(at, record.used), uses=record.uses + times) if times else record

    def add(self, records: Sequence[MemoryRecord]) -> None:
        names = [record.id for record in records]
        refuse_known(names, self.load(names))
        self._insert(records)

    def _insert(self, records: Sequence[MemoryRecord]) -> None:
        words: list[tuple[object, ...]] = []
        for record in records:
            counts = {} if record.archived else indexed_words(record)
            number = self._database.execute(_INSERT, (*_row_of(record), sum(counts.values()))).lastrowid
            if not record.archived and number is not None:
                words.extend(_terms_of(number, record, counts))
        self._database.many(_TERM, sorted(words))  # in the order of the table, which is quicker

    def put(self, records: Sequence[MemoryRecord]) -> None:
        self.remove([record.id for record in records])
        self._insert(list({record.id: record for record in records}.values()))

    def remove(self, ids: Sequence[str]) -> int:
        there = self.load(ids)
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

    def put_in_place(self, record: MemoryRecord, tag: str) -> list[MemoryRecord]:
        refuse_known([record.id], self.load([record.id]))
        condition, values = _where(record.owner, record.kind, [tag])
        before = [each for _, each in self._page(condition, values, "ASC", -1, few=True)]
        self.put([in_place_of(record, before), *(replace(each, archived=True) for each in before)])
        return before

    def trim(self, ids: Sequence[str], capacity: int, *, delete: bool) -> int:
        records = self.load(ids)
        there = [records[name][1] for name in ids if name in records and not records[name][1].archived]
        if not there:
            return 0
        used = self.count(there[0].owner, there[0].kind, archived=False)
        going = there[: max(0, used - capacity)]
        if delete:
            self.remove([record.id for record in going])
        else:
            self.put([replace(record, archived=True) for record in going])
        return max(0, used - capacity - len(going))

    def stale(self, owner: str | None, embedder: str | None, limit: int) -> list[MemoryRecord]:
        condition, values = _where(owner, None, without=UNEMBEDDED)
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

    def set_vectors(self, vectors: Mapping[str, bytes], embedder: str) -> int:
        records = [record for _, record in self.load(list(vectors)).values() if not record.archived]
        self.put([replace(record, embedding=vectors[record.id], embedder=embedder) for record in records])
        return len(records)

    def touch(self, ids: Sequence[str], at: float) -> None:
        for name in ids:
            before, times = self._notes.get(name, (at, 0))
            self._notes[name] = (max(at, before), times + 1)
        if len(self._notes) > _NOTES:
            self.flush()

    def search(self, query: Query) -> list[Hit]:
        return best(query, self)

    def records(self, numbers: Sequence[int]) -> Mapping[int, MemoryRecord]:
        rows = self._database.execute(
            f"SELECT {_COLUMNS} FROM {_CHOSEN} CROSS JOIN memories ON number = value",  # noqa: S608
            (_json(numbers),),
        )
        return {row[0]: self._with_uses(_record_of(row)) for row in rows}

    def nearest(self, query: Query, count: int) -> Sequence[int]:
        return self.vectors.nearest(query.owner, query.embedding or b"", count)

    def spread(self, query: Query, words: Sequence[str]) -> tuple[int, Mapping[str, int]]:
        mine, values = _mine(query)
        ((whole,),) = self._database.execute(_COUNT.format(mine=mine, counted=COUNTED), values).fetchall()
        rows = self._database.execute(_SPREAD.format(mine=mine, counted=COUNTED), (*values, _json(words)))
        return whole, dict(rows.fetchall())

    def entries(self, query: Query, words: Sequence[str], limit: int) -> Entries:
        mine, values = _mine(query)
        statement = f"SELECT number, often FROM memory_terms WHERE word = ? {mine} ORDER BY number LIMIT ?"  # noqa: S608
        return {word: dict(self._database.execute(statement, (word, *values, limit)).fetchall()) for word in words}

    def entries_of(self, query: Query, words: Sequence[str], numbers: Sequence[int]) -> Entries:
        mine, values = _mine(query)
        statement = f"SELECT number, often FROM memory_terms WHERE word = ? {mine} AND number IN {_CHOSEN}"  # noqa: S608
        chosen = _json(sorted(numbers))
        return {word: dict(self._database.execute(statement, (word, *values, chosen)).fetchall()) for word in words}

    def chosen(self, query: Query, most: int) -> Sequence[int] | None:
        condition, values = _where(query.owner, query.kind, query.tags)
        kinds = sorted(set(query.without))
        numbers: list[int] = []
        for after, before in zip(["", *kinds], [*kinds, None], strict=True):  # an index jumps over those left out
            gap, ends = ("kind > ?", [after]) if before is None else ("kind > ? AND kind < ?", [after, before])
            statement = f"SELECT number FROM memories WHERE {condition} AND {gap} LIMIT ?"  # noqa: S608
            numbers += [row[0] for row in self._database.execute(statement, (*values, *ends, most + 1))]
        return numbers if len(numbers) <= most else None

    def candidates(self, query: Query, numbers: Sequence[int]) -> Sequence[Candidate]:
        condition, values = _where(query.owner, query.kind, query.tags, without=query.without)
        vector = "NULL" if query.embedding is None else "embedding"
        rows = self._database.execute(
            f"SELECT number, length, {vector}, embedder, created, kind "  # noqa: S608
            f"FROM {_CHOSEN} CROSS JOIN memories ON number = value WHERE {condition}",
            (_json(numbers), *values),
        )
        return compared(query, rows.fetchall())

    def count(self, owner: str | None, kind: str | None, archived: bool | None) -> int:
        condition, values = _where(owner, kind, (), archived)
        ((count,),) = self._database.execute(f"SELECT count(*) FROM memories WHERE {condition}", values).fetchall()  # noqa: S608
        return int(count)

    def scan(
        self,
        owner: str | None,
        kind: str | None,
        tags: Sequence[str],
        archived: bool | None,
        newest_first: bool,
        after: tuple[float, int] | None,
        limit: int,
    ) -> list[tuple[int, MemoryRecord]]:
        """Return a page of memories by age, with their numbers, after a time and a number."""
        condition, values = _where(owner, kind, tags, archived)
        order, beyond = ("DESC", "<") if newest_first else ("ASC", ">")
        if after is not None:
            condition, values = f"{condition} AND (created, number) {beyond} (?, ?)", [*values, *after]
        few = any(tag.startswith(KEY_TAG) for tag in tags)
        return self._page(condition, values, order, limit, few=few)

    def _page(
        self, condition: str, values: Sequence[object], order: str, limit: int, *, few: bool = False, index: str = ""
    ) -> list[tuple[int, MemoryRecord]]:
        """Return memories by age, with their numbers."""
        source, by = f"memories INDEXED BY {index}" if index else "memories", "+created" if few else "created"
        rows = self._database.execute(
            f"SELECT {_COLUMNS} FROM {source} WHERE {condition} ORDER BY {by} {order}, number {order} LIMIT ?",  # noqa: S608
            (*values, limit),
        )
        return [(row[0], self._with_uses(_record_of(row))) for row in rows]


def _json(values: Sequence[object]) -> str:
    """Return values as `_CHOSEN` takes them."""
    return msgspec.json.encode(values).decode()


def _mine(query: Query) -> tuple[str, tuple[str, ...]]:
    """Return a condition on the query's owner, and its value."""
    return ("", ()) if query.owner is None else ("AND owner = ?", (query.owner,))
