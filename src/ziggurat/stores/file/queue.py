"""The queue of a store of files: a folder with a small file for each run that may be due, and an inbox in each log.

A file of the queue may be out of date after a crash, or missing after a power failure: what it says is compared with
the log before a claim, and the first claim of a process looks at all logs once.
"""

import asyncio
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from ziggurat.core.clock import SYSTEM_CLOCK, Clock
from ziggurat.core.errors import JournalCorrupt, JournalError, RunNotFound, StoreError
from ziggurat.core.queue import Claim, InboxItem
from ziggurat.core.store import LogInfo
from ziggurat.databases.disk import Disk
from ziggurat.databases.files import read_private
from ziggurat.databases.owner import is_gone
from ziggurat.stores.file.header import LogLease, content_of, described_in, header_of, lease_of, queued_in
from ziggurat.stores.file.lock import LogLock, locked
from ziggurat.stores.file.log import UNREADABLE, file_name, last_line, replaced
from ziggurat.stores.pending import ListsPending

T = TypeVar("T")

_POLL = 0.1
"""The longest wait for work of other processes, in seconds: files send no signals."""

_GO_ON = ("running", "Suspended")
"""The states of runs that may be due although the queue does not know of their last row."""


class _Due(Struct, frozen=True, order=True):
    """A run that is due; those that are to be claimed first are the smallest."""

    below: int
    due: float
    created: float
    log: str


class _Created(Struct, frozen=True):
    """What the description of a log says of the time from which it was due; nothing if it is of an earlier version."""

    due: float | UnsetType | None = UNSET


