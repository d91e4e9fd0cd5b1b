"""The tables and queries of the memory store in PostgreSQL."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import asdict

from ziggurat.core import codec
from ziggurat.databases.postgres import Connection, PostgresAddress, prepare
from ziggurat.memory.record import MemoryRecord
from ziggurat.memory.store import UNEMBEDDED, Query
from ziggurat.memory.stores.rows import FIELDS
from ziggurat.memory.words import indexed_words
from ziggurat.messages.model import pack, unpack

_LOCK = 0x5A494D4D  # the key of the advisory lock held while tables and indexes are created

_SEARCH = """SELECT set_config('hnsw.iterative_scan', 'relaxed_order', false),
    set_config('hnsw.ef_search', '200', false), set_config('plan_cache_mode', 'force_custom_plan', false)"""
"""Plans are made for the values of each query: a plan for any owner and any limit would use no index."""

_TABLES = (
    "CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public",
    """CREATE TABLE IF NOT EXISTS memories (
        number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id text NOT NULL UNIQUE, owner text NOT NULL,
        kind text NOT NULL, archived boolean NOT NULL, created float8 NOT NULL, used float8 NOT NULL,
        uses bigint NOT NULL, importance float8 NOT NULL, tags text[] NOT NULL, origin text NOT NULL,
        taint text[] NOT NULL, supersedes text, facts text NOT NULL, content bytea NOT NULL,
        embedding public.vector, length float8 NOT NULL DEFAULT 0, embedder text NOT NULL DEFAULT '')""",
    "CREATE INDEX IF NOT EXISTS memories_by_age ON memories (owner, created, number)",
    "CREATE INDEX IF NOT EXISTS memories_by_time ON memories (created, number)",
    """CREATE INDEX IF NOT EXISTS memories_of_kind ON memories (owner, kind COLLATE "C") INCLUDE (number)
        WHERE NOT archived""",
    """CREATE INDEX IF NOT EXISTS memories_without_vector ON memories (owner, created)
        WHERE NOT archived AND embedding IS NULL""",
    "CREATE INDEX IF NOT EXISTS memories_by_embedder ON memories (owner, embedder) WHERE NOT archived",
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

_LAST_TABLE = "memory_uses"  # the last table that `_TABLES` creates

COLUMNS = f"""number, {", ".join(FIELDS).replace("embedding", "embedding::real[]")},
    (SELECT recorded.used FROM memory_uses AS recorded WHERE recorded.number = memories.number),
    (SELECT recorded.uses FROM memory_uses AS recorded WHERE recorded.number = memories.number)"""  # noqa: S608
"""The columns that `record_of` reads."""

_VALUES = ", ".join(
    f"${place}::real[]::public.vector" if name == "embedding" else f"${place}" for place, name in enumerate(FIELDS, 1)
)
_INSERT = f"INSERT INTO memories ({', '.join(FIELDS)}, length) VALUES ({_VALUES}, ${len(FIELDS) + 1}) RETURNING number"  # noqa: S608
"""The statement for the values of `_row_of` and the number of words."""

_TERMS = """INSERT INTO memory_terms (word, owner, number, often)
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

_SET_VECTOR = """UPDATE memories SET embedding = $2::real[]::public.vector, embedder = $3
WHERE id = $1 AND NOT archived RETURNING number"""

DELETE = "DELETE FROM memories WHERE id = ANY($1) RETURNING id"

TOUCH = """WITH asked AS (SELECT id, count(*) AS times FROM unnest($1::text[]) AS id GROUP BY id),
    known AS (SELECT number, times FROM memories JOIN asked USING (id) ORDER BY number FOR KEY SHARE OF memories)
INSERT INTO memory_uses (number, used, uses) SELECT number, $2, times FROM known
ON CONFLICT (number) DO UPDATE
SET used = greatest(memory_uses.used, excluded.used), uses = memory_uses.uses + excluded.uses"""
"""Records uses. The memories are locked, so that none of them is removed meanwhile; in the order of their numbers, so
that two such statements do not wait for each other forever."""

_NEAREST = """SELECT number FROM memories
WHERE public.vector_dims(embedding) = {size} AND NOT archived AND ($2::text IS NULL OR owner = $2)
ORDER BY embedding::{type} OPERATOR(public.<=>) $1::real[]::{type} LIMIT $3"""

_NEAREST_EXACT = """WITH mine AS MATERIALIZED (SELECT number, embedding FROM memories
    WHERE public.vector_dims(embedding) = cardinality($1::real[]) AND NOT archived AND ($2::text IS NULL OR owner = $2))
SELECT number FROM mine ORDER BY embedding OPERATOR(public.<=>) $1::real[]::public.vector, number LIMIT $3"""
"""The nearest of few vectors: an index might miss some of them."""

