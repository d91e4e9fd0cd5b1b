"""A store that writes each log to a file of JSON lines, readable by any tool."""

import asyncio
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar, Unpack

import msgspec
from msgspec.structs import replace

from ziggurat.core import codec, errors
from ziggurat.core.clock import SYSTEM_CLOCK, Clock, new_id
from ziggurat.core.settings import Seconds, checked
from ziggurat.databases.address import StorePath, check_path
from ziggurat.databases.companion import SUPPORTED, lock_now
from ziggurat.databases.files import Disk, read_private
from ziggurat.databases.owner import lease_held, new_owner
from ziggurat.databases.writer import Writer, one_by_one, reopened_after_fork
from ziggurat.journal.rows import DigestChain, Key
from ziggurat.journal.store import UNFINISHED, InboxItem, LogFilters, LogInfo, Row
from ziggurat.stores.file_log import (
    UNREADABLE,
    KnownInbox,
    LogLine,
    append_lines,
    content_of,
    described,
    file_name,
    repair,
    rows_of,
    state_of,
)

T = TypeVar("T")

_FORMAT = 1
_PAUSE = 0.002
_INBOXES = 100  # the largest number of logs of whose inboxes a store remembers what it has read
_STALE = 60.0  # seconds after which a log that is still being created was left by a process that was killed


class _Format(msgspec.Struct):
    format: int


class _Held(msgspec.Struct):
    """A log that this store has the lease of: the lock of its open file."""

    epoch: int
    at: int
    count: int
    size: int


