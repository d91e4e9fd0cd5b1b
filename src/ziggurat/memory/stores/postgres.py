"""The memory store in a PostgreSQL database with pgvector, for many processes on many machines."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, TypeVar

from ziggurat.core.errors import MissingExtra
from ziggurat.core.settings import Seconds, checked
from ziggurat.databases.forks import reopened_after_fork
from ziggurat.databases.postgres import Connection, PostgresAddress, PostgresConnection
from ziggurat.databases.writer import Writer
from ziggurat.memory.record import MemoryRecord
from ziggurat.memory.search import COUNTED, Candidate, best
from ziggurat.memory.store import Hit, Query, findable, in_place_of, refuse_known, refuse_unfit
from ziggurat.memory.stores import postgres_tables as sql
from ziggurat.memory.stores.rows import scan_pages
from ziggurat.memory.vectors import EXACT

T = TypeVar("T")


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
        if find_spec("asyncpg") is None:
            raise MissingExtra("memories in PostgreSQL", "postgres")
        self.address: PostgresAddress = PostgresAddress.of(url)
        self._database = PostgresConnection(self.address, timeout, sql.create_tables)
        name = f"ziggurat {self.address.shown}"
        self._writer = Writer(name, lambda jobs: None, lambda: None, 60.0, self._database.close)
        self._sizes: set[int] = set()

    def __repr__(self) -> str:
        return f"PostgresMemoryStore({self.address.shown!r})"

    # -- in the writer thread, as are the methods of Source ------------------------------------------------------

    def _run(self, work: Callable[[Connection, bool], Awaitable[T]]) -> Awaitable[T]:
        """Run work in one transaction, in the writer thread."""

        async def whole(connection: Connection, again: bool) -> T:
            async with connection.transaction():
                return await work(connection, again)

        return self._writer.submit(lambda: self._database.run(whole))

    def _fetch(self, statement: str, *values: object) -> Awaitable[Sequence[Any]]:
        return self._writer.submit(lambda: self._database.fetch(statement, *values))

    async def _insert(self, connection: Connection, records: Sequence[MemoryRecord]) -> set[int]:
        """Write memories; return the vector lengths that have an index once this is committed."""
        sizes = await sql.index_sizes(connection, [record.embedding or b"" for record in records], self._sizes)
        for record in records:
            await sql.insert(connection, record)
        return sizes

    def records(self, numbers: Sequence[int]) -> Mapping[int, MemoryRecord]:
        statement = f"SELECT {sql.COLUMNS} FROM memories WHERE number = ANY($1::bigint[])"  # noqa: S608
        return {row[0]: sql.record_of(row) for row in self._database.fetch(statement, list(numbers))}

    def nearest(self, query: Query, count: int) -> Sequence[int]:
        ((memories,),) = self._database.fetch(sql.COUNT, query.owner, EXACT + 1)
        statement, vector = sql.select_nearest(query.embedding or b"", exact=memories <= EXACT)
        return [row[0] for row in self._database.fetch(statement, vector, query.owner, count)]

    def spread(self, query: Query, words: Sequence[str]) -> tuple[int, Mapping[str, int]]:
        ((whole,),) = self._database.fetch(sql.COUNT, query.owner, COUNTED)
        return whole, {row[0]: row[1] for row in self._database.fetch(sql.SPREAD, list(words), query.owner, COUNTED)}

    def entries(self, query: Query, words: Sequence[str], limit: int) -> dict[str, dict[int, float]]:
        return _by_word(self._database.fetch(sql.ENTRIES, list(words), query.owner, limit))

    def entries_of(self, query: Query, words: Sequence[str], numbers: Sequence[int]) -> dict[str, dict[int, float]]:
        return _by_word(self._database.fetch(sql.ENTRIES_OF, list(words), query.owner, list(numbers)))

    def chosen(self, query: Query, most: int) -> Sequence[int] | None:
        statement, values = sql.select_chosen(query, most + 1)
        numbers = [row[0] for row in self._database.fetch(statement, *values)]
        return numbers if len(numbers) <= most else None

    def candidates(self, query: Query, numbers: Sequence[int]) -> Sequence[Candidate]:
        rows = self._database.fetch(sql.CANDIDATES, list(numbers), *sql.filters_of(query))
        return [Candidate(*row) for row in rows]

    # -- the methods of MemoryStore ------------------------------------------------------------------------------

    async def add(self, records: Sequence[MemoryRecord], /) -> None:
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
        refuse_unfit(records)
        last = {record.id: record for record in records}

        async def work(connection: Connection, again: bool) -> set[int]:
            await connection.fetch(sql.DELETE, list(last))
            return await self._insert(connection, list(last.values()))

        self._sizes |= await self._run(work)

    async def put_in_place(self, record: MemoryRecord, tag: str, /) -> list[MemoryRecord]:
        refuse_unfit([record])
        before: list[MemoryRecord] = []

        async def work(connection: Connection, again: bool) -> set[int]:
            known = [row[0] for row in await connection.fetch("SELECT id FROM memories WHERE id = $1", record.id)]
            if again and known:
                return set()  # it was written before the connection was lost
            refuse_known([record.id], known)
            await sql.lock(connection, record.owner, record.kind)
            rows = await connection.fetch(sql.IN_PLACE, record.owner, record.kind, [tag])
            before[:] = [sql.record_of(row) for row in rows]
            await connection.fetch(sql.ARCHIVE, [each.id for each in before])
            return await self._insert(connection, [in_place_of(record, before)])

        self._sizes |= await self._run(work)
        return before

    async def trim(self, ids: Sequence[str], capacity: int, *, delete: bool = False) -> int:

        async def work(connection: Connection, again: bool) -> int:
            rows = await connection.fetch(sql.IN_USE, findable(ids))
            if not rows:
                return 0
            owner, kind = rows[0][1], rows[0][2]
            await sql.lock(connection, owner, kind)
            there = {row[0] for row in await connection.fetch(sql.IN_USE, findable(ids))}
            statement = "SELECT count(*) FROM memories WHERE owner = $1 AND kind = $2 AND NOT archived"
            over = int(await connection.fetchval(statement, owner, kind)) - capacity
            going = [name for name in ids if name in there][: max(0, over)]
            await connection.fetch(sql.DELETE if delete else sql.ARCHIVE, going)
            return max(0, over - len(going))

        return await self._run(work)

    async def stale(self, owner: str | None, embedder: str | None, limit: int, /) -> list[MemoryRecord]:
        return [sql.record_of(row) for row in await self._fetch(sql.STALE, owner, embedder, limit)]

    async def set_vectors(self, vectors: Mapping[str, bytes], embedder: str, /) -> int:
        names = findable(list(vectors))

        async def work(connection: Connection, again: bool) -> tuple[int, set[int]]:
            sizes = await sql.index_sizes(connection, [vectors[name] for name in names], self._sizes)
            return sum([await sql.set_vector(connection, name, vectors[name], embedder) for name in names]), sizes

        changed, sizes = await self._run(work)
        self._sizes |= sizes
        return changed

    async def get(self, ids: Sequence[str], /) -> list[MemoryRecord]:
        statement = f"SELECT {sql.COLUMNS} FROM memories WHERE id = ANY($1)"  # noqa: S608
        rows = {row[1]: row for row in await self._fetch(statement, findable(ids))}
        return [sql.record_of(rows[name]) for name in ids if name in rows]

    async def touch(self, ids: Sequence[str], at: float, /) -> None:
        await self._fetch(sql.TOUCH, findable(ids), at)

    async def remove(self, ids: Sequence[str], /) -> int:
        return len(await self._fetch(sql.DELETE, findable(ids)))

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
            f"SELECT {sql.COLUMNS} FROM memories WHERE ($1::text IS NULL OR owner = $1) "  # noqa: S608
            "AND ($2::text IS NULL OR kind = $2) AND tags @> $3::text[] AND ($4::boolean IS NULL OR archived = $4) "
            f"AND ($5::float8 IS NULL OR (created, number) {beyond} ($5, $6::bigint)) "
            f"ORDER BY created {order}, number {order} LIMIT $7"
        )

        async def read(after: tuple[float, int] | None, many: int) -> Sequence[tuple[int, MemoryRecord]]:
            rows = await self._fetch(statement, owner, kind, list(tags), archived, *(after or (None, None)), many)
            return [(row[0], sql.record_of(row)) for row in rows]

        return scan_pages(read, limit)

    async def count(self, *, owner: str | None, kind: str | None = None, archived: bool | None = False) -> int:
        statement = (
            "SELECT count(*) FROM memories WHERE ($1::text IS NULL OR owner = $1) "
            "AND ($2::text IS NULL OR kind = $2) AND ($3::boolean IS NULL OR archived = $3)"
        )
        return int((await self._fetch(statement, owner, kind, archived))[0][0])

    async def search(self, query: Query, /) -> list[Hit]:
        return await self._writer.submit(lambda: best(query, self))

    async def close(self) -> None:
        await self._writer.finish()