CANDIDATES = """SELECT number, length, CASE WHEN public.vector_dims(embedding) = cardinality($2::real[])
        AND ($6 = '' OR embedder = '' OR embedder = $6)
    THEN 1 - (embedding OPERATOR(public.<=>) $2::real[]::public.vector) END, created, kind
FROM memories WHERE number = ANY($1::bigint[]) AND NOT archived AND ($3::text IS NULL OR owner = $3)
    AND ($4::text IS NULL OR kind = $4) AND tags @> $5::text[] AND kind <> ALL($7::text[])"""

IN_PLACE = f"""SELECT {COLUMNS} FROM memories
WHERE owner = $1 AND kind = $2 AND NOT archived AND tags @> $3::text[] ORDER BY created, number"""  # noqa: S608

STALE = f"""SELECT {COLUMNS} FROM memories WHERE NOT archived AND ($1::text IS NULL OR owner = $1)
AND kind <> ALL('{{{",".join(UNEMBEDDED)}}}'::text[])
AND (embedding IS NULL OR ($2::text IS NOT NULL AND embedder <> $2)) ORDER BY created, number LIMIT $3"""  # noqa: S608

_LONGEST, _LONGEST_HALF = 2000, 4000

_facts = codec.decoder(dict[str, object])


async def create_tables(connection: Connection, address: PostgresAddress) -> None:
    """Create missing tables and indexes, and set how this connection searches."""
    await prepare(connection, address)
    if await connection.fetchval("SELECT to_regclass($1)::text", f"{address.schema}.{_LAST_TABLE}") is None:
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
            for statement in _TABLES:
                await connection.execute(statement)
    # the settings of the extension exist only after its first use
    await connection.execute("SELECT public.vector_dims('[1]'::public.vector)")
    await connection.execute(_SEARCH)


def _vector_type(size: int) -> str | None:
    """Return the type used to index vectors of a length; None if they are too long for an index."""
    if size <= _LONGEST:
        return f"public.vector({size})"
    return f"public.halfvec({size})" if size <= _LONGEST_HALF else None


def _index_for(size: int) -> str | None:
    """Return the statement that creates the index for vectors of a length; None if they are too long for an index."""
    kind = _vector_type(size)
    if kind is None:
        return None
    operators = f"public.{'vector' if size <= _LONGEST else 'halfvec'}_cosine_ops"
    return (
        f"CREATE INDEX IF NOT EXISTS memories_near_{size} ON memories "
        f"USING hnsw ((embedding::{kind}) {operators}) WHERE public.vector_dims(embedding) = {size}"
    )


async def lock(connection: Connection, owner: str, kind: str) -> None:
    """Wait until no other transaction changes how many memories of an owner and kind there are."""
    await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", f"{len(owner)}:{owner}:{kind}")


async def insert(connection: Connection, record: MemoryRecord) -> None:
    words = {} if record.archived else indexed_words(record)
    number = await connection.fetchval(_INSERT, *_row_of(record), sum(words.values()))
    if words:
        await connection.fetch(_TERMS, number, record.owner, list(words), list(words.values()))


async def set_vector(connection: Connection, name: str, vector: bytes, embedder: str) -> bool:
    """Replace the vector of a memory in use; return whether there is one."""
    return await connection.fetchval(_SET_VECTOR, name, unpack(vector), embedder) is not None


async def index_sizes(connection: Connection, vectors: Sequence[bytes], known: set[int]) -> set[int]:
    """Create the indexes that vectors need; return the lengths of those that there are."""
    sizes = set(known)
    for size in sorted({len(vector) // 4 for vector in vectors} - sizes - {0}):
        if (statement := _index_for(size)) is not None:
            await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
            await connection.execute(statement)
            sizes.add(size)
    return sizes


def select_nearest(vector: bytes, *, exact: bool) -> tuple[str, object]:
    """Return the statement that selects the nearest vectors, and the vector as it takes it."""
    unpacked = unpack(vector)
    size = len(unpacked)
    kind = _vector_type(size) or "public.vector"
    return _NEAREST_EXACT if exact else _NEAREST.format(size=size, type=kind), unpacked


def filters_of(query: Query) -> tuple[object, ...]:
    """Return the values of `CANDIDATES` after the numbers."""
    vector = None if query.embedding is None else unpack(query.embedding)
    return vector, query.owner, query.kind, list(query.tags), query.embedder, list(query.without)


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


def _row_of(record: MemoryRecord) -> list[object]:
    values = asdict(record)
    values["facts"] = msgspec.json.encode(record.facts).decode()
    values["content"] = record.content.encode()
    values["embedding"] = unpack(record.embedding) if record.embedding else None
    return list(values.values())


def record_of(row: Sequence[Any]) -> MemoryRecord:
    *fields, used, uses = row[1:]
    values = dict(zip(FIELDS, fields, strict=True))
    if used is not None:
        values |= {"used": max(values["used"], used), "uses": values["uses"] + uses}
    values |= {"tags": tuple(values["tags"]), "taint": tuple(values["taint"]), "facts": _facts.decode(values["facts"])}
    values["content"] = bytes(values["content"]).decode()
    values["embedding"] = None if values["embedding"] is None else pack(values["embedding"])
    return MemoryRecord(**values)
