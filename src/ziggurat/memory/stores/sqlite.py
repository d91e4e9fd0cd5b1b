"""The memory store in a SQLite database, which may also hold runs, and the one in this process."""

import sqlite3
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar
from weakref import finalize

from ziggurat.core.errors import CallerError
from ziggurat.core.settings import Seconds, checked
from ziggurat.databases.address import StorePath, check_path
from ziggurat.databases.forks import reopened_after_fork
from ziggurat.databases.sqlite import SqliteConnection, write_batch
from ziggurat.databases.writer import Job, Writer
from ziggurat.memory.record import MemoryRecord
from ziggurat.memory.store import Hit, Query, findable, refuse_unfit
from ziggurat.memory.stores.rows import scan_pages
from ziggurat.memory.stores.sqlite_rows import PAUSE, MemoryRows

T = TypeVar("T")

_WRITES = "memories"


class SqliteMemoryStore:
    """Store memories in a SQLite database; several processes may use it at once."""

    @reopened_after_fork
    @checked
    def __init__(
        self,
        path: StorePath,
        *,
        synchronous: Literal["FULL", "NORMAL"] = "FULL",
        timeout: Seconds = 5.0,
        connect: Callable[..., sqlite3.Connection] = sqlite3.connect,
    ) -> None:
        self.path: Path = check_path(path, self)
        self._database = SqliteConnection(self.path, synchronous, timeout, connect)
        self._rows = MemoryRows(self._database)
        self._writer = Writer(
            f"ziggurat {self.path.name}", self._together, self._rows.flush_if_due, PAUSE, self._database.close
        )

    def __repr__(self) -> str:
        return f"SqliteMemoryStore({str(self.path)!r})"

    def _together(self, jobs: Sequence[Job[Any]]) -> None:
        """Run all writing jobs in one transaction, with the recorded uses; if it fails, all of them fail."""
        rows = self._rows
        failed = write_batch(self._database, jobs, (CallerError,), before=rows.prepare, last=rows.write_uses)
        if failed is None:
            rows.forget_uses()

    def _write(self, work: Callable[[], T]) -> Awaitable[T]:
        return self._writer.submit(work, _WRITES)

    def _read(self, work: Callable[[], T]) -> Awaitable[T]:
        def reading() -> T:
            self._rows.prepare()
            return self._database.reading(work)

        return self._writer.submit(reading)

    async def add(self, records: Sequence[MemoryRecord], /) -> None:
        refuse_unfit(records)
        await self._write(lambda: self._rows.add(records))

    async def put(self, records: Sequence[MemoryRecord], /) -> None:
        refuse_unfit(records)
        await self._write(lambda: self._rows.put(records))

    async def put_in_place(self, record: MemoryRecord, tag: str, /) -> list[MemoryRecord]:
        refuse_unfit([record])
        return await self._write(lambda: self._rows.put_in_place(record, tag))

    async def trim(self, ids: Sequence[str], capacity: int, *, delete: bool = False) -> int:
        return await self._write(lambda: self._rows.trim(ids, capacity, delete=delete))

    async def stale(self, owner: str | None, embedder: str | None, limit: int, /) -> list[MemoryRecord]:
        return await self._read(lambda: self._rows.stale(owner, embedder, limit))

    async def set_vectors(self, vectors: Mapping[str, bytes], embedder: str, /) -> int:
        return await self._write(lambda: self._rows.set_vectors(vectors, embedder))

    async def get(self, ids: Sequence[str], /) -> list[MemoryRecord]:
        records = await self._read(lambda: self._rows.load(findable(ids)))
        return [records[name][1] for name in ids if name in records]

    async def touch(self, ids: Sequence[str], at: float, /) -> None:
        await self._read(lambda: self._rows.touch(findable(ids), at))

    async def remove(self, ids: Sequence[str], /) -> int:
        return await self._write(lambda: self._rows.remove(findable(ids)))

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
        async def read(after: tuple[float, int] | None, many: int) -> Sequence[tuple[int, MemoryRecord]]:
            return await self._read(lambda: self._rows.scan(owner, kind, tags, archived, newest_first, after, many))

        return scan_pages(read, limit)

    async def count(self, *, owner: str | None, kind: str | None = None, archived: bool | None = False) -> int:
        return await self._read(lambda: self._rows.count(owner, kind, archived))

    async def search(self, query: Query, /) -> list[Hit]:
        return await self._read(lambda: self._rows.search(query))

    async def close(self) -> None:
        try:
            if not self._writer.closed:
                await self._writer.submit(self._rows.flush)
        finally:
            await self._writer.finish()


class _InMemory(SqliteConnection):
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
        self._database = _InMemory()
        self._rows = MemoryRows(self._database)

    def __repr__(self) -> str:
        return "LocalMemoryStore()"

    async def _write(self, work: Callable[[], T]) -> T:
        self._rows.prepare()
        return self._database.transaction(work)

    async def _read(self, work: Callable[[], T]) -> T:
        self._rows.prepare()
        return self._database.reading(work)

    async def close(self) -> None:
        pass
