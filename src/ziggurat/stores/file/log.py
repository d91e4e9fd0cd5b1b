"""The files of one log, written so that a crash at any point leaves the old or the new content."""

__all__ = [
    "LINE",
    "Lease",
    "Line",
    "appended",
    "file_name",
    "last_line",
    "locked",
    "repaired",
    "replaced",
    "rows_in",
]

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from string import ascii_lowercase, digits

import msgspec
from msgspec import Raw, Struct

from ziggurat.core.errors import ConfigurationError, StoreError
from ziggurat.core.store import Row
from ziggurat.databases.disk import Disk

_PLAIN = frozenset(ascii_lowercase + digits + "-_")
_LONGEST = 180
_BLOCK = 1 << 16


class Line(Struct, frozen=True):
    """A row as stored in a file."""

    number: int
    digest: str
    status: str
    data: Raw


class Lease(Struct, frozen=True):
    """The holder of the lease, its expiry in POSIX seconds, and its number, which grows with each change."""

    epoch: int
    owner: str
    until: float


LINE = msgspec.json.Decoder(Line)


def file_name(log: str) -> str:
    """Return a folder name for a log, unique even on file systems that ignore case."""
    name = "".join(each if each in _PLAIN else "".join(f"%{byte:02x}" for byte in each.encode()) for each in log)
    if len(name) <= _LONGEST:
        return name
    return f"{name[:_LONGEST]}~{blake2b(log.encode(), digest_size=16).hexdigest()}"


def replaced(disk: Disk, path: Path, data: bytes, *, sync: bool = True) -> None:
    """Replace a file so that after a crash it has the old or the new content."""
    new = path.with_name(path.name + ".new")
    at = disk.open(new, fresh=True)
    try:
        _write(disk, at, data)
        if sync:
            disk.sync(at)
    finally:
        disk.close(at)
    disk.rename(new, path)
    if sync:
        disk.sync_folder(path.parent)


def _write(disk: Disk, at: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[disk.write(at, rest) :]


def appended(disk: Disk, path: Path, rows: Sequence[Row]) -> None:
    """Append rows to a file; if that fails, none of them remains."""
    lines = [msgspec.json.encode(Line(row.number, row.digest, row.status, Raw(row.data))) + b"\n" for row in rows]
    at = disk.open(path, fresh=False)
    try:
        size = os.fstat(at).st_size
        try:
            _write(disk, at, b"".join(lines))
            disk.sync(at)
        except OSError:
            with contextlib.suppress(OSError):
                disk.truncate(at, size)  # what could not be flushed must not be read as if it were durable
            raise
    finally:
        disk.close(at)


def repaired(disk: Disk, path: Path) -> None:
    """Remove a last line that a crash has cut off."""
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        at = disk.open(path, fresh=False)
        try:
            disk.truncate(at, whole)
            disk.sync(at)
        finally:
            disk.close(at)


def rows_in(path: Path) -> list[Row]:
    """Return the rows of a file; a last line that a crash has cut off is ignored.

    An unreadable line becomes a row without a digest, so that it matches no row before or after it.
    """
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    rows: list[Row] = []
    for text in data[:whole].split(b"\n")[:-1]:
        try:
            line = LINE.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            rows.append(Row(len(rows) + 1, "", text, ""))
        else:
            rows.append(Row(line.number, line.digest, bytes(memoryview(line.data)), line.status))
    return rows


def last_line(path: Path) -> Line | None:
    """Return the last complete line of a file without reading all of it; None if it cannot be read."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        data = b""
        while end > 0:
            start = max(0, end - _BLOCK)
            file.seek(start)
            data = file.read(end - start) + data
            end = start
            lines = data[: data.rfind(b"\n") + 1].split(b"\n")
            if len(lines) >= 3 or (end == 0 and len(lines) >= 2):
                try:
                    return LINE.decode(lines[-2])
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                    return None
    return None


@contextmanager
def locked(path: Path, timeout: float) -> Iterator[None]:
    """Hold the file lock of a log, which excludes other processes.

    Raises:
        StoreError: another process has held it for too long.
    """
    try:
        import fcntl
    except ImportError:
        raise ConfigurationError("a store of files needs the file locks of POSIX; use sqlite:/// here") from None
    at = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        until = time.monotonic() + timeout
        while True:
            try:
                fcntl.flock(at, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise StoreError(f"{path.parent}: another process has kept it for {timeout:g} s") from None
                time.sleep(0.002)
        yield
    finally:
        os.close(at)
