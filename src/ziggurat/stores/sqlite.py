"""The store in a SQLite database: one file, one writer thread, many runs per transaction."""

import asyncio
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar, Unpack

from msgspec import Struct, ValidationError
from msgspec.structs import replace

from ziggurat.core import codec
from ziggurat.core.clock import SYSTEM_CLOCK, Clock
from ziggurat.core.codec import decode
from ziggurat.core.errors import (
    JournalCorrupt,
    LeaseHeld,
    LeaseLost,
    MailboxFull,
    RunExists,
    RunNotFound,
    StoreError,
)
from ziggurat.core.settings import Seconds, checked
from ziggurat.databases.address import StorePath, check_path
from ziggurat.databases.companion import Marks
from ziggurat.databases.files import Disk
from ziggurat.databases.owner import LostLeases, is_gone, lease_held, new_owner, without_lost_lease
from ziggurat.databases.sqlite import SqliteConnection, write_batch
from ziggurat.databases.writer import Job, Writer, reopened_after_fork
from ziggurat.journal.rows import DigestChain, Key
from ziggurat.journal.store import (
    AGING,
    UNFINISHED,
    Claim,
    InboxItem,
    LogFilters,
    LogInfo,
    LogMark,
    Row,
    label_lines,
    labels_text,
    loss,
)
from ziggurat.stores.live import LiveFolder

T = TypeVar("T")

_POLL = 0.1  # the longest wait for work of other processes, in seconds: SQLite sends no signals

_HEADERS = (
    "SELECT log, agent, request, created, status, updated, "
    "(SELECT coalesce(max(number), 0) FROM rows WHERE rows.id = logs.id), "
    "CASE WHEN until > ? THEN owner ELSE '' END, problem, due, priority, asks, labels "
    "FROM logs "
)
"""Selects the columns that `_info_of` reads at a time; a condition follows."""

_ASKING = "INDEXED BY logs_asking WHERE asks AND status IN ('running', 'Suspended') AND (created, log) > (?, ?)"

_NAMED = "WHERE substr(log, 1, ?) = ?"

_OF_ONE = (JournalCorrupt, LeaseHeld, LeaseLost, MailboxFull, RunExists, RunNotFound)
"""Errors of a single job that has written nothing."""

_COLUMNS = " ".join(
    ("SELECT due -", str(AGING), "* priority, due, created, id, log, epoch, owner, until FROM logs INDEXED BY")
)
_LEVEL = (
    "SELECT priority FROM logs INDEXED BY logs_waiting WHERE owner = '' AND due IS NOT NULL AND agent = ? "
    "AND priority < ? ORDER BY priority DESC LIMIT 1"
)
_WAITING = (
    f"{_COLUMNS} logs_waiting WHERE owner = '' AND agent = ? AND priority = ? AND due <= ? "
    "ORDER BY due, created LIMIT ?"
)
_LEASED = f"{_COLUMNS} logs_leased WHERE owner <> '' AND agent = ? AND due <= ?"
_ARRIVED = "SELECT log, posted FROM logs INDEXED BY logs_leased WHERE owner <> '' AND owner = ? AND posted > 0"
_DUE_NOW = (
    "UPDATE logs SET posted = posted + 1, "
    "due = CASE WHEN status = 'Suspended' THEN min(coalesce(due, 9e999), ?) ELSE due END WHERE id = ?"
)


class _Due(Struct, frozen=True, order=True):
    """A log that is due; those that are to be claimed first are the smallest."""

    rank: float
    due: float
    created: float
    id: int
    log: str
    epoch: int
    owner: str
    until: float


_OURS = (
    "SELECT 1 FROM logs WHERE id = ? AND log = ? AND epoch = ? AND owner = ? "
    "AND ? = (SELECT coalesce(max(number), 0) FROM rows WHERE rows.id = logs.id)"
)

_STATE = (
    "UPDATE logs SET status = ?, asks = ?, taken = ?, updated = ?, until = ?, "
    "owner = CASE WHEN ? THEN '' ELSE owner END, "
    "due = CASE WHEN status = ? AND NOT ? THEN due WHEN posted > ? THEN ? ELSE ? END WHERE id = ?"
)


