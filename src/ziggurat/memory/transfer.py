"""Export and import: memories as JSON lines, to keep a copy of them or to move them into another store.

::

    with open("ann.jsonl", "wb") as file:
        async for line in export_memories(store, owner="ann"):
            file.write(line)
    with open("ann.jsonl", "rb") as file:
        report = await import_memories(other, file)

The first line is ``{"format": "ziggurat.memories", "version": 1}``, the last one ``{"memories": N}``; each line between
them is a whole `MemoryRecord`, the archived ones too, so that `View.history` and `View.undo` work as before.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from itertools import islice
from tempfile import TemporaryFile
from typing import IO, Annotated

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from ziggurat.core.errors import ConfigurationError
from ziggurat.core.settings import checked
from ziggurat.memory.lease import KIND as LEASE
from ziggurat.memory.record import MemoryRecord, predecessors
from ziggurat.memory.store import MemoryStore, in_place_of, refuse_unfit
from ziggurat.memory.words import KEY_TAG

_Lines = Annotated[Iterable[bytes], Meta(description="such as a file opened with mode 'rb'")]
_FORMAT, _VERSION = "ziggurat.memories", 1
_BATCH = 200
"""How many memories are read and written at once."""


class _Header(Struct, forbid_unknown_fields=True):
    format: str
    version: int


class _End(Struct, forbid_unknown_fields=True):
    memories: int


class Imported(Struct, frozen=True):
    """The progress of `import_memories`, and its result.

    Attributes:
        total: How many memories there are to import.
        added: How many were stored so far.
        known: How many were in the store already, and stayed as they were there.
    """

    total: int
    added: int = 0
    known: int = 0

    @property
    def done(self) -> int:
        """How many memories were dealt with so far."""
        return self.added + self.known


_encode = msgspec.json.Encoder().encode
_header = msgspec.json.Decoder(_Header)
_end = msgspec.json.Decoder(_End)
_record = msgspec.json.Decoder(MemoryRecord)


@checked
async def export_memories(
    store: MemoryStore, *, owner: str | None = None, vectors: bool = True
) -> AsyncIterator[bytes]:
    """Yield memories as lines of JSON, by creation time, with what was archived, superseded and merged.

    Args:
        store: Where the memories are stored; it may be written meanwhile.
        owner: Whose memories; None for those of all owners.
        vectors: Include their vectors, with the names of the models that made them; without them the file is a tenth
            as large, and `View.reembed` makes new ones.

    Raises:
        ConfigurationError: a setting has a wrong type.
    """
    yield _encode(_Header(_FORMAT, _VERSION)) + b"\n"
    count = 0
    async for record in store.scan(owner=owner, archived=None):
        if record.kind == LEASE:
            continue
        yield _encode(record if vectors else replace(record, embedding=None, embedder="")) + b"\n"
        count += 1
    yield _encode(_End(count)) + b"\n"


@checked
async def import_memories(
    store: MemoryStore, lines: _Lines, *, progress: Callable[[Imported], None] | None = None
) -> Imported:
    """Store exported memories: all of them, or none if a line is damaged.

    All lines are read and checked before the first memory is stored; meanwhile they are kept in a temporary file, so
    that no more than some hundred memories are held in memory. Memories are stored in batches, each in one write. If
    a write fails, or the process dies, the memories stored before stay, and importing the file again stores the rest.

    A memory whose id is in the store already stays unchanged. What a new memory in use superseded is archived in
    the store too, and of several facts under one key the latest stays in use, so that an older export can be completed
    with a newer one.

    Args:
        store: Where to store them.
        lines: The lines that `export_memories` yielded, such as a file opened with mode ``"rb"``.
        progress: Called after each batch.

    Raises:
        ConfigurationError: a line is damaged, or the lines end too early, or an id belongs to another owner in this
            store; the message names the line. Nothing was stored.
        StoreError: the store cannot write.
    """
    reader = _Reader(lines)
    with TemporaryFile(prefix="ziggurat-import-") as spool:
        total = 0
        while batch := await asyncio.to_thread(reader.read, spool):
            await _refuse_foreign(store, batch)
            total += len(batch)
        spool.seek(0)
        state = Imported(total)
        while records := await asyncio.to_thread(_reread, spool):
            state = await _store(store, records, state)
            if progress is not None:
                progress(state)
    return state


class _Reader:
    """Reads exported lines in batches, checks them, and copies them to a file."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._lines = enumerate(lines, start=1)
        self._count = 0
        self._begun = False
        self._ended = False

    def read(self, spool: IO[bytes]) -> list[tuple[int, MemoryRecord]]:
        """Return the next memories with the numbers of their lines; none at the end."""
        memories: list[tuple[int, MemoryRecord]] = []
        while len(memories) < _BATCH and not self._ended:
            number, line = next(self._lines, (0, b""))
            if not isinstance(line, bytes):
                raise ConfigurationError(
                    f"lines of an export are bytes: open the file with mode 'rb'; got {line!r:.60}"
                )
            if not self._begun:
                self._begin(line)
            elif not number or line.startswith(b'{"memories"'):
                self._end(number, line, self._count + len(memories))
            else:
                memories.append((number, self._memory(number, line)))
                spool.write(line.rstrip(b"\r\n") + b"\n")
        self._count += len(memories)
        return memories

    def _begin(self, line: bytes) -> None:
        try:
            header = _header.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            header = None
        if header is None or header.format != _FORMAT:
            raise ConfigurationError(f"line 1: this is not an export of memories; it begins with {line[:60]!r}")
        if header.version != _VERSION:
            raise ConfigurationError(f"line 1: memories of format {header.version}; this version reads {_VERSION}")
        self._begun = True

    def _memory(self, number: int, line: bytes) -> MemoryRecord:
        try:
            record = _record.decode(line)
            refuse_unfit([record])
        except (msgspec.DecodeError, UnicodeDecodeError, ConfigurationError, RecursionError) as error:
            raise ConfigurationError(f"line {number} is damaged, nothing was imported: {error}") from None
        if record.kind == LEASE:
            raise ConfigurationError(f"line {number} is a lease, not a memory; nothing was imported")
        return record

    def _end(self, number: int, line: bytes, count: int) -> None:
        if not number:
            raise ConfigurationError(f"the export is cut off after {count} memories; nothing was imported")
        try:
            expected = _end.decode(line).memories
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"line {number} is damaged, nothing was imported: {error}") from None
        if expected != count:
            raise ConfigurationError(
                f"line {number}: {count} memories were read of {expected}, so lines are missing; nothing was imported"
            )
        for later, more in self._lines:
            if more.strip():
                raise ConfigurationError(f"line {later} is after the end of the export; nothing was imported")
        self._ended = True


