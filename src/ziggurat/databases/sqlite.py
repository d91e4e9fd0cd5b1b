"""A connection to a SQLite database, its tables, and known bugs of SQLite versions.

It is used by one thread at a time, opened when needed, and closed after a failure.
"""

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from ziggurat.core.errors import ConfigurationError, StoreError
from ziggurat.databases.address import check_format
from ziggurat.databases.companion import SUPPORTED, LockFile, companion_of
from ziggurat.databases.files import Disk, create_private, read_private, refuse_irregular, write_problem
from ziggurat.databases.owner import new_owner
from ziggurat.databases.writer import Job

_APPLICATION = 0x5A494747  # the application id that marks a database file as ours (``ZIGG``)

_NUMBERS = (
    "PRAGMA application_id",
    "PRAGMA user_version",
    "SELECT count(*) FROM sqlite_master",
)
"""What is 0 in a database that nobody uses."""

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (),  # formats 1 and 2 are refused
    (),
    (
        """CREATE TABLE logs (
            id INTEGER PRIMARY KEY, log TEXT NOT NULL UNIQUE, agent TEXT NOT NULL, request TEXT NOT NULL,
            created REAL NOT NULL, status TEXT NOT NULL, updated REAL NOT NULL, owner TEXT NOT NULL,
            until REAL NOT NULL, epoch INTEGER NOT NULL, problem TEXT NOT NULL, labels TEXT NOT NULL DEFAULT '{}',
            due REAL, priority INTEGER NOT NULL DEFAULT 0, posted INTEGER NOT NULL DEFAULT 0,
            asks INTEGER NOT NULL DEFAULT 0, taken INTEGER NOT NULL DEFAULT 0)""",
        "CREATE INDEX logs_by_time ON logs (updated)",
        "CREATE INDEX logs_waiting ON logs (agent, priority DESC, due, created) WHERE owner = '' AND due IS NOT NULL",
        "CREATE INDEX logs_leased ON logs (owner, agent) WHERE owner <> ''",
        "CREATE INDEX logs_asking ON logs (created, log) WHERE asks",
        """CREATE TABLE rows (
            id INTEGER NOT NULL, number INTEGER NOT NULL, digest TEXT NOT NULL, data BLOB NOT NULL,
            status TEXT NOT NULL, PRIMARY KEY (id, number)) WITHOUT ROWID""",
        """CREATE TABLE blobs (
            id INTEGER NOT NULL, digest TEXT NOT NULL, data BLOB NOT NULL, PRIMARY KEY (id, digest))""",
        """CREATE TABLE inbox (
            id INTEGER NOT NULL, number INTEGER NOT NULL, key TEXT NOT NULL, data BLOB NOT NULL,
            PRIMARY KEY (id, number), UNIQUE (id, key)) WITHOUT ROWID""",
    ),
)
"""The statements that upgrade each format version to the next; ``user_version`` holds a file's version."""

_FIXED = ((3, 53, 0), (3, 51, 3))
_ALSO_FIXED = {(3, 50): 7, (3, 44): 6}


def has_wal_reset_bug(version: tuple[int, ...] = sqlite3.sqlite_version_info) -> bool:
    """Return whether this SQLite may damage a database in WAL mode that several connections write."""
    if version < (3, 7, 0) or version >= min(_FIXED):
        return False
    patch = _ALSO_FIXED.get((version[0], version[1]))
    return patch is None or version[2] < patch


_JOURNAL = bytes.fromhex("d9d505f920a163d7")  # a rollback journal begins so; SQLite removes any other

_COMPANIONS = ("", "-wal", "-shm", "-journal")


def _refuse_foreign(path: Path) -> None:
    """Refuse a file whose first page shows that it is not ours, before locking or creating anything."""
    # The page is read by SQLite, not from the file: closing a descriptor of the file would drop the locks of other
    # connections in this process.
    for companion in _COMPANIONS:
        refuse_irregular(Path(f"{os.path.realpath(path)}{companion}"))
    if not path.exists():
        return
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as page:
            if page.execute("PRAGMA application_id").fetchone()[0] == _APPLICATION:
                return
            used = any(page.execute(statement).fetchone()[0] for statement in _NUMBERS)
    except sqlite3.DatabaseError as error:
        kind = getattr(error, "sqlite_errorname", "")
        if kind.startswith("SQLITE_CORRUPT") or (kind == "SQLITE_NOTADB" and _can_be_rolled_back(path)):
            return  # after a crash it can only be read with its journal; `_migrate` looks again
        raise
    if used:
        raise StoreError(f"{path} is a database of another program; choose another file")


def _can_be_rolled_back(path: Path) -> bool:
    """Return whether there is a rollback journal beside a database, as after a crash while it was created."""
    journal = Path(f"{os.path.realpath(path)}-journal")
    return journal.exists() and read_private(journal).startswith(_JOURNAL)


