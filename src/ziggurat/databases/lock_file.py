"""A file whose lock excludes other processes, and which names the process that has it."""

import contextlib
import os
import time
from pathlib import Path

from ziggurat.core.errors import StoreError
from ziggurat.databases.files import open_private
from ziggurat.databases.owner import describe_owner

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

SUPPORTED = fcntl is not None
"""Whether this system has locks of files."""

COMPANION = "-ziggurat"
"""The end of the name of the one file beside a database: who has its lock, then the marks of its logs."""

SIGNATURE = 512
"""The bytes at the beginning of a lock file that say who has the lock."""

_FREE = b"-"


def companion_of(database: Path) -> Path:
    """Return the path of the file beside a database: one file, also by way of a link."""
    return Path(f"{os.path.realpath(database)}{COMPANION}")


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
        """Take the lock if no other process has it, without waiting; return whether it was taken."""
        return lock_now(self._at)

    def sign(self) -> None:
        """Write into the file who has the lock, and since when, for the error of a process that waits for it."""
        note = f"{self._owner}\n{time.time():.3f}\n".encode()[:SIGNATURE].ljust(SIGNATURE)
        with contextlib.suppress(OSError):  # on a full disk the lock is as good without it
            os.pwrite(self._at, note, 0)
            self._signed = True

    def unsign(self) -> None:
        """Take back what `sign` has written."""
        if self._signed:
            self._signed = False
            with contextlib.suppress(OSError):
                os.pwrite(self._at, _FREE, 0)

    def give_back(self) -> None:
        """Release the lock."""
        self.unsign()
        fcntl.flock(self._at, fcntl.LOCK_UN)

    def refusal(self, waited: float) -> StoreError:
        """Return the error for a lock that another process has: who, since when, and what can be done."""
        owner, _, rest = os.pread(self._at, SIGNATURE, 0).decode("utf-8", "replace").partition("\n")
        what = str(self.path).removesuffix(COMPANION)
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
        """Close the file, which also releases the lock."""
        self.unsign()
        os.close(self._at)