def _reread(spool: IO[bytes]) -> list[MemoryRecord]:
    return [_record.decode(line) for line in islice(spool, _BATCH)]


async def _refuse_foreign(store: MemoryStore, batch: Sequence[tuple[int, MemoryRecord]]) -> None:
    owners = {record.id: record.owner for record in await store.get([record.id for _, record in batch])}
    for number, record in batch:
        owner = owners.get(record.id, record.owner)
        if owner != record.owner:
            raise ConfigurationError(
                f"line {number}: the memory {record.id!r} of {record.owner!r} belongs to {owner!r} in this store; "
                "nothing was imported"
            )


async def _store(store: MemoryStore, records: Sequence[MemoryRecord], state: Imported) -> Imported:
    """Store the memories of one batch that are new, together with the changes to others that they cause."""
    ids = [record.id for record in records]
    known = {record.id for record in await store.get(ids)}
    new = {record.id: record for record in records if record.id not in known}
    changed: dict[str, MemoryRecord] = dict(new)
    for record in new.values():
        for each in await _outdated(store, record, changed):
            changed[each.id] = each
    if changed == new:
        await store.add(list(new.values()))
    else:
        await store.put(list(changed.values()))
    return Imported(state.total, state.added + len(new), state.known + len(records) - len(new))


async def _outdated(
    store: MemoryStore, record: MemoryRecord, changed: dict[str, MemoryRecord]
) -> Sequence[MemoryRecord]:
    """Return the memories that change because a new one is in use: what it superseded, and rivals under its key."""
    if changed[record.id].archived:
        return ()
    older = [replace(each, archived=True) async for each in _history(store, record, changed) if not each.archived]
    key = record.facts.get("key")
    if not isinstance(key, str) or KEY_TAG + key not in record.tags:
        return older
    older_ids = {each.id for each in older}
    rivals = {each.id: each async for each in store.scan(owner=record.owner, kind=record.kind, tags=[KEY_TAG + key])}
    rivals |= {each.id: each for each in changed.values() if _same_key(each, record)}
    live = [each for each in rivals.values() if not changed.get(each.id, each).archived and each.id not in older_ids]
    *before, last = sorted(live, key=lambda each: each.created)
    return [*older, *in_place_of(last, before)] if before else older


def _same_key(one: MemoryRecord, other: MemoryRecord) -> bool:
    return (one.owner, one.kind, one.facts.get("key")) == (other.owner, other.kind, other.facts.get("key"))


async def _history(
    store: MemoryStore, record: MemoryRecord, changed: dict[str, MemoryRecord]
) -> AsyncIterator[MemoryRecord]:
    """Yield what a memory superseded, or was merged from, and what those did, as it is or will be in the store."""
    seen = {record.id}
    waiting = predecessors(record)
    while waiting:
        stored = {each.id: each for each in await store.get(waiting)}
        records = [changed.get(each) or stored.get(each) for each in waiting]
        waiting = []
        for each in records:
            if each is not None and each.owner == record.owner and each.id not in seen:
                seen.add(each.id)
                yield each
                waiting += [one for one in predecessors(each) if one not in seen]
