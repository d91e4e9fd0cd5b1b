"""The tables of the memory store in SQLite, and the conversion between records and rows."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import astuple

from ziggurat.core.errors import MissingExtra
from ziggurat.databases.sqlite.connection import SqliteConnection
from ziggurat.memory.record import MemoryRecord
from ziggurat.memory.stores.rows import FIELDS
from ziggurat.memory.words import indexed_words, is_stemming

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
    """CREATE TABLE IF NOT EXISTS memory_indexes (
        owner TEXT NOT NULL, size INTEGER NOT NULL, last INTEGER NOT NULL, file TEXT NOT NULL,
        PRIMARY KEY (owner, size))""",
    """CREATE TABLE IF NOT EXISTS memory_terms (
        word TEXT NOT NULL, owner TEXT NOT NULL, number INTEGER NOT NULL, often REAL NOT NULL,
        PRIMARY KEY (word, owner, number)) WITHOUT ROWID""",
)
"""A memory that is replaced gets a new number, so that an index read up to some number reads it again."""

COLUMNS = ", ".join(("number", *FIELDS))
"""The columns that `record_of` reads."""

INSERT = f"INSERT INTO memories ({', '.join(FIELDS)}, length) VALUES ({', '.join('?' * (len(FIELDS) + 1))})"  # noqa: S608
"""The statement for the values of `row_of` and the number of words."""

SPREAD = """SELECT value, (SELECT count(*) FROM
    (SELECT 1 FROM memory_terms WHERE word = value {mine} LIMIT {counted})) FROM json_each(?)"""
"""In how many memories words are; `mine` is a condition on the owner."""

TERM = "INSERT OR REPLACE INTO memory_terms (word, owner, number, often) VALUES (?, ?, ?, ?)"

COUNT = "SELECT count(*) FROM (SELECT 1 FROM memories WHERE archived = 0 {mine} LIMIT {counted})"

CHOSEN = "(SELECT value FROM json_each(?))"
"""A list of values, passed as one JSON array."""

_TAG = "#"
"""What a tag begins with in the index of words: no word has it, so that no search by words finds a tag."""

_words = msgspec.json.Decoder(tuple[str, ...])
_facts = msgspec.json.Decoder(dict[str, object])


def row_of(record: MemoryRecord) -> tuple[object, ...]:
    """Return the values of `INSERT` for a record."""
    values = astuple(record)
    return tuple(msgspec.json.encode(each).decode() if isinstance(each, tuple | dict) else each for each in values)


def record_of(row: Sequence[Any]) -> MemoryRecord:
    """Return the record in a row of `COLUMNS`."""
    values = dict(zip(FIELDS, row[1:], strict=True))
    values |= {name: _words.decode(values[name]) for name in ("tags", "taint")}
    values |= {"archived": bool(values["archived"]), "facts": _facts.decode(values["facts"])}
    return MemoryRecord(**values)


def create_tables(database: SqliteConnection) -> None:
    """Create what is missing; index all words by their stems if they were written without."""
    stemmed = bool(database.execute("SELECT 1 FROM sqlite_master WHERE name = 'memory_stems'").fetchall())
    if stemmed and not is_stemming():
        raise MissingExtra("a file of memories that are indexed by the stems of words", "memory")
    for statement in _TABLES:
        database.execute(statement)
    if is_stemming() and not stemmed:
        database.execute("CREATE TABLE memory_stems (algorithm TEXT)")
        database.execute("DELETE FROM memory_terms")
        for row in database.execute(f"SELECT {COLUMNS} FROM memories WHERE archived = 0").fetchall():  # noqa: S608
            _write_words(database, row[0], record_of(row))


def _write_words(database: SqliteConnection, number: int, record: MemoryRecord) -> None:
    words = indexed_words(record)
    database.many(TERM, terms_of(number, record, words))
    database.execute("UPDATE memories SET length = ? WHERE number = ?", (sum(words.values()), number))


def terms_of(number: int, record: MemoryRecord, words: Mapping[str, float]) -> list[tuple[object, ...]]:
    """Return the rows of `TERM` for a memory in use: its words and its tags."""
    entries = [*words.items(), *((_TAG + tag, 0.0) for tag in record.tags)]
    return [(word, record.owner, number, often) for word, often in entries]


def where(
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
