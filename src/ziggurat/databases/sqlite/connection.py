"""One connection to a SQLite database, used by one thread: opened when needed, given up when it has failed."""

__all__ = ["SqliteConnection"]

import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TypeVar

from ziggurat.core.errors import StoreError
from ziggurat.databases.disk import Disk
from ziggurat.databases.sqlite.schema import has_wal_reset_bug, migrate, refuse_foreign

try:
    import fcntl
except ImportError:  # not a system with file locks of this kind
    fcntl = None  # type: ignore[assignment]

T = TypeVar("T")

_PAUSE = 0.002


class SqliteConnection:
    """The connection of a store.

    Versions of SQLite that may damage a database when one connection checkpoints while another writes are kept from
    doing so: a lock on a file beside the database is held while one does either. Where there are no such locks, the
    older rollback journal is used with these versions.

    After a failed write the connection is closed and opened anew, never used again: what a failed flush has left in
    the system's cache cannot be trusted.
    """

    def __init__(
        self, path: Path, synchronous: str, timeout: float, connect: Callable[..., sqlite3.Connection]
    ) -> None:
        self.path = path
        self._synchronous = synchronous
        self._timeout = timeout
        self._connect = connect
        self._connection: sqlite3.Connection | None = None
        self._guarded = has_wal_reset_bug()
        self._lock: IO[bytes] | None = None

    def execute(self, statement: str, values: Sequence[object] = ()) -> sqlite3.Cursor:
        """Run one statement."""
        return self._open().execute(statement, values)

    def many(self, statement: str, values: Sequence[Sequence[object]]) -> None:
        """Run one statement with each of several values."""
        self._open().executemany(statement, values)

    def transaction(self, work: Callable[[], T]) -> T:
        """Do something that writes, all or nothing.

        Raises:
            StoreError: the database cannot be written; nothing was.
        """
        with self._errors(), self._alone():
            connection = self._open()
            connection.execute("BEGIN IMMEDIATE")
            try:
                result = work()
                connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise
            return result

    def reading(self, work: Callable[[], T]) -> T:
        """Do something that reads.

        Raises:
            StoreError: the database cannot be read.
        """
        with self._errors():
            if self._connection is None:
                with self._alone():
                    self._open()
            return work()

    def shrink(self) -> None:
        """Give room that is not used back to the file system."""
        with self._errors(), self._alone():
            self._open().execute("VACUUM")
            self._open().execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Let go of the file."""
        if self._connection is not None:
            with contextlib.suppress(StoreError), self._errors(), self._alone():
                self._give_up()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    # -- within --------------------------------------------------------------------------------------------------

    def _open(self) -> sqlite3.Connection:
        if self._connection is not None:
            return self._connection
        Disk().make_folders(self.path.parent.absolute())
        connection = self._connect(self.path, timeout=self._timeout, isolation_level=None, cached_statements=64)
        try:
            wal = not self._guarded or fcntl is not None
            connection.execute(f"PRAGMA journal_mode = {'WAL' if wal else 'DELETE'}").fetchone()
            connection.execute(f"PRAGMA synchronous = {self._synchronous}")
            migrate(connection, str(self.path))
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def _give_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            self._give_up()
            kind = getattr(error, "sqlite_errorname", "SQLITE_ERROR")
            if kind == "SQLITE_NOTADB":
                raise StoreError(f"{self.path} is no database, or a damaged one; choose another file") from error
            raise StoreError(f"{self.path}: {error} ({kind})") from error
        except OSError as error:
            self._give_up()
            raise StoreError(f"{self.path}: {error}") from error

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the lock beside the database, where this version of the library needs it."""
        if self._connection is None and self._connect is sqlite3.connect:
            refuse_foreign(self.path)
        if not self._guarded or fcntl is None:
            yield
            return
        if self._lock is None:
            Disk().make_folders(self.path.parent.absolute())
            self._lock = Path(f"{self.path}-lock").open("ab")  # noqa: SIM115 - held as long as the store is
        until = time.monotonic() + self._timeout
        while True:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise StoreError(f"{self.path}: another process has been writing for {self._timeout:g} s") from None
                time.sleep(_PAUSE)
        try:
            yield
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)
