"""The memory store in a PostgreSQL database with pgvector, for many processes on many machines."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec.structs import asdict

from ziggurat.core import codec
from ziggurat.core.settings import Seconds, checked
from ziggurat.databases.postgres import Connection, PostgresAddress, PostgresConnection, prepare
from ziggurat.databases.writer import Writer, reopened_after_fork
from ziggurat.memory import search as searching, store as stores
from ziggurat.memory.record import MemoryRecord
from ziggurat.memory.vectors import EXACT
from ziggurat.memory.words import indexed_words
from ziggurat.messages.model import pack, unpack

T = TypeVar("T")

_FIELDS = MemoryRecord.__struct_fields__

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

_COLUMNS = f"""number, {", ".join(_FIELDS).replace("embedding", "embedding::real[]")},
    (SELECT recorded.used FROM memory_uses AS recorded WHERE recorded.number = memories.number),
    (SELECT recorded.uses FROM memory_uses AS recorded WHERE recorded.number = memories.number)"""  # noqa: S608
_VALUES = ", ".join(
    f"${place}::real[]::public.vector" if name == "embedding" else f"${place}" for place, name in enumerate(_FIELDS, 1)
)
_INSERT = (  # the values of `_row_of`, and the number of words
    f"INSERT INTO memories ({', '.join(_FIELDS)}, length) VALUES ({_VALUES}, ${len(_FIELDS) + 1}) RETURNING number"  # noqa: S608
)
_TERMS = """INSERT INTO memory_terms (word, owner, number, often)
SELECT word, $2, $1, often FROM unnest($3::text[], $4::float8[]) AS term (word, often)"""
_SPREAD = """SELECT asked.word, (SELECT count(*) FROM
    (SELECT 1 FROM memory_terms AS t WHERE t.word = asked.word AND ($2::text IS NULL OR t.owner = $2) LIMIT $3)
    AS counted)
FROM unnest($1::text[]) AS asked (word)"""
_COUNT = """SELECT count(*) FROM
    (SELECT 1 FROM memories WHERE NOT archived AND ($1::text IS NULL OR owner = $1) LIMIT $2) AS counted"""

_ENTRIES = """SELECT entry.number, asked.word, entry.often FROM unnest($1::text[]) AS asked (word) CROSS JOIN LATERAL
    (SELECT number, often FROM memory_terms AS t WHERE t.word = asked.word AND ($2::text IS NULL OR t.owner = $2)
    ORDER BY number LIMIT $3) AS entry"""
_ENTRIES_OF = """SELECT number, word, often FROM memory_terms
WHERE number = ANY($3::bigint[]) AND word = ANY($1::text[]) AND ($2::text IS NULL OR owner = $2)"""
_ARCHIVE = """WITH gone AS (UPDATE memories SET archived = true WHERE id = ANY($1) AND NOT archived RETURNING number)
DELETE FROM memory_terms USING gone WHERE memory_terms.number = gone.number"""
"""Takes memories out of use, and their words out of the index."""

_IN_USE = "SELECT id, owner, kind FROM memories WHERE id = ANY($1) AND NOT archived"

_SET_VECTOR = """UPDATE memories SET embedding = $2::real[]::public.vector, embedder = $3
WHERE id = $1 AND NOT archived RETURNING number"""

_DELETE = "DELETE FROM memories WHERE id = ANY($1) RETURNING id"

_TOUCH = """WITH asked AS (SELECT id, count(*) AS times FROM unnest($1::text[]) AS id GROUP BY id),
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

_CANDIDATES = """SELECT number, length, CASE WHEN public.vector_dims(embedding) = cardinality($2::real[])
        AND ($6 = '' OR embedder = '' OR embedder = $6)
    THEN 1 - (embedding OPERATOR(public.<=>) $2::real[]::public.vector) END, created, kind
FROM memories WHERE number = ANY($1::bigint[]) AND NOT archived AND ($3::text IS NULL OR owner = $3)
    AND ($4::text IS NULL OR kind = $4) AND tags @> $5::text[] AND kind <> ALL($7::text[])"""

