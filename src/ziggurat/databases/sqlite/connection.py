"""A connection to a SQLite database, used by one thread at a time; opened when needed, closed after a failure."""

import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

from ziggurat.core.errors import StoreError
from ziggurat.databases.disk import Disk
from ziggurat.databases.files import create_private, write_problem
from ziggurat.databases.lock_file import LockFile, companion_of
from ziggurat.databases.owner import new_owner
from ziggurat.databases.sqlite.schema import has_wal_reset_bug, migrate, refuse_foreign

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

T = TypeVar("T")

_TEXT = partial(str, encoding="utf-8", errors="replace")
"""Reads text; in a damaged row it is replaced, so that the row hides no other."""

_UNWRITABLE = ("SQLITE_CANTOPEN", "SQLITE_FULL", "SQLITE_IOERR")
"""Errors that do not say what is wrong with the disk."""

_FAILURES = (sqlite3.Error, OSError, UnicodeDecodeError)

_PAUSE = 0.002
_PAGES = 1000
"""Pages in the write-ahead log from which a commit may checkpoint; SQLite's default."""

_AT_ONCE = 400
"""The maximum of immediate writes after one transaction that may not checkpoint, and before one that may."""


class WouldWait(Exception):
    """Raised when an operation that must not wait would have to wait; nothing was done."""


