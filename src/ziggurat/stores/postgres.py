"""The store in a PostgreSQL database, for many processes on many machines."""

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, TypeVar, Unpack

from ziggurat.core.clock import SYSTEM_CLOCK, Clock
from ziggurat.core.errors import (
    JournalError,
    LeaseLost,
    RunExists,
    RunNotFound,
    StoreError,
    StoreUnavailable,
)
from ziggurat.core.settings import Seconds, checked
from ziggurat.databases.owner import LostLeases, is_gone, lease_held, new_owner
from ziggurat.databases.postgres import Connection, PostgresAddress, PostgresConnection, opened, prepare
from ziggurat.databases.writer import Job, Writer, closed_when_unused, one_by_one, reopened_after_fork
from ziggurat.journal.rows import DigestChain, Key
from ziggurat.journal.store import (
    UNFINISHED,
    Claim,
    InboxItem,
    LogFilters,
    LogInfo,
    LogMark,
    Row,
    labels_text,
    loss,
)
from ziggurat.stores import postgres_statements as sql
from ziggurat.stores.postgres_listener import PostgresListener, PostgresLive, Read
from ziggurat.stores.postgres_statements import Append, write

T = TypeVar("T")

_WATCHED = 60.0  # seconds for which the writer of a log notifies its followers

_VACUUM_SECONDS = 3600.0
_POLL = 0.1  # the longest wait for what other processes do, in seconds, while the server sends no signals


def _channel_of(schema: str) -> str:
    if len(schema) <= 50:
        return f"ziggurat_{schema}"
    return f"ziggurat_{schema[:32]}_{blake2b(schema.encode(), digest_size=8).hexdigest()}"