class FileStore:
    """Store each log in its own folder: ``log.jsonl``, ``inbox.jsonl`` with what others post to it, and large values.

    Lines are appended and flushed to the disk. A process that writes a log has its file locked until it is done, so the
    lease ends with the process, and not before: a process that is stopped keeps it. The store has no queue: workers,
    `submit` and schedules need another one, such as ``sqlite:///``.

    Args:
        path: The folder; created if it does not exist.
        timeout: Seconds to wait while another process posts to the same log.
        clock: The clock.
        disk: The file-system operations; the system's by default.
        key: The secret with which the digests of entries are made, or several; see `connect`.
    """

    @reopened_after_fork
    @checked
    def __init__(
        self,
        path: StorePath,
        *,
        timeout: Seconds = 5.0,
        clock: Clock = SYSTEM_CLOCK,
        disk: Disk | None = None,
        key: Key = None,
    ) -> None:
        self.path: Path = check_path(path, self)
        self.clock = clock
        self.chain: DigestChain = DigestChain(key)
        self.owner: str = new_owner()
        self._timeout = timeout
        self._disk = disk = disk or Disk()
        self._held = held = dict[str, _Held]()
        self._inboxes: dict[str, KnownInbox] = {}
        self._ready = False

        def ended() -> None:  # without the store, which it would keep alive
            for each in held.values():
                disk.close(each.at)
            held.clear()

        self._writer = Writer(f"ziggurat {self.path.name}", one_by_one, lambda: None, 1.0, ended)

    def __repr__(self) -> str:
        return f"FileStore({str(self.path)!r})"

    @property
    def closed(self) -> bool:
        """Whether it has been closed."""
        return self._writer.closed

    # -- in the writer thread ------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        if self._ready:
            return
        if not SUPPORTED:
            raise errors.ConfigurationError("a store of files needs the file locks of POSIX; use sqlite:/// here")
        marker = self.path / "format.json"
        if not os.path.lexists(marker):
            if self.path.is_file():
                raise errors.StoreError(f"{self.path} is a file, and this store needs a folder; choose another place")
            self._disk.make_parents(self.path)
            self._disk.make_folders((self.path / "logs").absolute())
            self._replace(marker, msgspec.json.encode(_Format(_FORMAT)))  # as any other process writes it
        try:
            known = codec.decoder(_Format).decode(read_private(marker)).format
        except UNREADABLE as error:
            raise errors.StoreError(f"{marker} cannot be read: {error}") from error
        if known > _FORMAT:
            raise errors.StoreError(f"{self.path} was written by a newer version (format {known}); upgrade to open it")
        self._ready = True

    def _replace(self, path: Path, data: bytes) -> None:
        """Replace a small file so that after a crash it has the old or the new content."""
        new = path.with_name(f"{path.name}.{new_id()}.new")  # no other process may write to it
        try:
            with self._opened(new) as at:
                rest = memoryview(data)
                while rest:
                    rest = rest[self._disk.write(at, rest) :]
                self._disk.sync(at)
            self._disk.rename(new, path)
        except BaseException:
            with suppress(OSError):
                new.unlink(missing_ok=True)
            raise
        self._disk.sync_folder(path.parent)

    @contextmanager
    def _opened(self, path: Path) -> Iterator[int]:
        at = self._disk.open(path)
        try:
            yield at
        finally:
            self._disk.close(at)

    def _at(self, log: str) -> Path:
        return self.path / "logs" / file_name(log)

    def _folder(self, log: str) -> Path:
        self._prepare()
        at = self._at(log)
        if not at.is_dir():
            raise errors.RunNotFound(f"there is no {log} in {self.path}")
        return at

    def _create(self, info: LogInfo, rows: Sequence[Row], blobs: Mapping[str, bytes] | None) -> int:
        self._prepare()
        final = self._at(info.log)
        if final.exists():
            raise errors.RunExists(f"{info.log} exists already; choose another id")
        staging = self.path / "logs" / f".new-{new_id()}"
        info = replace(info, created=info.created or self.clock.now(), due=None, count=0, owner="")
        at = -1
        try:
            self._disk.make_folder(staging)
            self._put(staging, blobs)
            at = self._disk.open(staging / "log.jsonl")
            lock_now(at)  # before anybody can find it
            append_lines(self._disk, at, [LogLine(info), LogLine(epoch=1, owner=self.owner), *map(LogLine.of, rows)])
            size = os.fstat(at).st_size
            self._disk.sync_folder(staging)
            self._disk.rename(staging, final)
            self._disk.sync_folder(final.parent)
        except OSError:
            if at >= 0:
                self._disk.close(at)
            exists = staging.exists() and final.exists()
            shutil.rmtree(staging, ignore_errors=True)
            if exists:  # another process was quicker
                raise errors.RunExists(f"{info.log} exists already; choose another id") from None
            raise
        self._held[info.log] = _Held(1, at, len(rows), size)
        return 1

    def _lease(self, log: str) -> int:
        held = self._held.pop(log, None) or self._lock(log)
        held.epoch += 1
        try:
            append_lines(self._disk, held.at, [LogLine(epoch=held.epoch, owner=self.owner)])
            held.size = os.fstat(held.at).st_size
        except BaseException:
            self._disk.close(held.at)
            raise
        self._held[log] = held
        return held.epoch

    def _lock(self, log: str) -> _Held:
        """Open and lock the file of a log, and remove a last line that a crash has cut off."""
        folder = self._folder(log)
        state = state_of(folder)
        path = folder / "log.jsonl"
        at = self._disk.open(path)
        try:
            if not lock_now(at):
                raise lease_held(log, "" if state is None else state[0].owner)
            state = state_of(folder)
            if state is None or not Disk.is_at(at, path):
                raise errors.RunNotFound(f"there is no {log} in {self.path}")
            size = repair(self._disk, at, path)
            # A last line that cannot be read says no number, and counts as a row.
            info, epoch = state
            return _Held(epoch, at, info.count or len(rows_of(path, 0)), size)
        except BaseException:
            self._disk.close(at)
            raise

    def _append(
        self, log: str, epoch: int, rows: Sequence[Row], blobs: Mapping[str, bytes] | None, release: bool
    ) -> None:
        held, folder = self._held.get(log), self._at(log)
        if held is None or held.epoch != epoch or rows[0].number != held.count + 1:
            raise errors.LeaseLost(f"{log}: another process now holds the lease; resume the run to continue it")
        if os.fstat(held.at).st_size != held.size or not Disk.is_at(held.at, folder / "log.jsonl"):
            self._forget(log)
            raise errors.LeaseLost(f"{log}: its file was changed by another program; resume the run to continue it")
        self._put(folder, blobs)
        lines = [LogLine.of(row) for row in rows]
        append_lines(self._disk, held.at, [*lines, LogLine(epoch=epoch)] if release else lines)
        held.count, held.size = held.count + len(rows), os.fstat(held.at).st_size
        if release:
            self._forget(log)

    def _forget(self, log: str) -> None:
        held = self._held.pop(log, None)
        if held is not None:
            self._disk.close(held.at)

    def _put(self, at: Path, blobs: Mapping[str, bytes] | None) -> None:
        if blobs and not (at / "blobs").exists():
            self._disk.make_folder(at / "blobs")
            self._disk.sync_folder(at)
        for digest, data in (blobs or {}).items():
            self._replace(at / "blobs" / digest, data)

    def _release(self, log: str, epoch: int) -> None:
        held = self._held.get(log)
        if held is not None and held.epoch == epoch:  # otherwise another run of this process has taken it over
            try:
                append_lines(self._disk, held.at, [LogLine(epoch=epoch)])
            finally:
                self._forget(log)

    def _rows(self, log: str, after: int, limit: int | None) -> list[Row]:
        self._prepare()
        return rows_of(self._at(log) / "log.jsonl", after)[:limit]

    def _infos(self, prefix: str) -> list[LogInfo]:
        self._prepare()
        start = file_name(prefix)
        folders = [each for each in (self.path / "logs").iterdir() if each.name.startswith(start)]
        infos = [described(each) for each in folders if not each.name.startswith(".")]
        return sorted((info for info in infos if info is not None), key=lambda info: (-info.updated, info.log))

    def _remove(self, log: str) -> bool:
        self._prepare()
        at, trash = self._at(log), self.path / "logs" / f".gone-{new_id()}"
        if not at.is_dir():
            return False
        self._disk.rename(at, trash)
        self._disk.sync_folder(trash.parent)
        shutil.rmtree(trash, ignore_errors=True)
        self._forget(log)
        self._inboxes.pop(log, None)
        return True

    def _quarantine(self, log: str, problem: str) -> None:
        path = self._folder(log) / "log.jsonl"
        self._forget(log)
        with self._opened(path) as at:
            if lock_now(at):  # its holder writes whole lines, and notices that there is one more
                repair(self._disk, at, path)
            append_lines(self._disk, at, [LogLine(problem=problem)])

    def _vacuum(self, before: float, prefix: str, unfinished: bool) -> int:
        removed = 0
        for info in self._infos(prefix):
            if info.updated < before and (unfinished or info.status not in UNFINISHED) and info.log not in self._held:
                with suppress(FileNotFoundError), self._opened(self._at(info.log) / "log.jsonl") as at:
                    removed += lock_now(at) and self._remove(info.log)
        for left in (self.path / "logs").glob(".*-*"):  # left by processes that were killed
            with suppress(FileNotFoundError):
                if left.name.startswith(".gone-") or left.stat().st_mtime < min(before, self.clock.now() - _STALE):
                    shutil.rmtree(left, ignore_errors=True)
        return removed

    def _inbox(self, log: str) -> KnownInbox:
        if log not in self._inboxes:
            if len(self._inboxes) >= _INBOXES:
                del self._inboxes[next(iter(self._inboxes))]
            self._inboxes[log] = KnownInbox(self._at(log) / "inbox.jsonl")
        return self._inboxes[log]

    def _arrived(self) -> dict[str, int]:
        inboxes = {log: self._inbox(log) for log in self._held}
        for inbox in inboxes.values():
            inbox.read()
        return {log: inbox.count for log, inbox in inboxes.items() if inbox.count}

    def _post(self, log: str, key: str, data: bytes) -> bool:
        folder = self._folder(log)
        path = folder / "inbox.jsonl"
        with self._opened(path) as at:
            until = time.monotonic() + self._timeout
            while not lock_now(at):
                if time.monotonic() > until:
                    raise errors.StoreError(
                        f"{path} has been locked by another process for {self._timeout:g} s; end it"
                    )
                time.sleep(_PAUSE)
            known = self._inbox(log)
            known.read()
            if os.fstat(at).st_size > known.places[-1]:  # a line that a crash has cut off
                self._disk.truncate(at, known.places[-1])
                self._disk.sync(at)
            if key in known.keys:
                return False
            append_lines(self._disk, at, [InboxItem.following(log, known.count, known.taken, key, data)])
        self._disk.sync_folder(folder)
        return True

    # -- the methods of Store ------------------------------------------------------------------------------------

    def _do(self, log: str, work: Callable[[], T]) -> "asyncio.Future[T]":
        def tried() -> T:
            try:
                return work()
            except (errors.JournalError, errors.RunExists, errors.RunNotFound):
                raise
            except OSError as error:
                self._forget(log)
                raise errors.StoreError(f"{self.path}: {error}") from error

        return self._writer.submit(tried, log)

    async def create(self, info: LogInfo, rows: Sequence[Row] = (), blobs: Mapping[str, bytes] | None = None) -> int:
        return await self._do(info.log, lambda: self._create(info, rows, blobs))

    async def lease(self, log: str) -> int:
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
        return self._do(log, lambda: self._append(log, epoch, rows, blobs, release))

    def release(self, log: str, epoch: int) -> "asyncio.Future[None]":
        return self._do(log, lambda: self._release(log, epoch))

    async def post(self, log: str, key: str, data: bytes) -> bool:
        return await self._do(log, lambda: self._post(log, key, data))

    async def inbox(self, log: str, after: int = 0) -> list[InboxItem]:
        return await self._do(log, lambda: self._inbox(log).read(after))

    async def arrived(self) -> dict[str, int]:
        return await self._do("", self._arrived) if self._held else {}

    async def find(self, log: str) -> LogInfo | None:
        state = await self._do(log, lambda: state_of(self._at(log)))
        return None if state is None else state[0]

    async def read(self, log: str, after: int = 0, limit: int | None = None) -> list[Row]:
        return await self._do(log, lambda: self._rows(log, after, limit))

    async def blob(self, log: str, digest: str) -> bytes | None:
        return await self._do(log, lambda: content_of(self._at(log) / "blobs" / file_name(digest)))

    async def logs(self, prefix: str = "", *, limit: int = 100, **filters: Unpack[LogFilters]) -> list[LogInfo]:
        return LogInfo.chosen(await self._do(prefix, lambda: self._infos(prefix)), limit, **filters)

    async def quarantine(self, log: str, problem: str) -> None:
        await self._do(log, lambda: self._quarantine(log, problem))

    async def delete(self, log: str) -> bool:
        return await self._do(log, lambda: self._remove(log))

    async def vacuum(self, before: float, *, prefix: str = "run:", unfinished: bool = False) -> int:
        return await self._do(prefix, lambda: self._vacuum(before, prefix, unfinished))

    async def close(self) -> None:
        try:
            if not self._writer.closed:
                await asyncio.gather(*(self.release(log, held.epoch) for log, held in list(self._held.items())))
        finally:
            await self._writer.finish()