class FileQueue(ListsPending):
    """The methods of `Queue`, and the folder of the queue."""

    path: Path
    seconds: float
    clock: Clock
    owner: str
    _disk: Disk
    _timeout: float
    _held: dict[str, int]

    def __init__(self) -> None:
        self._seen: dict[str, tuple[tuple[int, int], LogInfo | None]] = {}
        self._surveyed = False

    # -- for the other methods, in the writer thread ---------------------------------------------------------------

    def _enqueue(self, info: LogInfo, *, sync: bool = False) -> None:
        """Note from when a log is due: `info.due`, as of its row `info.count`."""
        folder = self.path / "queue"
        if not folder.is_dir():
            self._disk.make_folders(folder.absolute())
        replaced(self._disk, folder / file_name(info.log), msgspec.json.encode(info), sync=sync)

    def _dequeue(self, log: str) -> None:
        (self.path / "queue" / file_name(log)).unlink(missing_ok=True)

    def _due_from(self, log: str, count: int, status: str, due: float | None, read: int | None) -> None:
        """Note from when a log is due, whose state has changed with its last row or whose lease is released."""
        at, now = self._at(log), self.clock.now()
        if due == 0 or (read is not None and len(_items(at)) > read):
            due = now
        if due is None:
            self._dequeue(log)
        else:
            self._enqueue(replace(described_in(at), due=due, count=count, status=status), sync=due > now)

    # -- in the writer thread --------------------------------------------------------------------------------------

    def _at(self, log: str) -> Path:
        raise NotImplementedError

    def _prepare(self) -> None:
        raise NotImplementedError

    def _alone(self, log: str) -> AbstractContextManager[LogLock]:
        raise NotImplementedError

    def _take(self, log: str, lock: LogLock, known: LogLease) -> int:
        raise NotImplementedError

    def _do(self, log: str, work: Callable[[], T]) -> "asyncio.Future[T]":
        raise NotImplementedError

    def _post(self, log: str, key: str, data: bytes) -> bool:
        with self._alone(log) as lock:
            names = _items(lock.folder)
            if any(_item(lock.folder, name).key == key for name in names):
                return False
            inbox, number = lock.folder / "inbox", len(names) + 1
            if not inbox.exists():
                self._disk.make_folder(inbox)
                self._disk.sync_folder(lock.folder)
            item = msgspec.json.encode(InboxItem(number, key, data))
            replaced(self._disk, inbox / f"{number:08}", item, check=lock.check)
            last, now = last_line(lock.folder / "log.jsonl"), self.clock.now()
            if last is not None and last.status == "Suspended":
                queued = queued_in(lock.folder)
                if queued is None or queued.due is None or queued.due > now:
                    info = replace(described_in(lock.folder), due=now, count=last.number, status=last.status)
                    self._enqueue(info, sync=True)
        return True

    def _inbox(self, log: str, after: int) -> list[InboxItem]:
        at = self._at(log)
        return [_item(at, name) for name in _items(at)[after:]]

    def _waiting(self) -> list[LogInfo]:
        """Return what the queue has; files that have not changed are not read again."""
        seen, self._seen = self._seen, {}
        try:
            with os.scandir(self.path / "queue") as entries:
                files = [file for file in entries if "." not in file.name]
        except FileNotFoundError:
            return []
        for file in files:
            try:
                status = file.stat()
                version = (status.st_mtime_ns, status.st_ino)
                known = seen.get(file.name)
                if known is None or known[0] != version:
                    known = (version, msgspec.json.decode(read_private(Path(file.path)), type=LogInfo))
            except FileNotFoundError:
                continue
            except UNREADABLE:  # a power failure has left it so
                known = (version, None)
            self._seen[file.name] = known
        return [info for _, info in self._seen.values() if info is not None]

    def _survey(self) -> None:
        """Queue the runs that the queue has lost in a power failure, or that an earlier version has left."""
        if self._surveyed:
            return
        self._surveyed = True
        known = {file_name(info.log) for info in self._waiting()}
        for at in (self.path / "logs").glob(f"{file_name('run:')}*"):
            if at.name in known:
                continue
            try:
                info = header_of(at)
            except (JournalCorrupt, StoreError):  # it is for who reads the run
                continue
            if info is None or info.status != "running":
                continue
            due = msgspec.json.decode(read_private(at / "info.json"), type=_Created).due
            if due is not None:
                self._enqueue(replace(info, due=info.created if due is UNSET else due))

    def _is_free(self, log: str, lease: LogLease) -> bool:
        if not lease.owner:
            return True
        lapsed = lease.until <= self.clock.now()
        return log not in self._held and (lapsed or (lease.owner != self.owner and is_gone(lease.owner)))

    def _claim(self, agent: str, limit: int) -> list[Claim]:
        self._prepare()
        self._survey()
        now = self.clock.now()
        due = sorted(
            _Due(-info.priority, info.due, info.created, info.log)
            for info in self._waiting()
            if info.agent == agent and info.due is not None and info.due <= now
        )
        claims: list[Claim] = []
        for each in due:
            if len(claims) == limit:
                break
            claim = self._claim_one(each.log)
            if claim is not None:
                claims.append(claim)
        return claims

    def _claim_one(self, log: str) -> Claim | None:
        """Lease a log, if it is still due and free."""
        at = self._at(log)
        if not at.is_dir():  # it is being created, or was deleted
            return None
        known = lease_of(at)
        if not self._is_free(log, known):
            return None
        patience = self._timeout if known.owner else 0  # a lost holder may have been stopped while it had the lock
        try:
            with locked(at, self.owner, patience, self._disk, most=1 if known.owner else 0) as lock:
                known, queued, info = lease_of(at), queued_in(at), header_of(at)
                if queued is None or info is None or not self._is_free(log, known):
                    return None
                if info.problem or (info.status not in _GO_ON and queued.count != info.count):
                    self._dequeue(log)
                    return None
                if queued.due is None or queued.due > self.clock.now():
                    return None
                return Claim(log, self._take(log, lock, known), bool(known.owner))
        except (JournalError, RunNotFound):  # another process is quicker, or its record is damaged
            return None

    # -- the methods of Queue --------------------------------------------------------------------------------------

    async def post(self, log: str, key: str, data: bytes) -> bool:
        """Add an item to the inbox of a log; see `Queue`."""
        return await self._do(log, lambda: self._post(log, key, data))

    async def inbox(self, log: str, after: int = 0) -> list[InboxItem]:
        """Return the items of a log; see `Queue`."""
        return await self._do(log, lambda: self._inbox(log, after))

    async def arrived(self) -> dict[str, int]:
        """Return the last items of the logs that this store writes; see `Queue`."""

        def work() -> dict[str, int]:
            counts = {log: len(_items(self._at(log))) for log in list(self._held)}
            return {log: count for log, count in counts.items() if count}

        return await self._do("", work) if self._held else {}

    async def claim(self, agent: str, limit: int = 1) -> list[Claim]:
        """Lease logs that are due; see `Queue`."""
        return await self._do(f"due {agent}", lambda: self._claim(agent, limit))

    async def woken(self, after: int, seconds: float) -> int:
        """Wait a moment; see `Queue`."""
        await SYSTEM_CLOCK.sleep(min(seconds, _POLL))
        return 0


def _items(at: Path) -> list[str]:
    """Return the names of the items in the inbox of a log, in order."""
    try:
        return sorted(name for name in os.listdir(at / "inbox") if "." not in name)
    except FileNotFoundError:
        return []


def _item(at: Path, name: str) -> InboxItem:
    path = at / "inbox" / name
    try:
        return msgspec.json.decode(content_of(path) or b"", type=InboxItem)
    except UNREADABLE as error:
        raise StoreError(f"{path} cannot be read: {error}") from error