_IN_PLACE = f"""SELECT {_COLUMNS} FROM memories
WHERE owner = $1 AND kind = $2 AND NOT archived AND tags @> $3::text[] ORDER BY created, number"""  # noqa: S608

_STALE = f"""SELECT {_COLUMNS} FROM memories WHERE NOT archived AND ($1::text IS NULL OR owner = $1)
AND kind <> ALL('{{{",".join(stores.UNEMBEDDED)}}}'::text[])
AND (embedding IS NULL OR ($2::text IS NOT NULL AND embedder <> $2)) ORDER BY created, number LIMIT $3"""  # noqa: S608

_LONGEST, _LONGEST_HALF = 2000, 4000

_facts = codec.decoder(dict[str, object])


async def _create_tables(connection: Connection, address: PostgresAddress) -> None:
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
    kind = _vector_type(size)
    if kind is None:
        return None
    operators = f"public.{'vector' if size <= _LONGEST else 'halfvec'}_cosine_ops"
    return (
        f"CREATE INDEX IF NOT EXISTS memories_near_{size} ON memories "
        f"USING hnsw ((embedding::{kind}) {operators}) WHERE public.vector_dims(embedding) = {size}"
    )


async def _lock(connection: Connection, owner: str, kind: str) -> None:
    """Wait until no other transaction changes how many memories of an owner and kind there are."""
    await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", f"{len(owner)}:{owner}:{kind}")


async def _insert(connection: Connection, record: MemoryRecord) -> None:
    words = {} if record.archived else indexed_words(record)
    number = await connection.fetchval(_INSERT, *_row_of(record), sum(words.values()))
    if words:
        await connection.fetch(_TERMS, number, record.owner, list(words), list(words.values()))


