"""The tables of a SQLite store, their migrations, and known bugs of SQLite versions."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from ziggurat.core.errors import StoreError
from ziggurat.databases.files import read_private, refuse_irregular

APPLICATION = 0x5A494747
"""The application id that marks a database file as ours (``ZIGG``)."""

_NUMBERS = (
    "PRAGMA application_id",
    "PRAGMA user_version",
    "SELECT count(*) FROM sqlite_master",
)
"""What is 0 in a database that nobody uses."""

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE logs (
            id INTEGER PRIMARY KEY, log TEXT NOT NULL UNIQUE, agent TEXT NOT NULL, request TEXT NOT NULL,
            created REAL NOT NULL, status TEXT NOT NULL, updated REAL NOT NULL, owner TEXT NOT NULL,
            until REAL NOT NULL, epoch INTEGER NOT NULL, problem TEXT NOT NULL, labels TEXT NOT NULL DEFAULT '{}',
            due REAL, priority INTEGER NOT NULL DEFAULT 0, posted INTEGER NOT NULL DEFAULT 0)""",
        "CREATE INDEX logs_by_time ON logs (updated)",
        "CREATE INDEX logs_waiting ON logs (agent, priority DESC, due, created) WHERE owner = '' AND due IS NOT NULL",
        "CREATE INDEX logs_leased ON logs (owner, agent) WHERE owner <> ''",
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


_JOURNAL = bytes.fromhex("d9d505f920a163d7")
"""What a rollback journal of SQLite begins with; without it, SQLite rolls nothing back, but removes the file."""

_COMPANIONS = ("", "-wal", "-shm", "-journal")


def refuse_foreign(path: Path) -> None:
    """Refuse a file whose first page shows that it is not ours, before locking or creating anything."""
    # The page is read by SQLite, not from the file: closing a descriptor of the file would drop the locks of other
    # connections in this process.
    for companion in _COMPANIONS:
        refuse_irregular(Path(f"{os.path.realpath(path)}{companion}"))
    if not path.exists():
        return
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as page:
            if page.execute("PRAGMA application_id").fetchone()[0] == APPLICATION:
                return
            used = any(page.execute(statement).fetchone()[0] for statement in _NUMBERS)
    except sqlite3.DatabaseError as error:
        kind = getattr(error, "sqlite_errorname", "")
        if kind.startswith("SQLITE_CORRUPT") or (kind == "SQLITE_NOTADB" and _can_be_rolled_back(path)):
            return  # after a crash it can only be read with its journal; `migrate` looks again
        raise
    if used:
        raise StoreError(f"{path} is a database of another program; choose another file")


def _can_be_rolled_back(path: Path) -> bool:
    """Return whether there is a rollback journal beside a database, as after a crash while it was created."""
    journal = Path(f"{os.path.realpath(path)}-journal")
    return journal.exists() and read_private(journal).startswith(_JOURNAL)


def migrate(connection: sqlite3.Connection, where: str) -> None:
    """Bring a database to the newest format, or create its tables."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if version == len(MIGRATIONS) and application == APPLICATION:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()  # another process may have migrated it
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if application != APPLICATION and (application or version or tables):
            raise StoreError(f"{where} is a database of another program; choose another file")
        if version > len(MIGRATIONS):
            raise StoreError(f"{where} was written by a newer version (format {version}); upgrade ziggurat to open it")
        for statements in MIGRATIONS[version:]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
