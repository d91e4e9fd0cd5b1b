"""The tables of the memory store in SQLite, and the conversion between records and rows."""

__all__ = ["CHOSEN", "COLUMNS", "INSERT", "TABLES", "record_of", "row_of", "where"]

from collections.abc import Sequence
from typing import Any

import msgspec

from ziggurat.memory.record import MemoryRecord
from ziggurat.memory.text import TABLE

TABLES = (
    """CREATE TABLE IF NOT EXISTS memories (
        number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, owner TEXT NOT NULL, kind TEXT NOT NULL,
        archived INTEGER NOT NULL, created REAL NOT NULL, used REAL NOT NULL, uses INTEGER NOT NULL,
        importance REAL NOT NULL, tags TEXT NOT NULL, origin TEXT NOT NULL, taint TEXT NOT NULL, supersedes TEXT,
        facts TEXT NOT NULL, content TEXT NOT NULL, embedding BLOB)""",
    "CREATE INDEX IF NOT EXISTS memories_by_owner ON memories (owner)",
    "CREATE INDEX IF NOT EXISTS memories_by_age ON memories (owner, created)",
    "CREATE INDEX IF NOT EXISTS memories_by_time ON memories (created)",
    """CREATE TABLE IF NOT EXISTS memory_indexes (
        owner TEXT NOT NULL, size INTEGER NOT NULL, last INTEGER NOT NULL, file TEXT NOT NULL,
        PRIMARY KEY (owner, size))""",
    TABLE.format(name="memory_words"),
)
"""A memory that is replaced gets a new number, so that an index read up to some number reads it again."""

_FIELDS = (
    "id, owner, kind, archived, created, used, uses, importance, tags, origin, taint, supersedes, facts, content, "
    "embedding"
)
COLUMNS = f"number, {_FIELDS}"
"""The columns that `record_of` reads."""

INSERT = f"INSERT INTO memories ({_FIELDS}) VALUES ({', '.join('?' * 15)})"  # noqa: S608
"""The statement for the values of `row_of`."""

CHOSEN = "(SELECT value FROM json_each(?))"
"""A list of values, passed as one JSON array."""

_encode = msgspec.json.encode
_words = msgspec.json.Decoder(tuple[str, ...])
_facts = msgspec.json.Decoder(dict[str, object])


def row_of(record: MemoryRecord) -> tuple[object, ...]:
    """Return the values of `INSERT` for a record."""
    return (
        record.id,
        record.owner,
        record.kind,
        record.archived,
        record.created,
        record.used,
        record.uses,
        record.importance,
        _encode(record.tags).decode() if record.tags else "[]",
        record.origin,
        _encode(record.taint).decode() if record.taint else "[]",
        record.supersedes,
        _encode(record.facts).decode() if record.facts else "{}",
        record.content,
        record.embedding,
    )


def record_of(row: Sequence[Any]) -> MemoryRecord:
    """Return the record in a row of `COLUMNS`."""
    return MemoryRecord(
        id=row[1],
        owner=row[2],
        kind=row[3],
        archived=bool(row[4]),
        created=row[5],
        used=row[6],
        uses=row[7],
        importance=row[8],
        tags=() if row[9] == "[]" else _words.decode(row[9]),
        origin=row[10],
        taint=() if row[11] == "[]" else _words.decode(row[11]),
        supersedes=row[12],
        facts={} if row[13] == "{}" else _facts.decode(row[13]),
        content=row[14],
        embedding=row[15],
    )


def where(
    owner: str | None, kind: str | None, tags: Sequence[str] = (), archived: bool | None = False
) -> tuple[str, list[object]]:
    """Return an SQL condition that selects memories, and its values."""
    terms, values = ["1"], list[object]()
    for term, value in (("memories.owner = ?", owner), ("kind = ?", kind), ("archived = ?", archived)):
        if value is not None:
            terms.append(term)
            values.append(value)
    for tag in tags:
        terms.append("EXISTS (SELECT 1 FROM json_each(memories.tags) WHERE value = ?)")
        values.append(tag)
    return " AND ".join(terms), values