class SqliteConnection:
    """A store's connection to its database."""

    def __init__(
        self,
        path: Path,
        synchronous: str,
        timeout: float,
        connect: Callable[..., sqlite3.Connection],
        created: Callable[[], None] = lambda: None,
    ) -> None:
        self.path = path
        self._synchronous = synchronous
        self._timeout = timeout
        self._patience = int(timeout * 1000)
        self._connect = connect
        self._created = created  # called before a database that does not exist is created
        self._connection: sqlite3.Connection | None = None
        self._guarded = has_wal_reset_bug()
        self._lock: LockFile | None = None
        self._settings: dict[str, int] = {}
        self._may_checkpoint = True  # whether the last transaction that may wait could checkpoint
        self._lazy = False  # whether commits flush nothing
        self._left = 0  # how many immediate writes are allowed before the next transaction that may wait
        self._version = 0  # SQLite's data_version, which changes with writes of other processes

    def execute(self, statement: str, values: Sequence[object] = ()) -> sqlite3.Cursor:
        """Run one statement."""
        return self._open().execute(statement, values)

    def many(self, statement: str, values: Sequence[Sequence[object]]) -> None:
        """Run one statement with each of several sets of values."""
        self._open().executemany(statement, values)

    def transaction(self, work: Callable[[], T], *, at_once: bool = False) -> T:
        """Run work that writes, all or nothing."""
        if at_once and not self._left:
            raise WouldWait
        try:  # not with _errors() and _alone(), which would cost a tenth of a write
            self._enter(at_once)
            try:
                connection = self._open()
                try:
                    self._begin(connection, at_once)
                    result = work()
                    connection.execute("COMMIT")
                except BaseException:
                    with contextlib.suppress(sqlite3.Error):
                        connection.execute("ROLLBACK")
                    raise
                return result
            finally:
                self._leave()
        except _FAILURES as error:
            raise self._failure(error) from error

    def reading(self, work: Callable[[], T]) -> T:
        """Run work that reads."""
        with self._errors():
            if self._connection is None:
                with self._alone():
                    self._open()
            self._set("busy_timeout", self._patience)
            return work()

    def shrink(self) -> None:
        """Return unused space to the file system."""
        with self._errors(), self._alone():
            self._set("busy_timeout", self._patience)
            self._left = 0
            self._open().execute("VACUUM")
            self._open().execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            with contextlib.suppress(StoreError), self._errors(), self._alone():
                self._give_up()
            self._give_up()  # who kept the lock has the database open, so that closing it does not checkpoint
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    # -- private -------------------------------------------------------------------------------------------------

    def _open(self) -> sqlite3.Connection:
        if self._connection is not None:
            return self._connection
        Disk().make_folders(self.path.parent.absolute())
        if not self.path.exists():
            self._created()
        if self._connect is sqlite3.connect:
            create_private(self.path)
        connection = self._connect(
            self.path, timeout=self._timeout, isolation_level=None, cached_statements=64, check_same_thread=False
        )
        try:
            wal = not self._guarded or fcntl is not None
            connection.execute(f"PRAGMA journal_mode = {'WAL' if wal else 'DELETE'}").fetchone()
            connection.execute(f"PRAGMA synchronous = {self._synchronous}")
            connection.text_factory = _TEXT
            migrate(connection, str(self.path))
            (self._version,) = connection.execute("PRAGMA data_version").fetchone()
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        self._settings = {"busy_timeout": self._patience}
        self._may_checkpoint = True
        self._lazy = wal and self._synchronous == "NORMAL"
        return connection

    def _begin(self, connection: sqlite3.Connection, at_once: bool) -> None:
        if at_once:
            self._begin_at_once(connection)
            return
        if self._lazy:
            self._may_checkpoint = not self._may_checkpoint
            self._left = 0 if self._may_checkpoint else _AT_ONCE
            self._set("wal_autocheckpoint", _PAGES if self._may_checkpoint else 0)
        self._set("busy_timeout", self._patience)
        connection.execute("BEGIN IMMEDIATE")
        if self._lock is not None and not self._guarded:
            self._lock.sign()

    def _begin_at_once(self, connection: sqlite3.Connection) -> None:
        self._set("busy_timeout", 0)
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if getattr(error, "sqlite_errorname", "").startswith("SQLITE_BUSY"):
                raise WouldWait from None
            raise
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        if version != self._version:  # another process has written, and may have checkpointed
            self._version, self._left = version, 0
            raise WouldWait
        self._left -= 1

    def _set(self, name: str, value: int) -> None:
        if self._settings.get(name) != value:
            self._open().execute(f"PRAGMA {name} = {value}").fetchone()
            self._settings[name] = value

    def _give_up(self) -> None:
        connection, self._connection = self._connection, None
        self._left = 0
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except _FAILURES as error:
            raise self._failure(error) from error

    def _failure(self, error: sqlite3.Error | OSError | UnicodeDecodeError) -> StoreError:
        """Close the connection after a failure, and return the error that says what failed."""
        self._give_up()
        if isinstance(error, UnicodeDecodeError):  # raised for a message of SQLite that quotes damaged text
            return StoreError(f"{self.path} is damaged: the definitions of its tables are not valid text")
        if isinstance(error, OSError):
            return StoreError(f"{self.path}: {error}")
        kind = getattr(error, "sqlite_errorname", "SQLITE_ERROR")
        if kind.startswith("SQLITE_BUSY") and self._lock is not None:
            return self._lock.refusal(self._timeout)
        if kind == "SQLITE_NOTADB":
            return StoreError(f"{self.path} is not a database, or a damaged one; choose another file")
        problem = write_problem(self.path.absolute().parent) if kind.startswith(_UNWRITABLE) else ""
        return StoreError(f"{self.path}: {error} ({kind}){': ' if problem else ''}{problem}")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        self._enter(at_once=False)
        try:
            yield
        finally:
            self._leave()

    def _enter(self, at_once: bool) -> None:
        """Take the lock beside the database, if this version of SQLite needs it."""
        if self._connection is None and self._connect is sqlite3.connect:
            refuse_foreign(self.path)
        if fcntl is None:
            return
        if self._lock is None:
            Disk().make_folders(self.path.parent.absolute())
            self._lock = LockFile(companion_of(self.path), new_owner())
        if not self._guarded:
            return
        if at_once:
            if not self._lock.take():
                raise WouldWait
            return
        until = time.monotonic() + self._timeout
        while not self._lock.take():
            if time.monotonic() > until:
                raise self._lock.refusal(self._timeout)
            time.sleep(_PAUSE)
        self._lock.sign()

    def _leave(self) -> None:
        if self._lock is not None and self._guarded:
            self._lock.give_back()
        elif self._lock is not None:
            self._lock.unsign()