async def _index_sizes(connection: Connection, vectors: Sequence[bytes], known: set[int]) -> set[int]:
    """Create the indexes that vectors need; return the lengths of those that there are."""
    sizes = set(known)
    for size in sorted({len(vector) // 4 for vector in vectors} - sizes - {0}):
        if (statement := _index_for(size)) is not None:
            await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
            await connection.execute(statement)
            sizes.add(size)
    return sizes


def _select_chosen(query: stores.Query, most: int) -> tuple[str, list[object]]:
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


def _record_of(row: Sequence[Any]) -> MemoryRecord:
    *fields, used, uses = row[1:]
    values = dict(zip(_FIELDS, fields, strict=True))
    if used is not None:
        values |= {"used": max(values["used"], used), "uses": values["uses"] + uses}
    values |= {"tags": tuple(values["tags"]), "taint": tuple(values["taint"]), "facts": _facts.decode(values["facts"])}
    values["content"] = bytes(values["content"]).decode()
    values["embedding"] = None if values["embedding"] is None else pack(values["embedding"])
    return MemoryRecord(**values)


def _by_word(rows: Sequence[Any]) -> dict[str, dict[int, float]]:
    entries: dict[str, dict[int, float]] = {}
    for number, word, often in rows:
        entries.setdefault(word, {})[number] = often
    return entries


class PostgresMemoryStore:
    """Store memories in a schema of a PostgreSQL database that has the extension pgvector."""

    @reopened_after_fork
    @checked
    def __init__(self, url: str, *, timeout: Seconds = 10.0) -> None:
        self.address: PostgresAddress = PostgresAddress.of(url)
        self._database = PostgresConnection(self.address, timeout, _create_tables)
        name = f"ziggurat {self.address.shown}"
        self._writer = Writer(name, lambda jobs: None, lambda: None, 60.0, self._database.close)
        self._sizes: set[int] = set()

    def __repr__(self) -> str:
        return f"PostgresMemoryStore({self.address.shown!r})"

    # -- in the writer thread, as are the methods of Source ------------------------------------------------------

    def _run(self, work: Callable[[Connection, bool], Awaitable[T]]) -> Awaitable[T]:
        async def whole(connection: Connection, again: bool) -> T:
            async with connection.transaction():
                return await work(connection, again)

        return self._writer.submit(lambda: self._database.run(whole))

    def _fetch(self, statement: str, *values: object) -> Awaitable[Sequence[Any]]:
        return self._writer.submit(lambda: self._database.fetch(statement, *values))

    async def _insert(self, connection: Connection, records: Sequence[MemoryRecord]) -> set[int]:
        """Write memories; return the vector lengths that have an index once this is committed."""
        sizes = await _index_sizes(connection, [record.embedding or b"" for record in records], self._sizes)
        for record in records:
            await _insert(connection, record)
        return sizes

    def records(self, numbers: Sequence[int]) -> Mapping[int, MemoryRecord]:
        statement = f"SELECT {_COLUMNS} FROM memories WHERE number = ANY($1::bigint[])"  # noqa: S608
        return {row[0]: _record_of(row) for row in self._database.fetch(statement, list(numbers))}

    def nearest(self, query: stores.Query, count: int) -> Sequence[int]:
        ((memories,),) = self._database.fetch(_COUNT, query.owner, EXACT + 1)
        vector = unpack(query.embedding or b"")
        size = len(vector)
        statement = _NEAREST.format(size=size, type=_vector_type(size) or "public.vector")
        if memories <= EXACT:
            statement = _NEAREST_EXACT
        return [row[0] for row in self._database.fetch(statement, vector, query.owner, count)]

    def spread(self, query: stores.Query, words: Sequence[str]) -> tuple[int, Mapping[str, int]]:
        ((whole,),) = self._database.fetch(_COUNT, query.owner, searching.COUNTED)
        return whole, {
            row[0]: row[1] for row in self._database.fetch(_SPREAD, list(words), query.owner, searching.COUNTED)
        }

    def entries(self, query: stores.Query, words: Sequence[str], limit: int) -> dict[str, dict[int, float]]:
        return _by_word(self._database.fetch(_ENTRIES, list(words), query.owner, limit))

    def entries_of(
        self, query: stores.Query, words: Sequence[str], numbers: Sequence[int]
    ) -> dict[str, dict[int, float]]:
        return _by_word(self._database.fetch(_ENTRIES_OF, list(words), query.owner, list(numbers)))

    def chosen(self, query: stores.Query, most: int) -> Sequence[int] | None:
        statement, values = _select_chosen(query, most + 1)
        numbers = [row[0] for row in self._database.fetch(statement, *values)]
        return numbers if len(numbers) <= most else None

    def candidates(self, query: stores.Query, numbers: Sequence[int]) -> Sequence[searching.Candidate]:
        vector = None if query.embedding is None else unpack(query.embedding)
        filters = query.owner, query.kind, list(query.tags), query.embedder, list(query.without)
        rows = self._database.fetch(_CANDIDATES, list(numbers), vector, *filters)
        return [searching.Candidate(*row) for row in rows]

    # -- the methods of MemoryStore ------------------------------------------------------------------------------

    async def add(self, records: Sequence[MemoryRecord], /) -> None:
        stores.refuse_unfit(records)
        names = [record.id for record in records]

        async def work(connection: Connection, again: bool) -> set[int]:
            known = {row[0] for row in await connection.fetch("SELECT id FROM memories WHERE id = ANY($1)", names)}
            if again and known == set(names):
                return set()  # they were written before the connection was lost
            stores.refuse_known(names, known)
            return await self._insert(connection, records)

        self._sizes |= await self._run(work)

    async def put(self, records: Sequence[MemoryRecord], /) -> None:
        stores.refuse_unfit(records)
        last = {record.id: record for record in records}

        async def work(connection: Connection, again: bool) -> set[int]:
            await connection.fetch(_DELETE, list(last))
            return await self._insert(connection, list(last.values()))

        self._sizes |= await self._run(work)

    async def put_in_place(self, record: MemoryRecord, tag: str, /) -> list[MemoryRecord]:
        stores.refuse_unfit([record])
        before: list[MemoryRecord] = []

        async def work(connection: Connection, again: bool) -> set[int]:
            known = [row[0] for row in await connection.fetch("SELECT id FROM memories WHERE id = $1", record.id)]
            if again and known:
                return set()  # it was written before the connection was lost
            stores.refuse_known([record.id], known)
            await _lock(connection, record.owner, record.kind)
            rows = await connection.fetch(_IN_PLACE, record.owner, record.kind, [tag])
            before[:] = [_record_of(row) for row in rows]
            await connection.fetch(_ARCHIVE, [each.id for each in before])
            return await self._insert(connection, [stores.in_place_of(record, before)])

        self._sizes |= await self._run(work)
        return before

    async def trim(self, ids: Sequence[str], capacity: int, /) -> int:

        async def work(connection: Connection, again: bool) -> int:
            rows = await connection.fetch(_IN_USE, stores.findable(ids))
            if not rows:
                return 0
            owner, kind = rows[0][1], rows[0][2]
            await _lock(connection, owner, kind)
            there = {row[0] for row in await connection.fetch(_IN_USE, stores.findable(ids))}
            statement = "SELECT count(*) FROM memories WHERE owner = $1 AND kind = $2 AND NOT archived"
            over = int(await connection.fetchval(statement, owner, kind)) - capacity
            going = [name for name in ids if name in there][: max(0, over)]
            await connection.fetch(_ARCHIVE, going)
            return max(0, over - len(going))

        return await self._run(work)

    async def stale(self, owner: str | None, embedder: str | None, limit: int, /) -> list[MemoryRecord]:
        return [_record_of(row) for row in await self._fetch(_STALE, owner, embedder, limit)]

    async def set_vectors(self, vectors: Mapping[str, bytes], embedder: str, /) -> int:
        names = stores.findable(list(vectors))

        async def work(connection: Connection, again: bool) -> tuple[int, set[int]]:
            sizes = await _index_sizes(connection, [vectors[name] for name in names], self._sizes)
            values = [(name, unpack(vectors[name]), embedder) for name in names]
            return sum([await connection.fetchval(_SET_VECTOR, *each) is not None for each in values]), sizes

        changed, sizes = await self._run(work)
        self._sizes |= sizes
        return changed

    async def get(self, ids: Sequence[str], /) -> list[MemoryRecord]:
        statement = f"SELECT {_COLUMNS} FROM memories WHERE id = ANY($1)"  # noqa: S608
        rows = {row[1]: row for row in await self._fetch(statement, stores.findable(ids))}
        return [_record_of(rows[name]) for name in ids if name in rows]

    async def touch(self, ids: Sequence[str], at: float, /) -> None:
        await self._fetch(_TOUCH, stores.findable(ids), at)

    async def remove(self, ids: Sequence[str], /) -> int:
        return len(await self._fetch(_DELETE, stores.findable(ids)))

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
        statement = (
            f"SELECT {_COLUMNS} FROM memories WHERE ($1::text IS NULL OR owner = $1) "  # noqa: S608
            "AND ($2::text IS NULL OR kind = $2) AND tags @> $3::text[] AND ($4::boolean IS NULL OR archived = $4) "
            f"AND ($5::float8 IS NULL OR (created, number) {beyond} ($5, $6::bigint)) "
            f"ORDER BY created {order}, number {order} LIMIT $7"
        )

        async def read(after: tuple[float, int] | None, many: int) -> Sequence[tuple[int, MemoryRecord]]:
            rows = await self._fetch(statement, owner, kind, list(tags), archived, *(after or (None, None)), many)
            return [(row[0], _record_of(row)) for row in rows]

        return stores.scan_pages(read, limit)

    async def count(self, *, owner: str | None, kind: str | None = None, archived: bool | None = False) -> int:
        statement = (
            "SELECT count(*) FROM memories WHERE ($1::text IS NULL OR owner = $1) "
            "AND ($2::text IS NULL OR kind = $2) AND ($3::boolean IS NULL OR archived = $3)"
        )
        return int((await self._fetch(statement, owner, kind, archived))[0][0])

    async def search(self, query: stores.Query, /) -> list[stores.Hit]:
        return await self._writer.submit(lambda: searching.best(query, self))

    async def close(self) -> None:
        await self._writer.finish()
