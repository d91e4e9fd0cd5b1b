"""The memory store in a PostgreSQL database with pgvector, for many processes on many machines."""

__all__ = ["PostgresMemoryStore"]

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, TypeVar

from ziggurat.core.errors import MissingExtra
from ziggurat.core.settings import Seconds, checked
from ziggurat.databases.postgres.address import PostgresAddress
from ziggurat.databases.postgres.connection import Connection, PostgresConnection
from ziggurat.databases.postgres.schema import prepare
from ziggurat.databases.writer import Writer
from ziggurat.memory.record import MemoryRecord, unpack
from ziggurat.memory.search import Candidate, best, hits
from ziggurat.memory.store import Hit, Query, findable, refuse_known, refuse_unfit
from ziggurat.memory.stores import postgres_tables as sql
from ziggurat.memory.text import indexed

T = TypeVar("T")

_PAGE = 500
_LOCK = 0x5A494D4D
"""The key of the advisory lock held while tables and indexes are created."""

_SEARCH = "SELECT set_config('hnsw.iterative_scan', 'relaxed_order', false), set_config('hnsw.ef_search', '200', false)"


async def _prepare(connection: Connection, address: PostgresAddress) -> None:
    await prepare(connection, address)
    if await connection.fetchval("SELECT to_regclass($1)::text", f"{address.schema}.memory_words_by_number") is None:
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
            for statement in sql.TABLES:
                await connection.execute(statement)
    # the settings of the extension exist only after its first use
    await connection.execute("SELECT public.vector_dims('[1]'::public.vector)")
    await connection.execute(_SEARCH)


