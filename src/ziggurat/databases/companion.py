"""The file beside a database: the lock that excludes other processes, then the marks of what was acknowledged."""

import contextlib
import os
import time
from collections.abc import Iterable
from hashlib import blake2b
from itertools import chain
from pathlib import Path

from ziggurat.core.errors import StoreError
from ziggurat.core.log import logger
from ziggurat.databases.files import Disk, open_private
from ziggurat.databases.owner import describe_owner
from ziggurat.journal.store import LogMark

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

SUPPORTED = fcntl is not None  # whether this system has locks of files

_COMPANION = "-ziggurat"  # of the file beside a database: who has its lock, then the marks of its logs

_SIGNATURE = 512  # the bytes at the beginning of a lock file that say who has the lock

_UNSIGNED = b"-"


def companion_of(database: Path) -> Path:
    return Path(f"{os.path.realpath(database)}{_COMPANION}")


def lock_now(at: int) -> bool:
    """Lock an open file if no other process has it locked, without waiting; return whether it was locked."""
    try:
        fcntl.flock(at, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class LockFile:
    """A file of a store that one process at a time has locked; the lock ends with the process."""

    def __init__(self, path: Path, owner: str) -> None:
        self.path = path
        self._owner = owner
        self._at = open_private(path, os.O_RDWR | os.O_CREAT)
        self._signed = False

    def take(self) -> bool:
        return lock_now(self._at)

    def sign(self) -> None:
        """Note who has the lock, and since when, for the error of a process that waits for it."""
        note = f"{self._owner}\n{time.time():.3f}\n".encode()[:_SIGNATURE].ljust(_SIGNATURE)
        with contextlib.suppress(OSError):  # on a full disk the lock is as good without it
            os.pwrite(self._at, note, 0)
            self._signed = True

    def unsign(self) -> None:
        if self._signed:
            self._signed = False
            with contextlib.suppress(OSError):
                os.pwrite(self._at, _UNSIGNED, 0)

    def give_back(self) -> None:
        self.unsign()
        fcntl.flock(self._at, fcntl.LOCK_UN)

    def refusal(self, waited: float) -> StoreError:
        owner, _, rest = os.pread(self._at, _SIGNATURE, 0).decode("utf-8", "replace").partition("\n")
        what = str(self.path).removesuffix(_COMPANION)
        try:
            since = float(rest.strip())
        except ValueError:  # another program has it, or a process that was stopped before it had signed
            return StoreError(
                f"{what}: another process has kept it locked for {waited:g} s; end it, or continue it if it is stopped"
            )
        who, cure = describe_owner(owner)
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(since))
        return StoreError(
            f"{what} is locked by {who} since {at} ({max(0.0, time.time() - since):.0f} s), waited for {waited:g} s; "
            f"{cure}"
        )

    def close(self) -> None:
        self.unsign()
        os.close(self._at)


_SLOT = 64  # bytes of a mark; aligned, so that none crosses a sector or a page

_BUCKET = 4 * _SLOT
_FIRST = 64
_FREE = bytes(_SLOT)
_PLACES = 128  # how many places of marks are remembered, so that the next mark of a log takes no search


def _tag(log: str) -> bytes:
    return blake2b(log.encode(), digest_size=16).digest()


def _slot(tag: bytes, mark: LogMark) -> bytes:
    body = tag + mark.number.to_bytes(8) + bytes.fromhex(mark.check)
    return body + blake2b(body, digest_size=_SLOT - len(body)).digest()


class Marks:
    """The marks of the logs in a database, behind the signature of its lock; deleting the file only protects less."""

    def __init__(self, database: Path, disk: Disk | None = None) -> None:
        self.path: Path = companion_of(database)
        self._disk = disk or Disk()
        self._failed = False
        self._file = -1
        self._places: dict[str, tuple[bytes, int]] = {}

    def find(self, log: str) -> LogMark | None:
        try:
            slots = self._slots(log)
        except OSError as error:
            self._warn(error)
            return None
        for _, slot in slots:
            if slot.startswith(_tag(log)) and not _is_damaged(slot):
                return LogMark(int.from_bytes(slot[16:24]), slot[24:40].hex())
        if any(_is_damaged(slot) for _, slot in slots):
            logger.warning("%s is damaged: whether the last entries of %s are there cannot be checked", self.path, log)
        return None

    def write(self, log: str, mark: LogMark) -> None:
        try:
            tag, at = self._places.get(log) or (_tag(log), -1)
            if at < 0 or not os.pread(self._file, _SLOT, at).startswith(tag):
                at = self._place(log, tag)
                self._places[log] = (tag, at)
            self._disk.overwrite(self._file, at, _slot(tag, mark))
            self._failed = False
        except (OSError, StoreError) as error:
            self._warn(error)

    def _place(self, log: str, tag: bytes) -> int:
        slots = self._slots(log)
        self._open()
        if len(self._places) >= _PLACES:
            self._places.clear()
        mine = (at for at, slot in slots if slot.startswith(tag))
        free = (at for at, slot in slots if slot == _FREE or _is_damaged(slot))
        return next(chain(mine, free))

    def _warn(self, error: Exception) -> None:
        if not self._failed:
            logger.warning("%s cannot be used, so a loss of the last entries is not noticed: %s", self.path, error)
        self._failed = True

    def remove(self, logs: Iterable[str]) -> None:
        """Remove the marks of logs, before the logs are deleted."""
        removed = False
        for log in logs:
            tag = _tag(log)
            for at, slot in self._slots(log):
                if slot.startswith(tag):
                    self._disk.overwrite(self._file, at, _FREE)
                    removed = True
        if removed:
            self._disk.sync(self._file)

    def clear(self) -> None:
        if self._file >= 0 or os.path.lexists(self.path):
            self._open()
            self._disk.truncate(self._file, _SIGNATURE)  # another process may have locked the file

    def _open(self) -> None:
        if self._file < 0:
            self._file = self._disk.edit(self.path)

    def close(self) -> None:
        self._places.clear()
        if self._file >= 0:
            self._disk.close(self._file)
            self._file = -1

    def _slots(self, log: str) -> list[tuple[int, bytes]]:
        """Return the slots where the mark of a log may be, with their positions; the last ones are free."""
        if self._file < 0 and os.path.lexists(self.path):
            try:
                self._open()
            except OSError:  # such as in a folder that may only be read
                self._file = open_private(self.path, os.O_RDONLY)
        number = int.from_bytes(_tag(log)[:8])
        size = 0 if self._file < 0 else os.fstat(self._file).st_size
        slots: list[tuple[int, bytes]] = []
        start, buckets = _SIGNATURE, _FIRST
        while True:
            at = start + number % buckets * _BUCKET
            data = os.pread(self._file, _BUCKET, at) if start < size else b""
            data = data.ljust(_BUCKET, b"\0")
            slots += [(at + offset, data[offset : offset + _SLOT]) for offset in range(0, _BUCKET, _SLOT)]
            if start >= size:
                return slots
            start, buckets = start + buckets * _BUCKET, 2 * buckets


def _is_damaged(slot: bytes) -> bool:
    return slot != _FREE and slot[40:] != blake2b(slot[:40], digest_size=_SLOT - 40).digest()