class SqliteStore:
    """Store logs in a SQLite database; several processes may use it at once.

    The file beside the database (``agents.db-ziggurat``) has its lock, and the last acknowledged row of each log.

    Args:
        path: The file; created with its folders if it does not exist.
        synchronous: ``"FULL"`` writes survive a power loss, the faster ``"NORMAL"`` ones only a crash of the process.
        timeout: Seconds to wait while another process writes.
        lease: Seconds after which another process may take over from one that is not known to be gone.
        clock: The clock.
        connect: Opens the database as `sqlite3.connect` does; replace it to use another file system.
        disk: The file-system operations for the file beside the database; the system's by default.
        key: The secret with which the digests of entries are made, or several; see `connect`.
    """

    @reopened_after_fork
    @checked
    def __init__(
        self,
        path: StorePath,
        *,
        synchronous: Literal["FULL", "NORMAL"] = "FULL",
        timeout: Seconds = 5.0,
        lease: Seconds = 30.0,
        clock: Clock = SYSTEM_CLOCK,
        connect: Callable[..., sqlite3.Connection] = sqlite3.connect,
        disk: Disk | None = None,
        key: Key = None,
    ) -> None:
        self.path: Path = check_path(path, self)
        self.seconds = lease
        self.clock = clock
        self.chain: DigestChain = DigestChain(key)
        self.owner: str = new_owner()
        self._held: dict[str, int] = {}
        self._ids: dict[str, int] = {}
        self._states: dict[str, tuple[str, bool, int]] = {}  # of the last row of each held log, as in the table of logs
        self._lost = LostLeases(clock)
        self._touched: dict[str, float] = {}  # times of writes that are not yet in the table of logs
        self._renewed = time.monotonic()
        self._marks = Marks(self.path, disk)
        self.live: LiveFolder = LiveFolder(Path(f"{self.path.resolve()}-live"))
        self._written: dict[str, LogMark] = {}  # the last rows of the transaction under way
        self._database = SqliteConnection(self.path, synchronous, timeout, connect, self._marks.clear)
        self._writer = Writer(
            f"ziggurat {self.path.name}",
            self._together,
            self._renew,
            min(1.0, lease / 4),
            partial(_close_all, self._database, self._marks),  # which does not keep the store alive
        )

    def __repr__(self) -> str:
        return f"SqliteStore({str(self.path)!r})"

    @property
    def closed(self) -> bool:
        """Whether it has been closed."""
        return self._writer.closed

    def _read(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        return self._writer.submit(lambda: self._database.reading(work))

    # -- in the writer thread ------------------------------------------------------------------------------------

    def _together(self, jobs: Sequence[Job[Any]]) -> None:
        self._written.clear()
        failed = write_batch(self._database, jobs, _OF_ONE)
        if isinstance(failed, StoreError):
            self._marks.close()  # perhaps they were deleted or replaced with the database
            for job in jobs:
                self._forget(job.log)  # the run cannot continue here: let the lease expire
        elif failed is not None:
            for job in jobs:
                self._states.pop(job.log, None)
        else:
            for log, mark in self._written.items():
                self._marks.write(log, mark)

    def _renew(self) -> None:
        if not (self._held or self._touched) or time.monotonic() - self._renewed < self.seconds / 4:
            return
        self._renewed = time.monotonic()
        until = self.clock.now() + self.seconds
        leases = [(until, log, epoch) for log, epoch in list(self._held.items())]
        statement = "UPDATE logs SET until = ? WHERE log = ? AND epoch = ?"

        def work() -> None:
            self._note_times()
            self._database.many(statement, leases)

        self._database.transaction(work)

    def _note_times(self) -> None:
        """Store the times of the last writes; updating them with each row would cost more than the row."""
        touched, self._touched = self._touched, {}
        values = [(updated, log) for log, updated in touched.items()]
        self._database.many("UPDATE logs SET updated = max(updated, ?) WHERE log = ?", values)

    def _create(self, info: LogInfo, rows: Sequence[Row], blobs: Mapping[str, bytes] | None) -> int:
        execute, now = self._database.execute, self.clock.now()
        values = (info.log, info.agent, info.request, info.created or now, "running", now, self.owner)
        due = now if info.due == 0 else info.due
        known = execute("SELECT id FROM logs WHERE log = ?", (info.log,)).fetchone()
        if known is not None:
            raise RunExists(f"{info.log} exists already; choose another id")
        self._check_not_lost(info.log)
        cursor = execute(
            "INSERT INTO logs (log, agent, request, created, status, updated, owner, until, labels, due, priority, "
            "epoch, problem) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, '')",
            (*values, now + self.seconds, labels_text(info.labels), due, info.priority),
        )
        self._ids[info.log] = int(cursor.lastrowid or 0)
        self._states[info.log] = ("running", False, 0)
        if rows:
            self._append(info.log, 1, rows, blobs, False, info.due)
        self._held[info.log] = 1
        return 1

    def _header(self, log: str) -> Any:
        """Return the header of a log from the database; the marks show whether a missing one is lost."""
        statement = _HEADERS + "WHERE log = ?"
        values = self.clock.now(), log
        header = self._database.execute(statement, values).fetchone()
        if header is None and self._marks.find(log) is not None:  # another process may have created it since
            header = self._database.execute(statement, values).fetchone()
            if header is None:
                self._check_not_lost(log)
        return header

    def _check_not_lost(self, log: str) -> None:
        mark = self._marks.find(log)
        if mark is not None:
            raise loss(log, 0, mark.number)

    def _lease(self, log: str) -> int:
        execute, now = self._database.execute, self.clock.now()
        holder = execute("SELECT id, owner, until, epoch FROM logs WHERE log = ?", (log,)).fetchone()
        if holder is None:
            raise RunNotFound(f"there is no {log} in {self.path}")
        number, owner, until, epoch = holder
        if owner and owner != self.owner and until > now and not is_gone(owner):
            raise lease_held(log, owner, until - now)
        return self._take(log, number, epoch + 1, now)

    def _append(
        self,
        log: str,
        epoch: int,
        rows: Sequence[Row],
        blobs: Mapping[str, bytes] | None,
        release: bool,
        due: float | None,
        read: int | None = None,
    ) -> None:
        database, now, number = self._database, self.clock.now(), self._ids.get(log, 0)
        state = rows[-1].status, rows[-1].asks, rows[-1].taken
        if database.execute(_OURS, (number, log, epoch, self.owner, rows[0].number - 1)).fetchone() is None:
            if self._held.get(log) == epoch:  # otherwise another run of this process has taken it over
                self._forget(log)
            raise LeaseLost(f"{log}: another process now holds the lease; resume the run to continue it")
        if release or self._states.get(log) != state:
            due = now if due == 0 else due
            database.execute(
                _STATE, (*state, now, now + self.seconds, release, state[0], release, read, now, due, number)
            )
            self._states[log] = state
            self._touched.pop(log, None)
        else:
            self._touched[log] = now
        database.many(
            "INSERT INTO rows (id, number, digest, data, status) VALUES (?, ?, ?, ?, ?)",
            [(number, row.number, row.digest, row.data, row.status) for row in rows],
        )
        if blobs:
            database.many(
                "INSERT OR REPLACE INTO blobs (id, digest, data) VALUES (?, ?, ?)",
                [(number, digest, data) for digest, data in blobs.items()],
            )
        self._written[log] = LogMark.of(rows[-1])
        if release:
            self._forget(log)

    def _release(self, log: str, epoch: int) -> None:
        if self._held.get(log) == epoch:
            self._forget(log)
        statement = "UPDATE logs SET owner = '', updated = max(updated, ?) WHERE log = ? AND epoch = ? AND owner = ?"
        self._database.execute(statement, (self._touched.pop(log, 0.0), log, epoch, self.owner))

    def _remove(self, logs: Sequence[str], ids: Sequence[int]) -> None:
        try:
            self._marks.remove(logs)  # before the commit: a log without a mark is not missed
        except OSError as error:
            raise StoreError(f"{self._marks.path}: {error}") from error
        for statement in ("DELETE FROM rows", "DELETE FROM blobs", "DELETE FROM inbox", "DELETE FROM logs"):
            self._database.many(f"{statement} WHERE id = ?", [(number,) for number in ids])

    def _take(self, log: str, number: int, epoch: int, now: float) -> int:
        self._database.execute(
            "UPDATE logs SET owner = ?, until = ?, epoch = ? WHERE id = ?",
            (self.owner, now + self.seconds, epoch, number),
        )
        self._ids[log] = number
        self._states.pop(log, None)
        self._held[log] = epoch
        return epoch

    def _forget(self, log: str) -> None:
        self._held.pop(log, None)
        self._ids.pop(log, None)
        self._states.pop(log, None)

    def _post(self, log: str, key: str, data: bytes) -> bool:
        execute = self._database.execute
        known = execute("SELECT id, posted, taken FROM logs WHERE log = ?", (log,)).fetchone()
        if known is None:
            raise RunNotFound(f"there is no {log} in this store")
        number, posted, taken = known
        if execute("SELECT 1 FROM inbox WHERE id = ? AND key = ?", (number, key)).fetchone() is not None:
            return False
        new = InboxItem.following(log, posted, taken, key, data)
        execute("INSERT INTO inbox (id, number, key, data) VALUES (?, ?, ?, ?)", (number, new.number, key, data))
        execute(_DUE_NOW, (self.clock.now(), number))
        return True

    def _due(self, agent: str, limit: int, look: bool = True) -> list[_Due]:
        """Return the logs to be claimed next; if there is time to `look`, also those that have lost their holders."""
        now = self.clock.now()
        waiting = self._waiting(agent, limit, now)
        if not look and len(waiting) >= limit:
            return waiting
        lost = [each for each in self._rows(_LEASED, agent, now) if self._is_free(each, now)]
        return sorted((*lost, *waiting))[:limit]

    def _waiting(self, agent: str, limit: int, now: float) -> list[_Due]:
        execute = self._database.execute
        waiting: list[_Due] = []
        level = execute(_LEVEL, (agent, float("inf"))).fetchone()
        while level is not None:  # one look at the index for each priority that there is
            waiting += self._rows(_WAITING, agent, *level, now, limit)
            level = execute(_LEVEL, (agent, *level)).fetchone()
        return sorted(waiting)[:limit]

    def _rows(self, statement: str, *values: Any) -> list[_Due]:
        return [_Due(*row) for row in self._database.execute(statement, values)]

    def _is_free(self, due: _Due, now: float) -> bool:
        return due.log not in self._held and (due.until <= now or (due.owner != self.owner and is_gone(due.owner)))

    def _claim(self, agent: str, limit: int) -> list[Claim]:
        now, due = self.clock.now(), self._due(agent, limit, self._lost.are_due(agent))
        if any(each.owner for each in due):
            self._lost.found(agent)
        return [
            Claim(each.log, self._take(each.log, each.id, each.epoch + 1, now), bool(each.owner), now) for each in due
        ]

    # -- the methods of Store ------------------------------------------------------------------------------------

    async def create(self, info: LogInfo, rows: Sequence[Row] = (), blobs: Mapping[str, bytes] | None = None) -> int:
        return await self._writer.submit(lambda: self._create(info, rows, blobs), info.log)

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
        return self._writer.submit(partial(self._append, log, epoch, rows, blobs, release, due, read), log)

    def release(self, log: str, epoch: int) -> "asyncio.Future[None]":
        return self._writer.submit(lambda: self._release(log, epoch), log)

    async def find(self, log: str) -> LogInfo | None:
        header = await self._read(lambda: self._header(log))
        if header is None:
            return None
        info = _info_of(header)
        return replace(info, updated=max(info.updated, self._touched.get(log, 0.0)))

    async def read(self, log: str, after: int = 0, limit: int | None = None) -> list[Row]:
        statement = (
            "SELECT number, digest, data, rows.status FROM rows JOIN logs ON logs.id = rows.id "
            "WHERE log = ? AND number > ? ORDER BY number LIMIT ?"
        )
        wanted = (log, after, -1 if limit is None else limit)
        rows: list[Row] = []
        for row in await self._read(lambda: self._database.execute(statement, wanted).fetchall()):
            number, digest, data, status = row
            if not isinstance(data, bytes):  # SQLite accepts any type in a column, if the file was edited by hand
                digest, data = "", str(data).encode("utf-8", "replace")
            rows.append(Row(number, digest, data, status))
        return rows

    async def acknowledged(self, log: str) -> LogMark | None:
        return await self._read(lambda: self._marks.find(log))

    async def accept_loss(self, log: str, epoch: int, rows: Sequence[Row]) -> None:
        await self.append(log, epoch, rows, due=0.0)

    async def blob(self, log: str, digest: str) -> bytes | None:
        statement = "SELECT data FROM blobs JOIN logs ON logs.id = blobs.id WHERE log = ? AND digest = ?"
        row = await self._read(lambda: self._database.execute(statement, (log, digest)).fetchone())
        return None if row is None else bytes(row[0])

    async def logs(self, prefix: str = "", *, limit: int = 100, **filters: Unpack[LogFilters]) -> list[LogInfo]:
        given: list[tuple[str, object]] = [("agent = ?", filters.get("agent")), ("status = ?", filters.get("status"))]
        given.append(("updated < ?", filters.get("before")))
        given += [("instr(labels, ?) > 0", f"\n{line}\n") for line in label_lines(filters.get("labels") or {})]
        terms = [(term, value) for term, value in given if value is not None]
        after: tuple[object, ...] | None = filters.get("asking")
        where, order = (_NAMED, "updated DESC, id DESC") if after is None else (_ASKING, "created, log")
        first = (len(prefix), prefix) if after is None else after
        found = (self.clock.now(), *first, *(value for _, value in terms), limit)
        statement = f"{_HEADERS}{where} {' '.join(f'AND {term}' for term, _ in terms)} ORDER BY {order} LIMIT ?"
        if self._touched and after is None:
            await self._writer.submit(self._note_times, prefix or "logs")
        headers = await self._read(lambda: self._database.execute(statement, found).fetchall())
        return [_info_of(each) for each in headers]

    async def quarantine(self, log: str, problem: str) -> None:
        statement = (
            "UPDATE logs SET status = 'Quarantined', problem = ?, owner = '', epoch = epoch + 1, due = NULL "
            "WHERE log = ? AND status <> 'Quarantined'"
        )
        await self._writer.submit(lambda: self._database.execute(statement, (problem, log)).rowcount, log)

    async def delete(self, log: str) -> bool:

        def work() -> bool:
            ids = self._database.execute("SELECT id FROM logs WHERE log = ?", (log,)).fetchall()
            self._remove([log], [number for (number,) in ids])
            self._forget(log)
            self._touched.pop(log, None)
            self.live.clean(log)
            return bool(ids)

        return await self._writer.submit(work, log)

    async def vacuum(self, before: float, *, prefix: str = "run:", unfinished: bool = False) -> int:

        def work() -> int:
            self._note_times()
            logs = self._database.execute(
                "SELECT log, id, status, owner, until < ? FROM logs WHERE updated < ? AND substr(log, 1, ?) = ?",
                (self.clock.now(), before, len(prefix), prefix),
            ).fetchall()
            ended = [each for each in logs if unfinished or each[2] not in UNFINISHED]
            old = [(log, number) for log, number, _, owner, late in ended if late or not owner or is_gone(owner)]
            self._remove([log for log, _ in old], [number for _, number in old])
            return len(old)

        removed = await self._writer.submit(work, prefix)
        await self._writer.submit(self._database.shrink)
        return removed

    async def close(self) -> None:
        try:
            if not self._writer.closed:
                await asyncio.gather(*(self.release(log, epoch) for log, epoch in list(self._held.items())))
        finally:
            await self._writer.finish()

    # -- the methods of Queue ------------------------------------------------------------------------------------

    async def post(self, log: str, key: str, data: bytes) -> bool:
        return await self._writer.submit(lambda: self._post(log, key, data), log)

    async def inbox(self, log: str, after: int = 0) -> list[InboxItem]:
        statement = (
            "SELECT number, key, data FROM inbox JOIN logs ON logs.id = inbox.id WHERE log = ? AND number > ? "
            "ORDER BY number"
        )

        def work() -> list[InboxItem]:
            return [InboxItem(*row) for row in self._database.execute(statement, (log, after))]

        return await self._read(work)

    async def arrived(self) -> dict[str, int]:
        if not self._held:
            return {}
        return dict(await self._read(lambda: self._database.execute(_ARRIVED, (self.owner,)).fetchall()))

    async def claim(self, agent: str, limit: int = 1) -> list[Claim]:
        if not await self._read(lambda: self._due(agent, 1)):
            return []  # without writing
        claims: list[Claim] = []
        try:
            await self._writer.submit(lambda: claims.extend(self._claim(agent, limit)), f"due {agent}")
        except StoreError:
            for claim in claims:
                self._forget(claim.log)
            raise
        return claims

    async def woken(self, after: int, seconds: float) -> int:
        await SYSTEM_CLOCK.sleep(min(seconds, _POLL))
        return 0


def _close_all(database: SqliteConnection, marks: Marks) -> None:
    database.close()
    marks.close()


def _info_of(row: Sequence[Any]) -> LogInfo:
    try:
        fields = dict(zip(LogInfo.__struct_fields__, row, strict=True))
        return without_lost_lease(
            codec.convert({**fields, "asks": bool(fields["asks"]), "labels": decode(fields["labels"], dict)}, LogInfo)
        )
    except (ValidationError, JournalCorrupt, TypeError) as error:
        return LogInfo(str(row[0]), status="Quarantined", problem=f"its description is damaged: {error}")