class PostgresMemoryStore:
    """Store memories in a schema of a PostgreSQL database that has the extension pgvector.

    Args:
        url: ``postgresql://user@host/database``, as for a run store, whose schema it may share.
        timeout: Seconds to wait for a response of the server, and for its return when the connection is lost.

    Raises:
        MissingExtra: the driver is not installed.
        ConfigurationError: `url` is not the URL of a PostgreSQL server.
    """

    @checked
    def __init__(self, url: str, *, timeout: Seconds = 10.0) -> None:
        if find_spec("asyncpg") is None:
            raise MissingExtra("memories in PostgreSQL", "postgres")
        self.address = PostgresAddress.of(url)
        self._database = PostgresConnection(self.address, timeout, _prepare)
        name = f"ziggurat {self.address.shown}"
        self._writer = Writer(name, lambda jobs: None, lambda: None, 60.0, self._database.close)
        self._sizes: set[int] = set()

    def __repr__(self) -> str:
        return f"PostgresMemoryStore({self.address.shown!r})"

    # -- in the writer thread ------------------------------------------------------------------------------------

    def _run(self, work: Callable[[Connection, bool], Awaitable[T]]) -> "asyncio.Future[T]":
        """Run work in one transaction, in the writer thread."""

        async def whole(connection: Connection, again: bool) -> T:
            async with connection.transaction():
                return await work(connection, again)

        return self._writer.submit(lambda: self._database.run(whole))

    def _fetch(self, statement: str, *values: object) -> "asyncio.Future[Sequence[Any]]":
        return self._writer.submit(lambda: self._database.fetch(statement, *values))

    async def _insert(self, connection: Connection, records: Sequence[MemoryRecord]) -> set[int]:
        """Write memories; return the vector lengths that have an index once this is committed."""
        indexed_sizes = set(self._sizes)
        for record in records:
            size = len(record.embedding or b"") // 4
            if size and size not in indexed_sizes and (statement := sql.index_for(size)) is not None:
                await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
                await connection.execute(statement)
                indexed_sizes.add(size)
            number = await connection.fetchval(sql.INSERT, *sql.row_of(record))
            if not record.archived:
                text, context, _ = (part.replace("\0", " ") for part in indexed(record))
                await connection.fetch(sql.WORDS, number, record.owner, text, context)
        return indexed_sizes

    def _search(self, query: Query) -> list[Hit]:
        found = best(query, self)
        statement = f"SELECT {sql.COLUMNS} FROM memories WHERE number = ANY($1::bigint[])"  # noqa: S608
        rows = self._database.fetch(statement, [each.number for each in found])
        records = {row[0]: sql.record_of(row) for row in rows}
        return hits(found, records)

    def nearest(self, query: Query, count: int) -> Sequence[int]:
        """Return numbers by their vectors, called in the writer thread; see `Source.nearest`."""
        vector = unpack(query.embedding or b"")
        statement = sql.NEAREST.format(size=len(vector), type=sql.vector_type(len(vector)) or "public.vector")
        return [row[0] for row in self._database.fetch(statement, vector, query.owner, count)]

    def worded(self, query: Query, count: int) -> Mapping[int, float]:
        """Return numbers by their words, called in the writer thread; see `Source.worded`."""
        text = (query.text or "").replace("\0", " ")
        return {row[0]: row[1] for row in self._database.fetch(sql.WORDED, text, query.owner, count)}

    def candidates(self, query: Query, numbers: Sequence[int]) -> Sequence[Candidate]:
        """Return the candidates that pass the filters, called in the writer thread; see `Source.candidates`."""
        vector = None if query.embedding is None else unpack(query.embedding)
        values = (list(numbers), vector, query.owner, query.kind, list(query.tags))
        return [Candidate(row[0], row[1]) for row in self._database.fetch(sql.CANDIDATES, *values)]

    # -- the methods of MemoryStore ------------------------------------------------------------------------------

    async def add(self, records: Sequence[MemoryRecord], /) -> None:
        """Store new memories; see `MemoryStore.add`."""
        refuse_unfit(records)
        names = [record.id for record in records]

        async def work(connection: Connection, again: bool) -> set[int]:
            known = {row[0] for row in await connection.fetch("SELECT id FROM memories WHERE id = ANY($1)", names)}
            if again and known == set(names):
                return set()  # they were written before the connection was lost
            refuse_known(names, known)
            return await self._insert(connection, records)

        self._sizes |= await self._run(work)

    async def put(self, records: Sequence[MemoryRecord], /) -> None:
        """Store memories, replacing those with the same ids; see `MemoryStore.put`."""
        refuse_unfit(records)
        last = {record.id: record for record in records}

        async def work(connection: Connection, again: bool) -> set[int]:
            await connection.fetch(sql.DELETE, list(last))
            return await self._insert(connection, list(last.values()))

        self._sizes |= await self._run(work)

    async def get(self, ids: Sequence[str], /) -> list[MemoryRecord]:
        """Return memories by id; see `MemoryStore.get`."""
        statement = f"SELECT {sql.COLUMNS} FROM memories WHERE id = ANY($1)"  # noqa: S608
        found = {row[1]: row for row in await self._fetch(statement, findable(ids))}
        return [sql.record_of(found[name]) for name in ids if name in found]

    async def touch(self, ids: Sequence[str], at: float, /) -> None:
        """Record that memories were recalled; see `MemoryStore.touch`."""
        await self._fetch(sql.TOUCH, findable(ids), at)

    async def remove(self, ids: Sequence[str], /) -> int:
        """Delete memories; see `MemoryStore.remove`."""
        return len(await self._fetch(sql.DELETE, findable(ids)))

    async def scan(
        self,
        *,
        owner: str | None,
        kind: str | None = None,
        tags: Sequence[str] = (),
        archived: bool | None = False,
        newest_first: bool = False,
        limit: int | None = None,
    ) -> AsyncIterator[MemoryRecord]:
        """Iterate over memories by age, reading some hundreds at a time; see `MemoryStore.scan`."""
        order, beyond = ("DESC", "<") if newest_first else ("ASC", ">")
        statement = (
            f"SELECT {sql.COLUMNS} FROM memories WHERE ($1::text IS NULL OR owner = $1) "  # noqa: S608
            "AND ($2::text IS NULL OR kind = $2) AND tags @> $3::text[] AND ($4::boolean IS NULL OR archived = $4) "
            f"AND ($5::float8 IS NULL OR (created, number) {beyond} ($5, $6::bigint)) "
            f"ORDER BY created {order}, number {order} LIMIT $7"
        )
        after: tuple[object, object] = (None, None)
        left = limit
        while left is None or left > 0:
            many = _PAGE if left is None else min(_PAGE, left)
            page = await self._fetch(statement, owner, kind, list(tags), archived, *after, many)
            for row in page:
                yield sql.record_of(row)
            if len(page) < many:
                return
            after = (page[-1][5], page[-1][0])
            left = None if left is None else left - len(page)

    async def count(self, *, owner: str | None, kind: str | None = None, archived: bool | None = False) -> int:
        """Return the number of memories; see `MemoryStore.count`."""
        statement = (
            "SELECT count(*) FROM memories WHERE ($1::text IS NULL OR owner = $1) "
            "AND ($2::text IS NULL OR kind = $2) AND ($3::boolean IS NULL OR archived = $3)"
        )
        return int((await self._fetch(statement, owner, kind, archived))[0][0])

    async def search(self, query: Query, /) -> list[Hit]:
        """Return the memories that match best; see `MemoryStore.search`."""
        return await self._writer.submit(lambda: self._search(query))

    async def close(self) -> None:
        """Close the connection; see `MemoryStore.close`."""
        await self._writer.finish()
