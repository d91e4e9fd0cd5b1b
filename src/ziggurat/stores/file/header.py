"""What a log's folder says of the log: its description, its state, and who has its lease."""

from pathlib import Path
from urllib.parse import unquote

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ziggurat.core.errors import JournalCorrupt, StoreError
from ziggurat.core.store import LogInfo, loss
from ziggurat.databases.files import read_private
from ziggurat.databases.owner import without_lost_lease
from ziggurat.stores.file.log import UNREADABLE, file_name, last_line
from ziggurat.stores.file.mark import marked


class LogLease(Struct, frozen=True):
    """The holder of the lease, its expiry in POSIX seconds, and its number, which grows with each change."""

    epoch: int
    owner: str
    until: float


_NOBODY = LogLease(0, "", 0.0)


def header_of(at: Path) -> LogInfo | None:
    """Return the header of a log; None if there is no log in this folder."""
    try:
        info = described_in(at)
        if file_name(info.log) != at.name:
            raise StoreError(f"{at}: its description is that of another log, {info.log!r}; put the right one back")
        mark = None if (at / "log.jsonl").exists() else marked(at, info.log)
        if mark is not None:
            raise loss(info.log, 0, mark.number)
        last, problem = last_line(at / "log.jsonl"), (content_of(at / "problem") or b"").decode("utf-8", "replace")
        status, number = ("running", 0) if last is None else (last.status, last.number)
        lease, queued = _read_lease(at), queued_in(at)
        info = replace(
            info,
            status="Quarantined" if problem else status,
            count=number,
            updated=(at / "log.jsonl").stat().st_mtime,
            owner="" if lease is None else lease.owner,
            due=None if queued is None else queued.due,
            problem=problem
            or ("" if lease else f"{at / 'lease.json'} is damaged; who writes the log next replaces it"),
        )
        return without_lost_lease(info)
    except (FileNotFoundError, NotADirectoryError):
        if not at.is_dir():
            return None
        missing = ", ".join(name for name in ("info.json", "log.jsonl") if not (at / name).exists())
        if not missing:  # it was created meanwhile
            return header_of(at)
        raise StoreError(f"{at}: a part of it is missing ({missing}); put it back, or remove the folder") from None
    except UNREADABLE as error:
        raise StoreError(f"{at}: its description cannot be read: {error}") from error


def described_in(at: Path) -> LogInfo:
    """Return the description of a log as it was created."""
    return msgspec.json.decode(read_private(at / "info.json"), type=LogInfo)


def queued_in(at: Path) -> LogInfo | None:
    """Return what the queue of the store has of a log: from when it is due, as of which row; None if nothing."""
    data = content_of(at.parent.parent / "queue" / at.name)
    try:
        return None if data is None else msgspec.json.decode(data, type=LogInfo)
    except UNREADABLE:
        return None


def describe(at: Path) -> LogInfo | None:
    """Return the header of a log; one that is damaged is described as such, so that it hides no other."""
    try:
        return header_of(at)
    except (JournalCorrupt, StoreError, OSError) as error:
        try:
            changed = at.stat().st_mtime
        except FileNotFoundError:  # it was removed meanwhile
            return None
        return LogInfo(unquote(at.name), status="Quarantined", updated=changed, problem=str(error))


def content_of(path: Path) -> bytes | None:
    """Return the content of a file; None if there is none."""
    try:
        return read_private(path)
    except FileNotFoundError:
        return None


def lease_of(at: Path) -> LogLease:
    """Return the lease of a log; one that is damaged, as after a power failure, is nobody's."""
    return _read_lease(at) or _NOBODY


def _read_lease(at: Path) -> LogLease | None:
    """Return the lease of a log; None if it is damaged."""
    data = content_of(at / "lease.json")
    if data is None:
        return _NOBODY
    try:
        return msgspec.json.decode(data, type=LogLease)
    except UNREADABLE:
        return None
