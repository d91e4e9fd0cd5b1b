"""The queue of a SQLite store, found by index and claimed in one transaction; and its rows, damaged ones too."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from msgspec import Struct, ValidationError, convert

from ziggurat.core.clock import SYSTEM_CLOCK, Clock
from ziggurat.core.errors import (
    JournalCorrupt,
    LeaseHeld,
    LeaseLost,
    MailboxFull,
    RunExists,
    RunNotFound,
    StoreError,
)
from ziggurat.databases.owner import LostLeases, is_gone, without_lost_lease
from ziggurat.databases.sqlite import SqliteConnection
from ziggurat.databases.writer import Writer
from ziggurat.journal.store import AGING, Claim, InboxItem, LogInfo, Row, labels_in
from ziggurat.stores.pending import ListsPending

HEADERS = (
    "SELECT log, agent, request, created, status, updated, "
    "(SELECT coalesce(max(number), 0) FROM rows WHERE rows.id = logs.id), "
    "CASE WHEN until > ? THEN owner ELSE '' END, problem, due, priority, asks, labels "
    "FROM logs "
)
"""Selects the columns that `info_of` reads at a time; a condition follows."""


def info_of(row: Sequence[Any]) -> LogInfo:
    """Return the description of a log; one that is damaged is described as such, so that it hides no other."""
    try:
        fields = dict(zip(LogInfo.__struct_fields__, row, strict=True))
        return without_lost_lease(
            convert({**fields, "asks": bool(fields["asks"]), "labels": labels_in(fields["labels"])}, LogInfo)
        )
    except (ValidationError, JournalCorrupt, TypeError) as error:
        return LogInfo(str(row[0]), status="Quarantined", problem=f"its description is damaged: {error}")


def read_rows(database: SqliteConnection, log: str, after: int, limit: int | None) -> list[Row]:
    """Return the rows of a log after a number, at most `limit` of them."""
    cells = database.execute(
        "SELECT number, digest, data, rows.status FROM rows JOIN logs ON logs.id = rows.id "
        "WHERE log = ? AND number > ? ORDER BY number LIMIT ?",
        (log, after, -1 if limit is None else limit),
    )
    rows: list[Row] = []
    for number, digest, data, status in cells:
        if not isinstance(data, bytes):  # SQLite accepts any type in a column, if the file was edited by hand
            digest, data = "", str(data).encode("utf-8", "replace")
        rows.append(Row(number, digest, data, status))
    return rows


T = TypeVar("T")

OF_ONE = (JournalCorrupt, LeaseHeld, LeaseLost, MailboxFull, RunExists, RunNotFound)
"""Errors of a single job that has written nothing."""

_POLL = 0.1
"""The longest wait for work of other processes, in seconds: SQLite sends no signals."""

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


class SqliteQueue(ListsPending):
    """The methods of `Queue`, and access to the database for all methods."""

    seconds: float
    clock: Clock
    owner: str
    _database: SqliteConnection
    _writer: Writer
    _held: dict[str, int]
    _ids: dict[str, int]
    _states: dict[str, tuple[str, bool, int]]
    _lost: LostLeases
    _busy: set[str]

    def _write(self, log: str, work: Callable[[], T]) -> "asyncio.Future[T]":
        return self._writer.submit(work, log)

    def _read(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        return self._writer.submit(lambda: self._database.reading(work))

    # -- in the writer thread ------------------------------------------------------------------------------------

    def _take(self, log: str, number: int, epoch: int, now: float) -> int:
        """Become the holder of a lease."""
        self._database.execute(
            "UPDATE logs SET owner = ?, until = ?, epoch = ? WHERE id = ?",
            (self.owner, now + self.seconds, epoch, number),
        )
        self._ids[log] = number
        self._states.pop(log, None)
        self._held[log] = epoch
        return epoch

    def _forget(self, log: str) -> None:
        """Note that this store holds a lease no longer."""
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
        """Return whether the holder of a lease has lost it."""
        return due.log not in self._held and (due.until <= now or (due.owner != self.owner and is_gone(due.owner)))

    def _claim(self, agent: str, limit: int) -> list[Claim]:
        now, due = self.clock.now(), self._due(agent, limit, self._lost.are_due(agent))
        if any(each.owner for each in due):
            self._lost.found(agent)
        return [
            Claim(each.log, self._take(each.log, each.id, each.epoch + 1, now), bool(each.owner), now) for each in due
        ]

    # -- the methods of Queue ------------------------------------------------------------------------------------

    async def post(self, log: str, key: str, data: bytes) -> bool:
        return await self._write(log, lambda: self._post(log, key, data))

    async def inbox(self, log: str, after: int = 0) -> list[InboxItem]:
        statement = (
            "SELECT number, key, data FROM inbox JOIN logs ON logs.id = inbox.id WHERE log = ? AND number > ? "
            "ORDER BY number"
        )
        rows = await self._read(lambda: self._database.execute(statement, (log, after)).fetchall())
        return [InboxItem(*row) for row in rows]

    async def arrived(self) -> dict[str, int]:
        if not self._held:
            return {}
        return dict(await self._read(lambda: self._database.execute(_ARRIVED, (self.owner,)).fetchall()))

    async def claim(self, agent: str, limit: int = 1) -> list[Claim]:
        if agent not in self._busy and not await self._read(lambda: self._due(agent, 1)):
            return []  # without writing
        claims: list[Claim] = []
        try:
            await self._write(f"due {agent}", lambda: claims.extend(self._claim(agent, limit)))
        except StoreError:
            for claim in claims:
                self._forget(claim.log)
            raise
        (self._busy.add if claims else self._busy.discard)(agent)
        return claims

    async def woken(self, after: int, seconds: float) -> int:
        await SYSTEM_CLOCK.sleep(min(seconds, _POLL))
        return 0
