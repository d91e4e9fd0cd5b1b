"""The two files of a log, ``log.jsonl`` and ``inbox.jsonl``: lines are appended; a last line that is torn counts not.

The first line of a log is its description. Rows follow, and before those of each writer, who has the lease.
"""

import contextlib
import os
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from string import ascii_lowercase, digits
from typing import BinaryIO
from urllib.parse import unquote

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from ziggurat.core import codec
from ziggurat.core.errors import StoreError
from ziggurat.databases.files import Disk, open_private, read_private
from ziggurat.databases.owner import without_lost_lease
from ziggurat.journal.store import InboxItem, LogInfo, Row

_PLAIN = frozenset(ascii_lowercase + digits + "-_")
_LONGEST = 180
_BLOCK = 1 << 16

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)  # raised for damaged JSON


class LogLine(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A line of a log: its description, or who has the lease, or a row, or why it is in quarantine."""

    log: LogInfo | None = None
    epoch: int | None = None
    owner: str = ""
    number: int | None = None
    digest: str = ""
    status: str = ""
    data: Raw = Raw()
    problem: str = ""
    asks: bool = False
    taken: int = 0

    @classmethod
    def of(cls, row: Row) -> "LogLine":
        return cls(
            number=row.number,
            digest=row.digest,
            status=row.status,
            data=Raw(row.data),
            asks=row.asks,
            taken=row.taken,
        )


_LINE = codec.decoder(LogLine)
_ITEM = codec.decoder(InboxItem)


def file_name(log: str) -> str:
    name = "".join(each if each in _PLAIN else "".join(f"%{byte:02x}" for byte in each.encode()) for each in log)
    if len(name) <= _LONGEST:
        return name
    return f"{name[:_LONGEST]}~{blake2b(log.encode(), digest_size=16).hexdigest()}"


def append_lines(disk: Disk, at: int, lines: Sequence[LogLine | InboxItem]) -> None:
    """Append lines to an open file; if that fails, none of them remains."""
    rest = memoryview(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    size = os.fstat(at).st_size
    try:
        while rest:
            rest = rest[disk.write(at, rest) :]
        disk.sync(at)
    except OSError:
        with contextlib.suppress(OSError):
            disk.truncate(at, size)  # what could not be flushed must not be read as if it were durable
        raise


def repair(disk: Disk, at: int, path: Path) -> int:
    """Remove a last line that a crash has cut off from an open file that is locked; return the size of the rest."""
    with os.fdopen(open_private(path, os.O_RDONLY), "rb") as file:
        size = end = file.seek(0, os.SEEK_END)
        whole = 0
        while end and not whole:
            start = max(0, end - _BLOCK)
            file.seek(start)
            whole = file.read(end - start).rfind(b"\n") + 1
            whole, end = start + whole if whole else 0, start
    if whole < size:
        disk.truncate(at, whole)
        disk.sync(at)
    return whole


def rows_of(path: Path, after: int) -> list[Row]:
    try:
        at = open_private(path, os.O_RDONLY)
    except FileNotFoundError:
        return []
    with os.fdopen(at, "rb") as file:
        rows: list[Row] = []
        for text in _backwards(file) if after else ():
            row = _row_in(text, 0)
            if row is not None and not row.digest:
                break
            if row is not None and row.number <= after:
                return rows[::-1]
            rows += () if row is None else (row,)
        file.seek(0)
        data = file.read()
    rows = []
    for text in data[: data.rfind(b"\n") + 1].split(b"\n")[:-1]:
        row = _row_in(text, len(rows) + 1)
        rows += () if row is None else (row,)
    return rows[after:]


def _row_in(text: bytes, number: int) -> Row | None:
    """Return the row in a line, None if it has something else; without a digest if it cannot be read."""
    # So it matches no row before or after it.
    try:
        line = _LINE.decode(text)
    except UNREADABLE:
        return Row(number, "", text, "")
    return None if line.number is None else Row(line.number, line.digest, bytes(memoryview(line.data)), line.status)


class KnownInbox:
    """An inbox of which this process has read some lines, so that a new item costs the same, however many there are."""

    __slots__ = ("_file", "keys", "path", "places")

    def __init__(self, path: Path) -> None:
        self.path: Path = path
        self._forget(None)

    def _forget(self, file: tuple[int, int] | None) -> None:
        self._file = file
        self.keys: set[str] = set()
        self.places: list[int] = [0]  # where each item begins, then where the next one will

    @property
    def count(self) -> int:
        return len(self.places) - 1

    @property
    def taken(self) -> int:
        with os.fdopen(open_private(self.path.with_name("log.jsonl"), os.O_RDONLY), "rb") as file:
            for text in _backwards(file):
                with contextlib.suppress(*UNREADABLE):
                    line = _LINE.decode(text)
                    if line.number is not None:
                        return line.taken
        return 0

    def read(self, after: int | None = None) -> list[InboxItem]:
        """Read what is new, and return the items numbered higher than `after`, by default the new ones."""
        try:
            at = open_private(self.path, os.O_RDONLY)
        except (FileNotFoundError, NotADirectoryError):
            self._forget(None)
            return []
        with os.fdopen(at, "rb") as file:
            status = os.fstat(at)
            if self._file != (status.st_dev, status.st_ino) or status.st_size < self.places[-1]:
                self._forget((status.st_dev, status.st_ino))
            known = self.count
            first = known if after is None else min(after, known)
            file.seek(self.places[first])
            data = file.read() if status.st_size > self.places[first] else b""
        lines = data.split(b"\n")[:-1]  # what follows is nothing, or a line that a crash has cut off
        items = [_item_of(number, line) for number, line in enumerate(lines, first + 1)]
        for item, line in list(zip(items, lines, strict=True))[known - first :]:
            self.keys.add(item.key)
            self.places.append(self.places[-1] + len(line) + 1)
        return items[0 if after is None else after - first :]


def _item_of(number: int, line: bytes) -> InboxItem:
    try:
        return replace(_ITEM.decode(line), number=number)
    except UNREADABLE:
        return InboxItem(number, "", line)


def state_of(folder: Path) -> tuple[LogInfo, int] | None:
    """Return the state of a log and its epoch, of which only the first and the last lines are read; None if none."""
    path = folder / "log.jsonl"
    try:
        with os.fdopen(open_private(path, os.O_RDONLY), "rb") as file:
            info = _LINE.decode(file.readline()).log
            if info is None or file_name(info.log) != folder.name:
                of = "no log" if info is None else f"another log, {info.log!r}"
                raise StoreError(f"{path}: its description is that of {of}; put the right one back")
            row, lease, problem = _last_lines(file)
            updated = os.fstat(file.fileno()).st_mtime
    except (FileNotFoundError, NotADirectoryError):
        if not folder.is_dir():
            return None
        if path.exists():  # it was created meanwhile
            return state_of(folder)
        raise StoreError(f"{path} is missing; put it back, or remove the folder") from None
    except UNREADABLE as error:
        raise StoreError(f"{path}: its description cannot be read: {error}") from error
    info = replace(
        info,
        status="Quarantined" if problem else row.status or "running",
        count=row.number or 0,
        updated=updated,
        owner=lease.owner,
        problem=problem,
        asks=row.asks,
    )
    return without_lost_lease(info), lease.epoch or 0


def _last_lines(file: BinaryIO) -> tuple[LogLine, LogLine, str]:
    row: LogLine | None = None
    lease: LogLine | None = None
    problem = ""
    for text in _backwards(file):
        try:
            line = _LINE.decode(text)
        except UNREADABLE:
            line = LogLine(number=0)
        if line.epoch is not None:
            lease = lease or line
        elif row is None:
            problem = problem or line.problem
            row = None if line.number is None else line
        if row is not None and lease is not None:
            break
    return row or LogLine(), lease or LogLine(), problem


def _backwards(file: BinaryIO) -> Iterator[bytes]:
    """Yield the complete lines of a file, the last one first."""
    end = file.seek(0, os.SEEK_END)
    data, whole = b"", False
    while end:
        start = max(0, end - _BLOCK)
        file.seek(start)
        data, end = file.read(end - start) + data, start
        if not whole and b"\n" in data:
            data, whole = data[: data.rfind(b"\n")], True
        if whole:
            data, *lines = data.split(b"\n")
            yield from reversed(lines)
    if whole:
        yield data


def described(folder: Path) -> LogInfo | None:
    """Return the description of a log; one that is damaged is described as such, so that it hides no other."""
    try:
        state = state_of(folder)
        return None if state is None else state[0]
    except (StoreError, OSError) as error:
        try:
            changed = folder.stat().st_mtime
        except FileNotFoundError:  # it was removed meanwhile
            return None
        return LogInfo(unquote(folder.name), status="Quarantined", updated=changed, problem=str(error))


def content_of(path: Path) -> bytes | None:
    try:
        return read_private(path)
    except FileNotFoundError:
        return None