class PostgresStore:
    """Store logs in a schema of a PostgreSQL database; any number of processes may use it at once.

    A process has one connection for writing, one for reading, and, while it follows runs of others, a third.

    Args:
        url: ``postgresql://user@host/database``, with parameters of the driver after a question mark, and ``schema=``;
            the password may be in it, in PGPASSWORD or in a password file.
        timeout: Seconds to wait for a response of the server, and for its return when the connection is lost.
        lease: Seconds after which another process may take over from one that is not known to be gone.
        clock: The clock; None for the database's.
        key: The secret with which the digests of entries are made, or several; see `connect`.

    Raises:
        MissingExtra: the driver is not installed.
        ConfigurationError: `url` is not the URL of a PostgreSQL server.
    """

    @reopened_after_fork
    @checked
    def __init__(
        self,
        url: str,
        *,
        timeout: Seconds = 10.0,
        lease: Seconds = 30.0,
        clock: Clock | None = None,
        key: Key = None,
    ) -> None:
        self.address: PostgresAddress = PostgresAddress.of(url)
        self.seconds = lease
        self.chain: DigestChain = DigestChain(key)
        self.owner: str = new_owner()
        self._clock = clock
        self._timeout = timeout
        self._held: dict[str, tuple[int, int]] = {}
        self._lost = LostLeases(clock)
        self._renewed = 0.0
        self._followed: OrderedDict[str, tuple[int, float]] = OrderedDict()
        self._channel = _channel_of(self.address.schema)
        reached = threading.Event()
        self._writing = PostgresConnection(self.address, timeout, prepare, reached)
        reading = PostgresConnection(self.address, timeout, prepare, reached)
        name = f"ziggurat {self.address.shown}"
        pause = min(1.0, lease / 4)
        self._writer = Writer(name, self._together, self._renew, pause, self._writing.close)
        address = self.address  # a reference to the store would keep an unused one alive
        listener = self._listener = PostgresListener(lambda: opened(address, timeout, prepare), self._channel)

        def end_reading() -> None:
            listener.close()
            reading.close()

        sending = PostgresConnection(self.address, timeout, prepare, reached)
        with closed_when_unused():  # one warning for an unclosed store is enough, the writer's
            reader = self._reader = Writer(name, one_by_one, lambda: None, 60.0, end_reading)

        def read(statement: str, *values: object) -> "asyncio.Future[Sequence[Any]]":
            return reader.submit(lambda: reading.fetch(statement, *values))

        self._read: Read = read
        self.live: PostgresLive = PostgresLive(self.address.schema, listener, read, sending)

    def __repr__(self) -> str:
        return f"PostgresStore({self.address.shown!r})"

    @property
    def closed(self) -> bool:
        """Whether it has been closed."""
        return self._writer.closed

    def _now(self) -> float | None:
        return None if self._clock is None else self._clock.now()

    # -- in the writer thread ------------------------------------------------------------------------------------

    def _together(self, jobs: Sequence[Job[Any]]) -> None:
        """Run writing jobs in order; consecutive appends to different logs share one transaction."""
        start = 0
        while start < len(jobs):
            end, logs = start, set[str]()
            while end < len(jobs) and isinstance(jobs[end].work, Append) and jobs[end].log not in logs:
                logs.add(jobs[end].log)
                end += 1
            if end == start:
                end += 1
                jobs[start].do()
            else:
                self._append_all(jobs[start:end])
            start = end

    def _append_all(self, jobs: Sequence[Job[Any]]) -> None:
        appends: list[Append] = [job.work for job in jobs]  # type: ignore[misc]
        try:
            done = self._writing.run(
                lambda connection, again: write(connection, appends, self._now(), self.seconds, self._channel, again)
            )
        except JournalError as error:
            if len(jobs) > 1 and not isinstance(error, StoreUnavailable):  # only one of them may be at fault
                for job in jobs:
                    self._append_all([job])
                return
            for job in jobs:
                job.error = type(error)(str(error))
                self._held.pop(job.log, None)  # the run cannot continue here: let the lease expire
            return
        for job, append in zip(jobs, appends, strict=True):
            if append.id not in done:
                job.error = LeaseLost(f"{job.log}: another process now holds the lease; resume the run to continue it")
            over = append.id not in done or append.release
            if over and self._held.get(job.log) == (append.id, append.epoch):
                del self._held[job.log]

    def _renew(self) -> None:
        if not self._held or time.monotonic() - self._renewed < self.seconds / 4:
            return
        self._renewed = time.monotonic()
        leases = list(self._held.values())
        self._writing.fetch(
            sql.RENEW, self._now(), self.seconds, [at for at, _ in leases], [epoch for _, epoch in leases]
        )

    def _create(self, info: LogInfo, rows: Sequence[Row], blobs: Mapping[str, bytes]) -> int:
        log = info.log
        status = rows[-1].status if rows else "running"
        values = (
            log,
            info.agent,
            info.request,
            info.created or None,
            status,
            len(rows),
            self.owner,
            labels_text(info.labels),
            info.due,
            info.priority,
        )
        columns = (
            [row.number for row in rows],
            [row.digest for row in rows],
            [row.data for row in rows],
            [row.status for row in rows],
            list(blobs),
            list(blobs.values()),
        )

        async def work(connection: Connection, again: bool) -> int | None:
            number: int | None = await connection.fetchval(sql.CREATE, self._now(), self.seconds, *values, *columns)
            if number is None and again:
                number = await connection.fetchval(sql.BEGUN, log, self.owner)
            return number

        number = self._writing.run(work)
        if number is None:
            self._check_not_lost(log, self._writing.fetch(sql.LOST, log))
            raise RunExists(f"{log} exists already; choose another id")
        self._held[log] = (number, 1)
        return 1

    @staticmethod
    def _check_not_lost(log: str, missed: Sequence[Any]) -> None:
        for (count,) in missed:
            raise loss(log, 0, count)

    def _lease(self, log: str) -> int:
        while True:
            holders = self._writing.fetch(sql.HOLDER, self._now(), log)
            if not holders:
                self._check_not_lost(log, self._writing.fetch(sql.LOST, log))
                raise RunNotFound(f"there is no {log} in {self.address.shown}")
            number, owner, epoch, left = holders[0]
            if owner and owner != self.owner and left > 0 and not is_gone(owner):
                raise lease_held(log, owner, left)
            lease = self._writing.fetch(sql.TAKE, self._now(), self.seconds, self.owner, number, epoch, owner)
            if lease:  # no other process was quicker
                self._held[log] = (number, lease[0][0])
                return int(lease[0][0])

    def _release(self, log: str, epoch: int) -> None:
        if log in self._held and self._held[log][1] == epoch:
            del self._held[log]
        self._writing.fetch(sql.FREE, log, epoch, self.owner, self._channel)

    def _release_all(self) -> None:
        leases = list(self._held.values())
        self._held.clear()
        self._writing.fetch(sql.FREE_ALL, [at for at, _ in leases], [epoch for _, epoch in leases])

    def _remove(self, find: str, *values: object) -> int:
        async def work(connection: Connection, again: bool) -> int:
            async with connection.transaction():
                ids = [row[0] for row in await connection.fetch(find, *values)]
                for statement in sql.DELETE if ids else ():
                    await connection.execute(statement, ids)
            return len(ids)

        return self._writing.run(work)

    def _shrink(self) -> None:
        """Vacuum the tables, on a connection of its own: it may take long, and leases must be renewed meanwhile."""

        async def work(connection: Connection, again: bool) -> None:
            await connection.execute("VACUUM logs, rows, blobs, inbox", timeout=_VACUUM_SECONDS)

        connection = PostgresConnection(self.address, self._timeout, prepare)
        try:
            connection.run(work)
        finally:
            connection.close()

    def _claim(self, agent: str, limit: int) -> list[Claim]:
        claims = [] if self._lost.are_due(agent) else self._claim_due(sql.CLAIM, agent, limit)
        if len(claims) < limit:  # there is time to look for others
            try:
                claims += self._claim_due(sql.CLAIM_ANY, agent, limit - len(claims), *self._lost_to(agent))
            except StoreError:
                if not claims:  # those must be driven, for their leases are renewed; the next claim fails, too
                    raise
        if any(claim.lost for claim in claims):
            self._lost.found(agent)
        return claims

    def _lost_to(self, agent: str) -> tuple[list[str], list[int]]:
        holders = [owner for (owner,) in self._writing.fetch(sql.HOLDERS, agent)]
        lost = [owner for owner in holders if owner != self.owner and is_gone(owner)]
        return lost, [number for number, _ in self._held.values()]

    def _claim_due(self, statement: str, agent: str, limit: int, *lost: object) -> list[Claim]:
        due = self._writing.fetch(statement, self._now(), self.seconds, self.owner, agent, limit, *lost)
        claims: list[Claim] = []
        for *_, number, log, epoch, was_owned, at in sorted(tuple(row) for row in due):
            self._held[log] = (number, epoch)
            claims.append(Claim(log, epoch, was_owned, at))
        return claims

    def _post(self, log: str, key: str, data: bytes) -> bool:
        async def work(connection: Connection, again: bool) -> bool:
            async with connection.transaction():
                known = await connection.fetchrow(sql.POSTED, log)
                if known is None:
                    raise RunNotFound(f"there is no {log} in this store")
                number, posted, taken = known
                if await connection.fetchval(sql.ADD, number, posted + 1, key, data) is None:
                    return again  # it was added before the connection was lost
                new = InboxItem.following(log, posted, taken, key, data)  # an error takes it back
                await connection.fetch(sql.WAKE, self._now(), new.number, number, self._channel)
            return True

        return self._writing.run(work)

    # -- the methods of Store ------------------------------------------------------------------------------------

    async def create(self, info: LogInfo, rows: Sequence[Row] = (), blobs: Mapping[str, bytes] | None = None) -> int:
        return await self._writer.submit(lambda: self._create(info, rows, blobs or {}), info.log)

    async def lease(self, log: str) -> int:
        return await self._writer.submit(lambda: self._lease(log), log)

    def append(
        self,
        log: str,
        epoch: int,
        rows: Sequence[Row],
        blobs: Mapping[str, bytes] | None = None,
        *,
        release: bool = False,
        due: float | None = None,
        read: int | None = None,
    ) -> "asyncio.Future[None]":
        at, _ = self._held.get(log, (0, 0))  # 0 is the number of no log
        return self._writer.submit(Append(at, epoch, rows, blobs or {}, release, due, read), log)

    def release(self, log: str, epoch: int) -> "asyncio.Future[None]":
        return self._writer.submit(lambda: self._release(log, epoch), log)

    async def find(self, log: str) -> LogInfo | None:
        rows = await self._read(sql.INFO, self._now(), log)
        if not rows:
            self._check_not_lost(log, await self._read(sql.LOST, log))
        return sql.info_of(rows[0]) if rows else None

    async def read(self, log: str, after: int = 0, limit: int | None = None) -> list[Row]:
        return [Row(*row) for row in await self._read(sql.READ, log, after, limit)]

    async def acknowledged(self, log: str) -> LogMark | None:
        rows = await self._read(sql.ACKNOWLEDGED, log)
        return LogMark(rows[0][0]) if rows else None

    async def accept_loss(self, log: str, epoch: int, rows: Sequence[Row]) -> None:
        count = rows[0].number - 1
        await self._writer.submit(lambda: self._writing.fetch(sql.ACCEPT_LOSS, log, epoch, self.owner, count), log)
        await self.append(log, epoch, rows, due=0.0)

    async def blob(self, log: str, digest: str) -> bytes | None:
        rows = await self._read(sql.BLOB, log, digest)
        return bytes(rows[0][0]) if rows else None

    async def logs(self, prefix: str = "", *, limit: int = 100, **filters: Unpack[LogFilters]) -> list[LogInfo]:
        given, after = (filters.get("agent"), filters.get("status"), filters.get("before")), filters.get("asking")
        lines = sql.lines_of(filters.get("labels"))
        statement = sql.LIST if after is None else sql.ASKING
        rows = await self._read(statement, self._now(), *given, lines, limit, *(after or (prefix,)))
        return [sql.info_of(row) for row in rows]

    async def changed(self, log: str, count: int, seconds: float) -> None:
        if not await self._listener.ready():
            await SYSTEM_CLOCK.sleep(min(seconds, _POLL))
            return
        number, marked = self._followed.get(log, (0, 0.0))
        if not self._listener.knows(number) or time.monotonic() - marked > _WATCHED / 3:
            rows = await self._read(sql.WATCH, self._now(), _WATCHED, log)
            if not rows:
                return
            number = rows[0][0]
            self._listener.follow(number, rows[0][1])
            self._followed[log] = (number, time.monotonic())
            while len(self._followed) > 1000:
                self._followed.popitem(last=False)
        await self._listener.wait(number, count, seconds)

    async def quarantine(self, log: str, problem: str) -> None:
        await self._writer.submit(lambda: self._writing.fetch(sql.QUARANTINE, problem, log), log)

    async def delete(self, log: str) -> bool:

        def work() -> int:
            self._held.pop(log, None)
            return self._remove(sql.NAMED, log)

        return await self._writer.submit(work, log) > 0

    async def vacuum(self, before: float, *, prefix: str = "run:", unfinished: bool = False) -> int:
        spared = [] if unfinished else list(UNFINISHED)
        owners = [owner for (owner,) in await self._read(sql.OWNERS, before, prefix) if is_gone(owner)]

        def work() -> int:
            return self._remove(sql.OLD, self._now(), before, prefix, spared, owners)

        removed = 0
        while some := await self._writer.submit(work, prefix):
            removed += some
        await asyncio.to_thread(self._shrink)
        return removed

    async def close(self) -> None:
        try:
            if self._held and not self._writer.closed:
                await self._writer.submit(self._release_all)
        finally:
            await self._writer.finish()
            await self._reader.finish()
            await self.live.close()
            self._listener.close()

    # -- the methods of Queue ------------------------------------------------------------------------------------

    async def post(self, log: str, key: str, data: bytes) -> bool:
        return await self._writer.submit(lambda: self._post(log, key, data), log)

    async def inbox(self, log: str, after: int = 0) -> list[InboxItem]:
        return [InboxItem(*row) for row in await self._read(sql.INBOX, log, after)]

    async def arrived(self) -> dict[str, int]:
        return dict(await self._read(sql.ARRIVED, self.owner)) if self._held else {}

    async def claim(self, agent: str, limit: int = 1) -> list[Claim]:
        return await self._writer.submit(lambda: self._claim(agent, limit), f"due {agent}")

    async def woken(self, after: int, seconds: float) -> int:
        if await self._listener.ready():
            return await self._listener.signalled(after, seconds)
        await SYSTEM_CLOCK.sleep(min(seconds, _POLL))
        return after
