"""The tables and queries of the memory store in PostgreSQL."""

from collections.abc import Sequence
from typing import Any

import msgspec

from ziggurat.memory.record import MemoryRecord, pack, unpack
from ziggurat.memory.store import Query

TABLES = (
    "CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public",
    """CREATE TABLE IF NOT EXISTS memories (
        number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id text NOT NULL UNIQUE, owner text NOT NULL,
        kind text NOT NULL, archived boolean NOT NULL, created float8 NOT NULL, used float8 NOT NULL,
        uses bigint NOT NULL, importance float8 NOT NULL, tags text[] NOT NULL, origin text NOT NULL,
        taint text[] NOT NULL, supersedes text, facts text NOT NULL, content bytea NOT NULL,
        embedding public.vector, length float8 NOT NULL DEFAULT 0, embedder text NOT NULL DEFAULT '')""",
    "ALTER TABLE memories ADD COLUMN IF NOT EXISTS embedder text NOT NULL DEFAULT ''",
    "CREATE INDEX IF NOT EXISTS memories_by_age ON memories (owner, created, number)",
    "CREATE INDEX IF NOT EXISTS memories_by_time ON memories (created, number)",
    "DROP INDEX IF EXISTS memories_in_use",  # those of earlier versions
    "DROP INDEX IF EXISTS memories_to_embed",
    "DROP INDEX IF EXISTS memories_by_kind",
    """CREATE INDEX IF NOT EXISTS memories_of_kind ON memories (owner, kind COLLATE "C") INCLUDE (number)
        WHERE NOT archived""",
    """CREATE INDEX IF NOT EXISTS memories_without_vector ON memories (owner, created)
        WHERE NOT archived AND embedding IS NULL""",
    "CREATE INDEX IF NOT EXISTS memories_by_embedder ON memories (owner, embedder) WHERE NOT archived",
    "DROP TABLE IF EXISTS memory_words",  # the index of words of earlier versions
    """CREATE TABLE IF NOT EXISTS memory_terms (
        word text COLLATE "C" NOT NULL, owner text COLLATE "C" NOT NULL,
        number bigint NOT NULL REFERENCES memories ON DELETE CASCADE,
        often float8 NOT NULL, PRIMARY KEY (word, owner, number) INCLUDE (often))""",
    "CREATE INDEX IF NOT EXISTS memory_terms_by_number ON memory_terms (number)",
    "CREATE INDEX IF NOT EXISTS memories_by_tag ON memories USING gin (tags)",
    """CREATE TABLE IF NOT EXISTS memory_uses (
        number bigint PRIMARY KEY REFERENCES memories ON DELETE CASCADE, used float8 NOT NULL, uses bigint NOT NULL)""",
)
"""Texts are stored as bytes, because PostgreSQL texts cannot hold every character.

Uses since a memory was written have a table of their own: an update of a row of `memories` would add a copy of it to
all indexes, which takes milliseconds for that of the vectors.
"""

LAST_TABLE = "memory_uses"
"""What `TABLES` creates last."""

NOT_INDEXED = """SELECT {columns} FROM memories
WHERE NOT archived AND NOT EXISTS (SELECT 1 FROM memory_terms WHERE memory_terms.number = memories.number)"""

_FIELDS = "id, owner, kind, archived, created, used, uses, importance, tags, origin, taint, supersedes, facts, content"
COLUMNS = f"""number, {_FIELDS}, embedding::real[], embedder,
    (SELECT recorded.used FROM memory_uses AS recorded WHERE recorded.number = memories.number),
    (SELECT recorded.uses FROM memory_uses AS recorded WHERE recorded.number = memories.number)"""  # noqa: S608
"""The columns that `record_of` reads."""

INSERT = (
    f"INSERT INTO memories ({_FIELDS}, embedding, embedder, length) VALUES "  # noqa: S608
    "($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15::real[]::public.vector, $16, $17) "
    "RETURNING number"
)
"""The statement for the values of `row_of` and the number of words."""

TERMS = """INSERT INTO memory_terms (word, owner, number, often)
SELECT word, $2, $1, often FROM unnest($3::text[], $4::float8[]) AS term (word, often)"""
"""Indexes the words of a memory."""

SPREAD = """SELECT asked.word, (SELECT count(*) FROM
    (SELECT 1 FROM memory_terms AS t WHERE t.word = asked.word AND ($2::text IS NULL OR t.owner = $2) LIMIT $3)
    AS counted)
FROM unnest($1::text[]) AS asked (word)"""
"""In how many memories words are."""

COUNT = """SELECT count(*) FROM
    (SELECT 1 FROM memories WHERE NOT archived AND ($1::text IS NULL OR owner = $1) LIMIT $2) AS counted"""

ENTRIES = """SELECT entry.number, asked.word, entry.often FROM unnest($1::text[]) AS asked (word) CROSS JOIN LATERAL
    (SELECT number, often FROM memory_terms AS t WHERE t.word = asked.word AND ($2::text IS NULL OR t.owner = $2)
    ORDER BY number LIMIT $3) AS entry"""
"""The first entries of words."""

