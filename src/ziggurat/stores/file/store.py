"""A store that writes each log to a folder of JSON lines, readable by any tool."""

import asyncio
import logging
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from ziggurat.core.chain import DigestChain, Key
from ziggurat.core.clock import SYSTEM_CLOCK, Clock, new_id
from ziggurat.core.errors import JournalError, LeaseLost, RunExists, RunNotFound, StoreError
from ziggurat.core.settings import Seconds, checked
from ziggurat.core.store import UNFINISHED, LogInfo, LogMark, Row
from ziggurat.databases.checks import StorePath, check_path
from ziggurat.databases.disk import Disk
from ziggurat.databases.jobs import one_by_one
from ziggurat.databases.owner import is_gone, lease_held, new_owner
from ziggurat.databases.writer import Writer
from ziggurat.stores.file.folder import prepare_folder
from ziggurat.stores.file.header import LogLease, content_of, describe, header_of, lease_of, queued_in
from ziggurat.stores.file.lock import LogLock, locked
from ziggurat.stores.file.log import appended, file_name, repaired, replaced, rows_in
from ziggurat.stores.file.mark import marked, remember
from ziggurat.stores.file.queue import FileQueue
from ziggurat.stores.live_folder import LiveFolder

T = TypeVar("T")

logger: logging.Logger = logging.getLogger("ziggurat")


