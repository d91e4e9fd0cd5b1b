"""The files of one log, written so that a crash at any point leaves the old or the new content."""

import contextlib
import os
from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path
from string import ascii_lowercase, digits

import msgspec
from msgspec import Raw, Struct

from ziggurat.core.clock import new_id
from ziggurat.core.store import Row
from ziggurat.databases.disk import Disk
from ziggurat.databases.files import open_private, read_private

_PLAIN = frozenset(ascii_lowercase + digits + "-_")
_LONGEST = 180
_BLOCK = 1 << 16

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What reading JSON from a damaged file may raise."""

UNFINISHED_FILES = "*.new"
"""The pattern of names of files that are not yet in place."""


class StoredLine(Struct, frozen=True):
    """A row as stored in a file."""

    number: int
    digest: str
    status: str
    data: Raw


LINE = msgspec.json.Decoder(StoredLine)


def file_name(log: str) -> str:
    """Return a folder name for a log, unique even on file systems that ignore case."""
    name = "".join(each if each in _PLAIN else "".join(f"%{byte:02x}" for byte in each.encode()) for each in log)
    if len(name) <= _LONGEST:
        return name
    return f"{name[:_LONGEST]}~{blake2b(log.encode(), digest_size=16).hexdigest()}"


def _nothing() -> None:
    pass


def replaced(disk: Disk, path: Path, data: bytes, *, sync: bool = True, check: Callable[[], None] = _nothing) -> None:
    """Replace a file so that after a crash it has the old or the new content."""
    new = path.with_name(f"{path.name}.{new_id()}.new")  # no other process may write to it
    try:
        at = disk.open(new, fresh=True)
        try:
            _write(disk, at, data)
            if sync:
                disk.sync(at)
        finally:
            disk.close(at)
        check()
        disk.rename(new, path)
    except BaseException:
        with contextlib.suppress(OSError):
            new.unlink(missing_ok=True)
        raise
    if sync:
        disk.sync_folder(path.parent)


def _write(disk: Disk, at: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[disk.write(at, rest) :]


def appended(disk: Disk, at: int, rows: Sequence[Row]) -> None:
    """Append rows to an open file; if that fails, none of them remains."""
    lines = [msgspec.json.encode(StoredLine(row.number, row.digest, row.status, Raw(row.data))) + b"\n" for row in rows]
    size = os.fstat(at).st_size
    try:
        _write(disk, at, b"".join(lines))
        disk.sync(at)
    except OSError:
        with contextlib.suppress(OSError):
            disk.truncate(at, size)  # what could not be flushed must not be read as if it were durable
        raise


def repaired(disk: Disk, path: Path, check: Callable[[], None]) -> None:
    """Remove a last line that a crash has cut off."""
    data = read_private(path)
    if data.rfind(b"\n") + 1 == len(data):
        return
    at = disk.open(path, fresh=False)
    try:
        check()
        disk.truncate(at, data.rfind(b"\n") + 1)
        disk.sync(at)
    finally:
        disk.close(at)


def rows_in(path: Path) -> list[Row]:
    """Return the rows of a file; a last line that a crash has cut off is ignored."""
    # An unreadable line becomes a row without a digest, so that it matches no row before or after it.
    data = read_private(path)
    whole = data.rfind(b"\n") + 1
    rows: list[Row] = []
    for text in data[:whole].split(b"\n")[:-1]:
        try:
            line = LINE.decode(text)
        except UNREADABLE:
            rows.append(Row(len(rows) + 1, "", text, ""))
        else:
            rows.append(Row(line.number, line.digest, bytes(memoryview(line.data)), line.status))
    return rows


def last_line(path: Path) -> StoredLine | None:
    """Return the last complete line of a file without reading all of it; None if it cannot be read."""
    with os.fdopen(open_private(path, os.O_RDONLY), "rb") as file:
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
                except UNREADABLE:
                    return None
    return None
