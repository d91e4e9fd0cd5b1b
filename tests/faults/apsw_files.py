"""SQLite on a file system of ours: every write, cut and flush of it goes through `Files` first."""

import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw


class Files:
    """Told of what SQLite asks of the file system before it is done; what it raises, the file system raises."""

    def before(self, what: str, path: Path, offset: int = 0, data: bytes = b"") -> None:
        """Look at ``open``, ``write``, ``truncate`` (to `offset`), ``sync`` or ``delete``, or raise an apsw error."""


@contextmanager
def quiet() -> Iterator[None]:
    """Keep apsw from telling of what a file system has raised: SQLite answers with an error of its own."""
    before = sys.unraisablehook

    def heard(raised: Any) -> None:
        if not isinstance(raised.exc_value, apsw.Error):
            before(raised)

    sys.unraisablehook = heard
    try:
        yield
    finally:
        sys.unraisablehook = before


class _File(apsw.VFSFile):
    def __init__(self, files: Files, name: Any, flags: list[int]) -> None:
        self._files = files
        self._path = Path(name.filename() if isinstance(name, apsw.URIFilename) else name or "")
        new = not self._path.exists()
        super().__init__("", name, flags)
        if new:
            files.before("open", self._path)

    def xWrite(self, data: Any, offset: int) -> None:
        self._files.before("write", self._path, offset, bytes(data))
        super().xWrite(data, offset)

    def xTruncate(self, size: int) -> None:
        self._files.before("truncate", self._path, size)
        super().xTruncate(size)

    def xSync(self, flags: int) -> None:
        self._files.before("sync", self._path)
        super().xSync(flags)


class _System(apsw.VFS):
    def __init__(self, name: str, files: Files) -> None:
        self._files = files
        super().__init__(name, "")

    def xOpen(self, name: Any, flags: list[int]) -> _File:
        return _File(self._files, name, flags)

    def xDelete(self, name: str, sync: bool) -> None:
        if Path(name).exists():
            self._files.before("delete", Path(name))
        super().xDelete(name, sync)


class _Cursor:
    """A cursor with the words of `sqlite3`."""

    def __init__(self, connection: apsw.Connection, cursor: apsw.Cursor) -> None:
        self._cursor = cursor
        self.rowcount = connection.changes()
        self.lastrowid = connection.last_insert_rowid()

    def __iter__(self) -> Iterator[Any]:
        with errors():
            yield from self._cursor

    def fetchone(self) -> Any:
        with errors():
            return self._cursor.fetchone()

    def fetchall(self) -> list[Any]:
        with errors():
            return self._cursor.fetchall()


class errors:
    """Turns errors of apsw into those of `sqlite3`."""

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, apsw.Error):
            made = sqlite3.OperationalError(str(error))
            code = getattr(error, "extendedresult", 0)
            made.sqlite_errorname = str(apsw.mapping_extended_result_codes.get(code) or type(error).__name__)
            raise made from error


class _Connection:
    """A connection with the words of `sqlite3`."""

    def __init__(self, path: Path, system: _System, name: str, timeout: float) -> None:
        self._system = system  # kept as long as it is used
        with errors():
            self._connection = apsw.Connection(str(path), vfs=name)
            self._connection.set_busy_timeout(int(timeout * 1000))

    def execute(self, statement: str, values: Sequence[Any] = ()) -> _Cursor:
        with errors():
            return _Cursor(self._connection, self._connection.execute(statement, tuple(values)))

    def executemany(self, statement: str, values: Sequence[Sequence[Any]]) -> None:
        with errors():
            self._connection.executemany(statement, [tuple(each) for each in values])

    def close(self) -> None:
        with errors():
            self._connection.close()


def connector(files: Files) -> Any:
    """Return what opens databases on a file system that is watched; it takes what `sqlite3.connect` takes."""
    name = f"watched-{id(files)}"
    system = _System(name, files)

    def connect(path: Path, timeout: float = 5.0, **options: object) -> Any:
        return _Connection(path, system, name, timeout)

    return connect