ENTRIES_OF = """SELECT number, word, often FROM memory_terms
WHERE number = ANY($3::bigint[]) AND word = ANY($1::text[]) AND ($2::text IS NULL OR owner = $2)"""
"""The entries of words for some memories."""

ARCHIVE = """WITH gone AS (UPDATE memories SET archived = true WHERE id = ANY($1) AND NOT archived RETURNING number)
DELETE FROM memory_terms USING gone WHERE memory_terms.number = gone.number"""
"""Takes memories out of use, and their words out of the index."""

IN_USE = "SELECT id, owner, kind FROM memories WHERE id = ANY($1) AND NOT archived"

SET_VECTOR = """UPDATE memories SET embedding = $2::real[]::public.vector, embedder = $3
WHERE id = $1 AND NOT archived RETURNING number"""

DELETE = "DELETE FROM memories WHERE id = ANY($1) RETURNING id"

TOUCH = """WITH asked AS (SELECT id, count(*) AS times FROM unnest($1::text[]) AS id GROUP BY id),
    known AS (SELECT number, times FROM memories JOIN asked USING (id) ORDER BY number FOR KEY SHARE OF memories)
INSERT INTO memory_uses (number, used, uses) SELECT number, $2, times FROM known
ON CONFLICT (number) DO UPDATE
SET used = greatest(memory_uses.used, excluded.used), uses = memory_uses.uses + excluded.uses"""
"""Records uses. The memories are locked, so that none of them is removed meanwhile; in the order of their numbers, so
that two such statements do not wait for each other forever."""

NEAREST = """SELECT number FROM memories
WHERE public.vector_dims(embedding) = {size} AND NOT archived AND ($2::text IS NULL OR owner = $2)
ORDER BY embedding::{type} OPERATOR(public.<=>) $1::real[]::{type} LIMIT $3"""

NEAREST_EXACT = """WITH mine AS MATERIALIZED (SELECT number, embedding FROM memories
    WHERE public.vector_dims(embedding) = cardinality($1::real[]) AND NOT archived AND ($2::text IS NULL OR owner = $2))
SELECT number FROM mine ORDER BY embedding OPERATOR(public.<=>) $1::real[]::public.vector, number LIMIT $3"""
"""The nearest of few vectors: an index might miss some of them."""

CANDIDATES = """SELECT number, length, CASE WHEN public.vector_dims(embedding) = cardinality($2::real[])
        AND ($6 = '' OR embedder = '' OR embedder = $6)
    THEN 1 - (embedding OPERATOR(public.<=>) $2::real[]::public.vector) END, created, kind
FROM memories WHERE number = ANY($1::bigint[]) AND NOT archived AND ($3::text IS NULL OR owner = $3)
    AND ($4::text IS NULL OR kind = $4) AND tags @> $5::text[] AND kind <> ALL($7::text[])"""

IN_PLACE = """SELECT {columns} FROM memories
WHERE owner = $1 AND kind = $2 AND NOT archived AND tags @> $3::text[] ORDER BY created, number"""

STALE = """SELECT {columns} FROM memories WHERE NOT archived AND ($1::text IS NULL OR owner = $1)
AND kind <> ALL($2::text[]) AND (embedding IS NULL OR ($3::text IS NOT NULL AND embedder <> $3))
ORDER BY created, number LIMIT $4"""

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


def select_chosen(query: Query, most: int) -> tuple[str, list[object]]:
    """Return the statement that selects the memories in use that pass a query's filters, and its values."""
    # It jumps over the kinds that are left out, since there may be many memories of them.
    values: list[object] = [query.owner, most]
    condition = "NOT archived AND ($1::text IS NULL OR owner = $1)"
    if query.kind is not None:
        values.append(query.kind)
        condition += f' AND kind COLLATE "C" = ${len(values)}'
    if query.tags:
        values.append(list(query.tags))
        condition += f" AND tags @> ${len(values)}::text[]"
    parts: list[str] = []
    kinds = sorted(set(query.without))
    for after, before in zip(["", *kinds], [*kinds, None], strict=True):
        values.append(after)
        gap = f'kind COLLATE "C" > ${len(values)}'
        if before is not None:
            values.append(before)
            gap += f' AND kind COLLATE "C" < ${len(values)}'
        parts.append(f"(SELECT number FROM memories WHERE {condition} AND {gap} LIMIT $2)")  # noqa: S608
    return " UNION ALL ".join(parts), values


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
        record.embedder,
    )


def record_of(row: Sequence[Any]) -> MemoryRecord:
    """Return the record in a row of `COLUMNS`."""
    return MemoryRecord(
        id=row[1],
        owner=row[2],
        kind=row[3],
        archived=row[4],
        created=row[5],
        used=row[6] if row[17] is None else max(row[6], row[17]),
        uses=row[7] + (row[18] or 0),
        importance=row[8],
        tags=tuple(row[9]),
        origin=row[10],
        taint=tuple(row[11]),
        supersedes=row[12],
        facts=_facts.decode(row[13]),
        content=bytes(row[14]).decode(),
        embedding=None if row[15] is None else pack(row[15]),
        embedder=row[16],
    )