def _migrate(connection: sqlite3.Connection, where: str) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if version == len(MIGRATIONS) and application == _APPLICATION:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()  # another process may have migrated it
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if application != _APPLICATION and (application or version or tables):
            raise StoreError(f"{where} is a database of another program; choose another file")
        check_format(where, version, len(MIGRATIONS))
        for statements in MIGRATIONS[version:]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {_APPLICATION}")
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


T = TypeVar("T")

_TEXT = partial(str, encoding="utf-8", errors="replace")  # a damaged row hides no other

_UNWRITABLE = ("SQLITE_CANTOPEN", "SQLITE_FULL", "SQLITE_IOERR")  # errors that do not say what is wrong with the disk

_FAILURES = (sqlite3.Error, OSError, UnicodeDecodeError)

_PAUSE = 0.002


class SqliteConnection:
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
        self._connect = connect
        self._created = created  # called before a database that does not exist is created
        self._connection: sqlite3.Connection | None = None
        self._guarded = has_wal_reset_bug()
        self._file: tuple[int, int] | None = None  # the file that is open; None in a file system of one's own
        self._lock: LockFile | None = None

    def execute(self, statement: str, values: Sequence[object] = ()) -> sqlite3.Cursor:
        return self._open().execute(statement, values)

    def many(self, statement: str, values: Sequence[Sequence[object]]) -> None:
        self._open().executemany(statement, values)

    def transaction(self, work: Callable[[], T]) -> T:
        with self._errors(), self._alone():
            connection = self._open()
            try:
                connection.execute("BEGIN IMMEDIATE")
                if self._lock is not None and not self._guarded:
                    self._lock.sign()
                result = work()
                connection.execute("COMMIT")
                self._check_file()
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise
            return result

    def reading(self, work: Callable[[], T]) -> T:
        with self._errors():
            if self._connection is None:
                with self._alone():
                    self._open()
            return work()

    def shrink(self) -> None:
        with self._errors(), self._alone():
            self._open().execute("VACUUM")
            self._open().execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
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
        Disk().make_parents(self.path)
        if not self.path.exists():
            self._created()
        if self._connect is sqlite3.connect:
            create_private(self.path)
        connection = self._connect(
            self.path, timeout=self._timeout, isolation_level=None, cached_statements=64, check_same_thread=False
        )
        try:
            wal = not self._guarded or SUPPORTED
            connection.execute(f"PRAGMA journal_mode = {'WAL' if wal else 'DELETE'}").fetchone()
            connection.execute(f"PRAGMA synchronous = {self._synchronous}")
            connection.text_factory = _TEXT
            _migrate(connection, str(self.path))
        except BaseException:
            connection.close()
            raise
        self._connection, self._file = connection, self._file_now()
        return connection

    def _file_now(self) -> tuple[int, int] | None:
        try:
            status = os.stat(self.path)
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def _check_file(self) -> None:
        """Raise if the file was deleted or replaced: SQLite goes on writing to the one that nobody finds any more."""
        if self._file is None or self._file_now() == self._file:
            return
        self._give_up()
        if self._lock is not None:  # that of the file that is there now is another one
            self._lock.close()
            self._lock = None
        raise StoreError(
            f"{self.path} was deleted or replaced while it was open, so nothing was written; the next write opens the "
            "file that is there then. End all processes that use a database before you replace it"
        )

    def _give_up(self) -> None:
        connection, self._connection = self._connection, None
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
        """Have the lock beside the database, if this version of SQLite needs it."""
        if self._connection is None and self._connect is sqlite3.connect:
            _refuse_foreign(self.path)
        if not SUPPORTED:
            yield
            return
        if self._lock is None:
            Disk().make_parents(self.path)
            self._lock = LockFile(companion_of(self.path), new_owner())
        if self._guarded:
            until = time.monotonic() + self._timeout
            while not self._lock.take():
                if time.monotonic() > until:
                    raise self._lock.refusal(self._timeout)
                time.sleep(_PAUSE)
            self._lock.sign()
        try:
            yield
        finally:
            if self._lock is not None and self._guarded:
                self._lock.give_back()
            elif self._lock is not None:
                self._lock.unsign()


def _nothing() -> None:
    pass


def write_batch(
    database: SqliteConnection,
    jobs: Sequence[Job[Any]],
    alone: tuple[type[Exception], ...],
    *,
    before: Callable[[], None] = _nothing,
    last: Callable[[], None] = _nothing,
) -> Exception | None:
    """Run writing jobs in one transaction and store each one's outcome; if the transaction fails, all jobs fail."""

    def all_of_them() -> None:
        for job in jobs:
            job.error = None
            try:
                job.result = job.work()
            except alone as error:
                job.error = error
        last()

    try:
        before()
        database.transaction(all_of_them)
    except (StoreError, ConfigurationError) as error:
        for job in jobs:  # each is awaited separately, so each needs an error of its own
            job.error = type(error).__new__(type(error), *error.args)  # whose constructor may take something else
            job.error.__dict__.update(error.__dict__)
        return error
    except Exception as error:  # noqa: BLE001 - an error in one job; nothing was written
        for job in jobs:
            job.error = StoreError(f"{database.path}: {type(error).__name__}: {error}")
        return error
    return None