class FileStore(FileQueue):
    """Store each log in its own folder: ``log.jsonl``, and beside it its description, the lease and large values.

    The file ``mark`` in the folder has the last acknowledged row.

    Every batch is flushed to the disk; a file is replaced by writing a new one, flushing it, and renaming it.

    Args:
        path: The folder; created if it does not exist.
        timeout: Seconds to wait while another process writes the same log.
        lease: Seconds after which another process may take over the lease of one that has stopped, if it cannot be seen
            that the process is gone.
        clock: The clock.
        disk: The file-system operations; the system's by default.
        key: The key of the digests, or several, the first of which is for new entries; see `DigestChain`. By default
            that of the environment variable ``ZIGGURAT_JOURNAL_KEY``, if it is set.

    Raises:
        ConfigurationError: an argument has the wrong type or range.
    """

    @checked
    def __init__(
        self,
        path: StorePath,
        *,
        timeout: Seconds = 5.0,
        lease: Seconds = 30.0,
        clock: Clock = SYSTEM_CLOCK,
        disk: Disk | None = None,
        key: Key = None,
    ) -> None:
        super().__init__()
        self.path: Path = check_path(path, self)
        self.seconds = lease
        self.clock = clock
        self.chain: DigestChain = DigestChain(key)
        self._disk = disk or Disk()
        self.owner: str = new_owner()
        self.live: LiveFolder = LiveFolder(self.path / "live")
        self._timeout = timeout
        self._held: dict[str, int] = {}
        self._counts: dict[str, tuple[int, int]] = {}
        self._states: dict[str, str] = {}  # the status of each held log whose due time is noted
        self._renewed = 0.0
        self._ready = False
        self._writer = Writer(f"ziggurat {self.path.name}", one_by_one, self._renew, min(1.0, lease / 4), lambda: None)

    def __repr__(self) -> str:
        return f"FileStore({str(self.path)!r})"

    @property
    def closed(self) -> bool:
        """Whether it has been closed."""
        return self._writer.closed

    # -- in the writer thread ------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Create the folder, or check that it is one of ours."""
        if not self._ready:
            prepare_folder(self.path, self._disk)
            self._ready = True

    def _at(self, log: str) -> Path:
        return self.path / "logs" / file_name(log)

    def _folder(self, log: str) -> Path:
        self._prepare()
        at = self._at(log)
        if not at.is_dir():
            raise RunNotFound(f"there is no {log} in {self.path}")
        return at

    def _alone(self, log: str) -> AbstractContextManager[LogLock]:
        return locked(self._folder(log), self.owner, self._timeout, self._disk)

    def _renew(self) -> None:
        if not self._held or time.monotonic() - self._renewed < self.seconds / 4:
            return
        self._renewed = time.monotonic()
        for log, epoch in list(self._held.items()):
            try:  # without waiting, since the leases of other logs are to be renewed too
                with locked(self._folder(log), self.owner, 0, self._disk, most=0) as lock:
                    known = lease_of(lock.folder)
                    if known.epoch == epoch and known.owner == self.owner:
                        self._lease_to(lock, epoch, sync=False)
            except (JournalError, RunNotFound, OSError) as error:
                logger.warning("the lease of %s was not renewed: %s", log, error)

    def _lease_to(self, lock: LogLock, epoch: int, *, owner: str | None = None, sync: bool = True) -> None:
        lease = self._leased(epoch, self.owner if owner is None else owner)
        replaced(self._disk, lock.folder / "lease.json", lease, sync=sync, check=lock.check)

    def _leased(self, epoch: int, owner: str) -> bytes:
        return msgspec.json.encode(LogLease(epoch, owner, self.clock.now() + self.seconds))

    def _create(self, info: LogInfo, rows: Sequence[Row], blobs: Mapping[str, bytes] | None) -> int:
        self._prepare()
        final = self._at(info.log)
        if final.exists():
            raise RunExists(f"{info.log} exists already; choose another id")
        staging = self.path / "logs" / f".new-{new_id()}"
        now = self.clock.now()
        info = replace(info, created=info.created or now, due=now if info.due == 0 else info.due, count=0, owner="")
        try:
            self._disk.make_folder(staging)
            replaced(self._disk, staging / "info.json", msgspec.json.encode(info))
            replaced(self._disk, staging / "lease.json", self._leased(1, self.owner), sync=False)
            self._put(staging, blobs)
            size = self._write(staging / "log.jsonl", rows)
            if rows:
                remember(self._disk, staging, info.log, rows[-1])
            self._disk.sync_folder(staging)
            if info.due is not None and queued_in(final) is None:
                self._enqueue(info)  # before the log is there, so that it is found
            self._disk.rename(staging, final)
        except OSError:
            shutil.rmtree(staging, ignore_errors=True)
            if final.exists():
                raise RunExists(f"{info.log} exists already; choose another id") from None
            raise
        self._disk.sync_folder(final.parent)
        self._held[info.log] = 1
        self._states[info.log] = rows[-1].status if rows else "running"
        self._counts[info.log] = (len(rows), size)
        return 1

    def _write(self, path: Path, rows: Sequence[Row]) -> int:
        """Write the first rows of a log; return the size of the file."""
        at = self._disk.open(path, fresh=False)
        try:
            appended(self._disk, at, rows)
            return os.fstat(at).st_size
        finally:
            self._disk.close(at)

    def _lease(self, log: str) -> int:
        self._refuse_held(log, lease_of(self._folder(log)))  # its holder may be stopped and have the lock
        with self._alone(log) as lock:
            known = lease_of(lock.folder)
            self._refuse_held(log, known)
            return self._take(log, lock, known)

    def _take(self, log: str, lock: LogLock, known: LogLease) -> int:
        """Become the holder of a lease after the one that is known."""
        epoch = max(known.epoch, self._held.get(log, 0)) + 1
        last = marked(lock.folder, log)
        self._forget(log)
        if last is None or last.number <= len(rows_in(lock.folder / "log.jsonl")):
            self._repair(log, lock)  # otherwise it ends before its last acknowledged row: what is left is not touched
        self._lease_to(lock, epoch)
        self._held[log] = epoch
        if (queued := queued_in(lock.folder)) is not None:
            self._states[log] = queued.status  # which its due time is of
        return epoch

    def _repair(self, log: str, lock: LogLock) -> None:
        """Remove a last line that a crash has cut off, and note what the log has."""
        path = lock.folder / "log.jsonl"
        repaired(self._disk, path, lock.check)
        self._counts[log] = (len(rows_in(path)), path.stat().st_size)

    def _refuse_held(self, log: str, known: LogLease) -> None:
        """Refuse a log that another store has the lease of."""
        mine, left = known.owner in ("", self.owner), known.until - self.clock.now()
        if not mine and left > 0 and not is_gone(known.owner):
            raise lease_held(log, known.owner, left)

    def _append(
        self,
        log: str,
        epoch: int,
        rows: Sequence[Row],
        blobs: Mapping[str, bytes] | None,
        release: bool,
        due: float | None,
        read: int | None,
        *,
        accept_loss: bool = False,
    ) -> None:
        with self._alone(log) as lock:
            at = self._disk.open(lock.folder / "log.jsonl", fresh=False)
            try:
                lock.check()  # who takes over from here on appends to another file than this one
                known = lease_of(lock.folder)
                if accept_loss and known.epoch == epoch and known.owner == self.owner:
                    self._repair(log, lock)
                count, size = self._counts.get(log, (-1, -1))
                if known.epoch != epoch or known.owner != self.owner or rows[0].number != count + 1:
                    raise LeaseLost(f"{log}: another process now holds the lease; resume the run to continue it")
                if os.fstat(at).st_size != size:
                    raise LeaseLost(f"{log}: its file was changed by another program; resume the run to continue it")
                self._put(lock.folder, blobs)
                appended(self._disk, at, rows)
                self._counts[log] = (count + len(rows), os.fstat(at).st_size)
            finally:
                self._disk.close(at)
            if release or self._states.get(log) != rows[-1].status:
                self._due_from(log, rows[-1].number, rows[-1].status, due, read)
                self._states[log] = rows[-1].status
            if release:
                self._lease_to(lock, epoch, owner="", sync=False)
        remember(self._disk, self._at(log), log, rows[-1])  # the lock was not taken away: the rows are in the log
        if release:
            self._forget(log)

    def _forget(self, log: str) -> None:
        self._held.pop(log, None)
        self._counts.pop(log, None)
        self._states.pop(log, None)

    def _put(self, at: Path, blobs: Mapping[str, bytes] | None) -> None:
        if blobs and not (at / "blobs").exists():
            self._disk.make_folder(at / "blobs")
            self._disk.sync_folder(at)
        for digest, data in (blobs or {}).items():
            replaced(self._disk, at / "blobs" / digest, data)

    def _release(self, log: str, epoch: int) -> None:
        if self._held.get(log) == epoch:  # otherwise another run of this process has taken it over
            self._forget(log)
        with suppress(LeaseLost, RunNotFound), self._alone(log) as lock:
            known = lease_of(lock.folder)
            if known.epoch == epoch and known.owner == self.owner:
                self._lease_to(lock, epoch, owner="", sync=False)

    def _rows(self, log: str, after: int, limit: int | None) -> list[Row]:
        self._prepare()
        path = self._at(log) / "log.jsonl"
        return rows_in(path)[after : None if limit is None else after + limit] if path.exists() else []

    def _infos(self, prefix: str) -> list[LogInfo]:
        self._prepare()
        start = file_name(prefix)
        folders = [each for each in (self.path / "logs").iterdir() if each.name.startswith(start)]
        infos = [describe(each) for each in folders if not each.name.startswith(".")]
        return sorted((info for info in infos if info is not None), key=lambda info: (-info.updated, info.log))

    def _remove(self, log: str) -> bool:
        self._prepare()
        at, trash = self._at(log), self.path / "logs" / f".gone-{new_id()}"
        if not at.is_dir():
            return False
        self._disk.rename(at, trash)
        self._dequeue(log)
        self._disk.sync_folder(trash.parent)
        shutil.rmtree(trash, ignore_errors=True)
        return True

    def _quarantine(self, log: str, problem: str) -> None:
        with self._alone(log) as lock:
            replaced(self._disk, lock.folder / "problem", problem.encode(), check=lock.check)
            self._lease_to(lock, lease_of(lock.folder).epoch + 1, owner="")
            self._dequeue(log)

    def _vacuum(self, before: float, prefix: str, unfinished: bool) -> int:
        removed, now = 0, self.clock.now()
        for info in self._infos(prefix):
            lease = lease_of(self._at(info.log))
            free = not lease.owner or lease.until < now or is_gone(lease.owner)
            if info.updated < before and free and (unfinished or info.status not in UNFINISHED):
                removed += self._remove(info.log)
        for left in (self.path / "logs").glob(".*-*"):  # left by processes that were killed
            with suppress(FileNotFoundError):
                if left.name.startswith(".gone-") or left.stat().st_mtime < min(before, now - self.seconds):
                    shutil.rmtree(left, ignore_errors=True)
        return removed

    # -- the methods of Store ------------------------------------------------------------------------------------

    def _do(self, log: str, work: Callable[[], T]) -> "asyncio.Future[T]":
        def tried() -> T:
            try:
                return work()
            except (JournalError, RunExists, RunNotFound):
                raise
            except OSError as error:
                self._forget(log)
                raise StoreError(f"{self.path}: {error}") from error

        return self._writer.submit(tried, log)

    async def create(self, info: LogInfo, rows: Sequence[Row] = (), blobs: Mapping[str, bytes] | None = None) -> int:
        """Create a log; see `Store`."""
        return await self._do(info.log, lambda: self._create(info, rows, blobs))

    async def lease(self, log: str) -> int:
        """Become the only writer of a log; see `Store`."""
        return await self._do(log, lambda: self._lease(log))

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
        """Write rows; see `Store`."""
        return self._do(log, lambda: self._append(log, epoch, rows, blobs, release, due, read))

    def release(self, log: str, epoch: int) -> "asyncio.Future[None]":
        """Give a lease back; see `Store`."""
        return self._do(log, lambda: self._release(log, epoch))

    async def find(self, log: str) -> LogInfo | None:
        """Return the description of a log; see `Store`."""
        return await self._do(log, lambda: header_of(self._at(log)))

    async def read(self, log: str, after: int = 0, limit: int | None = None) -> list[Row]:
        """Return rows; see `Store`."""
        return await self._do(log, lambda: self._rows(log, after, limit))

    async def acknowledged(self, log: str) -> LogMark | None:
        """Return the last acknowledged row; see `SupportsLogMarks`."""
        return await self._do(log, lambda: marked(self._at(log), log))

    async def accept_loss(self, log: str, epoch: int, rows: Sequence[Row]) -> None:
        """Append rows in place of lost ones; see `SupportsLogMarks`."""
        await self._do(log, lambda: self._append(log, epoch, rows, None, False, 0.0, None, accept_loss=True))

    async def blob(self, log: str, digest: str) -> bytes | None:
        """Return a large value; see `Store`."""
        path = self._at(log) / "blobs" / file_name(digest)
        return await self._do(log, lambda: content_of(path))

    async def logs(
        self,
        prefix: str = "",
        *,
        agent: str | None = None,
        status: str | None = None,
        before: float | None = None,
        labels: Mapping[str, object] | None = None,
        limit: int = 100,
    ) -> list[LogInfo]:
        """Return the descriptions of logs; see `Store`."""
        infos = await self._do(prefix, lambda: self._infos(prefix))
        return [info for info in infos if info.fits(agent, status, before, labels)][:limit]

    async def quarantine(self, log: str, problem: str) -> None:
        """Quarantine a damaged log; see `Store`."""
        await self._do(log, lambda: self._quarantine(log, problem))

    async def delete(self, log: str) -> bool:
        """Remove a log; see `Store`."""
        return await self._do(log, lambda: self._remove(log))

    async def vacuum(self, before: float, *, prefix: str = "run:", unfinished: bool = False) -> int:
        """Remove old logs; see `Store`."""
        return await self._do(prefix, lambda: self._vacuum(before, prefix, unfinished))

    async def close(self) -> None:
        """Release the leases and end the thread; see `Store`."""
        try:
            await asyncio.gather(*(self.release(log, epoch) for log, epoch in list(self._held.items())))
        finally:
            await self._writer.finish()
