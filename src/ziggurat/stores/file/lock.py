"""The lock of a log's folder, which can be taken away from a process that is stopped while it has it.

The lock is that of a file: ``lock``, and after it was taken away ``lock-1``, then ``lock-2`` and so on. Only the newest
counts, and creating the next one decides which process has taken it away. A process that goes on after it was stopped
can then do no harm: what it puts in place by renaming it renames only after a look at whether its lock is still the
newest, and the new holder has removed its unfinished files by then; what it appends goes into a file that the new
holder has replaced by a copy; and it looks again before it says that something is written.
"""

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ziggurat.core.errors import ConfigurationError, LeaseLost
from ziggurat.databases.disk import Disk
from ziggurat.databases.files import read_private
from ziggurat.databases.lock_file import SUPPORTED, LockFile
from ziggurat.stores.file.log import UNFINISHED_FILES, replaced

logger: logging.Logger = logging.getLogger("ziggurat")

_PAUSE = 0.002
_MOST = 3
"""How often one waiting process may take the lock away, from holders that are all stopped."""


class LogLock:
    """The newest lock of a log."""

    def __init__(self, folder: Path, owner: str, number: int) -> None:
        self.folder = folder
        self._number = number
        self._owner = owner
        self.file: LockFile = LockFile(_path(folder, number), owner)

    def is_newest(self) -> bool:
        """Return whether the lock has not been taken away."""
        return not os.path.lexists(_path(self.folder, self._number + 1))

    def check(self) -> None:
        """Raise LeaseLost if the lock has been taken away; see this module for when to call it."""
        if not self.is_newest():
            raise LeaseLost(
                f"{self.folder}: this process was stopped while it wrote, and another has taken over; resume the run "
                "to continue it"
            )

    def take_away(self) -> None:
        """Make the lock of its holder invalid."""
        with suppress(FileExistsError):  # another process was quicker
            os.close(os.open(_path(self.folder, self._number + 1), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))

    def begin(self, disk: Disk) -> None:
        """Sign the lock; the first holder of one that was taken away makes sure that the last one can do no harm."""
        if self._number and self.file.fresh:
            for folder in (self.folder, self.folder / "blobs"):
                for path in folder.glob(UNFINISHED_FILES):
                    path.unlink(missing_ok=True)
            log = self.folder / "log.jsonl"
            replaced(disk, log, read_private(log), check=self.check)
        self.file.sign()


def _path(folder: Path, number: int) -> Path:
    return folder / (f"lock-{number}" if number else "lock")


def _open(folder: Path, owner: str) -> LogLock:
    number = 0
    while os.path.lexists(_path(folder, number + 1)):
        number += 1
    return LogLock(folder, owner, number)


def _acquire(folder: Path, owner: str, timeout: float, most: int) -> LogLock:
    until = time.monotonic() + timeout
    while True:
        lock = _open(folder, owner)
        try:
            while not (acquired := lock.file.take()) and lock.is_newest() and time.monotonic() < until:
                time.sleep(_PAUSE)
            if acquired and lock.is_newest():
                return lock
            if lock.is_newest():
                refusal = lock.file.refusal(timeout)
                if not most:
                    raise refusal
                logger.warning("%s; its lock is broken", refusal)
                lock.take_away()
                most, until = most - 1, time.monotonic() + timeout
        except BaseException:
            lock.file.close()
            raise
        lock.file.close()


@contextmanager
def locked(folder: Path, owner: str, timeout: float, disk: Disk, *, most: int = _MOST) -> Iterator[LogLock]:
    """Hold the lock of a log, which excludes other processes."""
    if not SUPPORTED:
        raise ConfigurationError("a store of files needs the file locks of POSIX; use sqlite:/// here")
    lock = _acquire(folder, owner, timeout, most)
    try:
        lock.begin(disk)
        yield lock
        lock.check()
    finally:
        lock.file.close()
