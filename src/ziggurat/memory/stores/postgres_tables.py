"""The tables and queries of the memory store in PostgreSQL."""

__all__ = [
    "CANDIDATES",
    "COLUMNS",
    "DELETE",
    "INSERT",
    "NEAREST",
    "TABLES",
    "TOUCH",
    "WORDED",
    "WORDS",
    "index_for",
    "record_of",
    "row_of",
    "vector_type",
]

from collections.abc import Sequence
from typing import Any

import msgspec

from ziggurat.memory.record import MemoryRecord, pack, unpack

TABLES = (
    "CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public",
    """CREATE TABLE IF NOT EXISTS memories (
        number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id text NOT NULL UNIQUE, owner text NOT NULL,
        kind text NOT NULL, archived boolean NOT NULL, created float8 NOT NULL, used float8 NOT NULL,
        uses bigint NOT NULL, importance float8 NOT NULL, tags text[] NOT NULL, origin text NOT NULL,
        taint text[] NOT NULL, supersedes text, facts text NOT NULL, content bytea NOT NULL,
        embedding public.vector, length float8 NOT NULL DEFAULT 0)""",
    "CREATE INDEX IF NOT EXISTS memories_by_age ON memories (owner, created, number)",
    "CREATE INDEX IF NOT EXISTS memories_by_time ON memories (created, number)",
    """CREATE TABLE IF NOT EXISTS memory_words (
        word text NOT NULL, owner text NOT NULL, number bigint NOT NULL REFERENCES memories ON DELETE CASCADE,
        often float8 NOT NULL, PRIMARY KEY (word, owner, number))""",
    "CREATE INDEX IF NOT EXISTS memory_words_by_number ON memory_words (number)",
)
"""Texts are stored as bytes, because PostgreSQL texts cannot hold every character."""

_FIELDS = "id, owner, kind, archived, created, used, uses, importance, tags, origin, taint, supersedes, facts, content"
COLUMNS = f"number, {_FIELDS}, embedding::real[]"
"""The columns that `record_of` reads."""

INSERT = (
    f"INSERT INTO memories ({_FIELDS}, embedding) "  # noqa: S608
    "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15::real[]::public.vector) RETURNING number"
)
"""The statement for the values of `row_of`."""

WORDS = """
WITH found AS (
    SELECT lexeme, cardinality(positions)::float8 AS often FROM unnest(to_tsvector('english', $3))
    UNION ALL SELECT lexeme, cardinality(positions) * 0.5 FROM unnest(to_tsvector('english', $4))),
summed AS (SELECT lexeme, sum(often) AS often FROM found GROUP BY lexeme),
kept AS (INSERT INTO memory_words (word, owner, number, often) SELECT lexeme, $2, $1, often FROM summed)
UPDATE memories SET length = coalesce((SELECT sum(often) FROM summed), 0) WHERE number = $1
"""
"""Indexes the stemmed words of a memory by number and owner: those of its text, and those of its context at half."""

DELETE = "DELETE FROM memories WHERE id = ANY($1) RETURNING id"

TOUCH = """UPDATE memories SET used = greatest(used, $2), uses = uses + asked.times
FROM (SELECT id, count(*) AS times FROM unnest($1::text[]) AS id GROUP BY id) AS asked WHERE memories.id = asked.id"""

WORDED = """
WITH asked AS (SELECT unnest(tsvector_to_array(to_tsvector('english', $1))) AS word),
hits AS (SELECT word, number, often FROM memory_words JOIN asked USING (word) WHERE $2::text IS NULL OR owner = $2),
rarity AS (SELECT word, count(*) AS spread FROM hits GROUP BY word),
whole AS (
    SELECT count(*) AS memories, greatest(avg(length), 1) AS average FROM memories
    WHERE NOT archived AND ($2::text IS NULL OR owner = $2))
SELECT number, sum(
    ln(1 + (whole.memories - spread + 0.5) / (spread + 0.5)) * often * 2.2
    / (often + 1.2 * (0.25 + 0.75 * memories.length / whole.average)))::float8 AS score
FROM hits JOIN rarity USING (word) JOIN memories USING (number) CROSS JOIN whole
GROUP BY number ORDER BY score DESC, number LIMIT $3
"""
"""BM25 over the memories of an owner, with k1 = 1.2 and b = 0.75."""

NEAREST = """SELECT number FROM memories
WHERE public.vector_dims(embedding) = {size} AND NOT archived AND ($2::text IS NULL OR owner = $2)
ORDER BY embedding::{type} OPERATOR(public.<=>) $1::real[]::{type} LIMIT $3"""

CANDIDATES = """SELECT number, CASE WHEN public.vector_dims(embedding) = cardinality($2::real[])
    THEN 1 - (embedding OPERATOR(public.<=>) $2::real[]::public.vector) END
FROM memories WHERE number = ANY($1::bigint[]) AND NOT archived AND ($3::text IS NULL OR owner = $3)
    AND ($4::text IS NULL OR kind = $4) AND tags @> $5::text[]"""

_LONGEST, _LONGEST_HALF = 2000, 4000

_facts = msgspec.json.Decoder(dict[str, object])


def vector_type(size: int) -> str | None:
    """Return the type used to index vectors of a length; None if they are too long for an index."""
    if size <= _LONGEST:
        return f"public.vector({size})"
    return f"public.halfvec({size})" if size <= _LONGEST_HALF else None


def index_for(size: int) -> str | None:
    """Return the statement that creates the index for vectors of a length; None if they are too long for an index."""
    kind = vector_type(size)
    if kind is None:
        return None
    operators = f"public.{'vector' if size <= _LONGEST else 'halfvec'}_cosine_ops"
    return (
        f"CREATE INDEX IF NOT EXISTS memories_near_{size} ON memories "
        f"USING hnsw ((embedding::{kind}) {operators}) WHERE public.vector_dims(embedding) = {size}"
    )


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
        list(record.tags),
        record.origin,
        list(record.taint),
        record.supersedes,
        msgspec.json.encode(record.facts).decode(),
        record.content.encode(),
        unpack(record.embedding) if record.embedding else None,
    )


def record_of(row: Sequence[Any]) -> MemoryRecord:
    """Return the record in a row of `COLUMNS`."""
    return MemoryRecord(
        id=row[1],
        owner=row[2],
        kind=row[3],
        archived=row[4],
        created=row[5],
        used=row[6],
        uses=row[7],
        importance=row[8],
        tags=tuple(row[9]),
        origin=row[10],
        taint=tuple(row[11]),
        supersedes=row[12],
        facts=_facts.decode(row[13]),
        content=bytes(row[14]).decode(),
        embedding=None if row[15] is None else pack(row[15]),
    )
