"""Upkeep of whole memories: an audit, which changes nothing, and export and import as JSON lines.

Each line is a whole `MemoryRecord`, the archived ones too, so that `View.history` and `View.undo` work as before.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from ziggurat.core import codec
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.settings import Fraction
from ziggurat.memory.consolidating import COMPRESSED
from ziggurat.memory.record import DOUBTS, MemoryRecord, predecessors
from ziggurat.memory.similar import find_same
from ziggurat.memory.store import LEASE_KIND, MemoryStore, refuse_unfit


class Finding(Struct, frozen=True):
    """One problem that an audit found: the ids and texts of the memories, the oldest first, and why."""

    ids: tuple[str, ...]
    texts: tuple[str, ...]
    why: str


class MemoryAudit(Struct, frozen=True):
    """The result of an audit: how many memories there are, in use or archived, and what was found.

    Attributes:
        owner: The owner whose memory was examined; None for all owners.
        tainted: How many of those in use were made from tool results.
        duplicates: Memories stored more than once, one finding for each group.
        doubts: Facts with another one that was to replace them and is more tainted, one finding for each pair.
        growth: How many were stored on each day.
        changes: Memories that took the place of others, or into which others were merged, each with those others.
            `View.undo` brings the others back.
    """

    owner: str | None
    examined: int
    archived: int
    tainted: int
    kinds: dict[str, int]
    duplicates: tuple[Finding, ...]
    doubts: tuple[Finding, ...]
    growth: dict[str, int]
    changes: tuple[Finding, ...] = ()


async def audit(store: MemoryStore, owner: str | None = None, *, threshold: Fraction = 0.85) -> MemoryAudit:
    """Examine the memories in use; nothing is changed, and nothing counts as recalled.

    The findings are hints. To act on them, consolidate the duplicates, and let one of two facts in doubt supersede the
    other.

    Args:
        store: Where the memories are stored.
        owner: The owner to examine; None for all, where each memory is compared only with others of the same owner.
        threshold: Two memories with a cosine above this, from 0 to 1, are duplicates, if they say the same.

    Raises:
        MissingExtra: the memories have embeddings, and NumPy is not installed.
    """
    records = [record async for record in store.scan(owner=owner, archived=None) if record.kind != LEASE_KIND]
    return await asyncio.to_thread(_examine, records, owner, threshold)


def _examine(records: Sequence[MemoryRecord], owner: str | None, threshold: float) -> MemoryAudit:
    used = [record for record in records if not record.archived]
    owners: defaultdict[str, list[MemoryRecord]] = defaultdict(list)
    for record in used:
        owners[record.owner].append(record)
    same = [group for each in owners.values() for group in find_same(each, threshold)]
    days = Counter(datetime.fromtimestamp(record.created, UTC).date().isoformat() for record in records)
    return MemoryAudit(
        owner=owner,
        examined=len(used),
        archived=len(records) - len(used),
        tainted=sum(1 for record in used if record.taint),
        kinds=dict(sorted(Counter(record.kind for record in used).items())),
        duplicates=tuple(_finding(group, f"cosine {similarity:.2f}") for group, similarity in same),
        doubts=tuple(_doubts(used)),
        growth=dict(sorted(days.items())),
        changes=tuple(_changes(records)),
    )


def _doubts(records: Sequence[MemoryRecord]) -> Iterator[Finding]:
    known = {record.id: record for record in records}
    for record in records:
        doubts = record.facts.get(DOUBTS)
        for each in doubts if isinstance(doubts, list) else ():
            if each in known:
                yield _finding([known[each], record], "not replaced by a more tainted fact")


def _changes(records: Sequence[MemoryRecord]) -> Iterator[Finding]:
    archived = {record.id: record for record in records if record.archived}
    for record in records:
        before = [archived[each] for each in predecessors(record) if each in archived]
        if before and not record.archived:
            why = "compressed" if COMPRESSED in record.tags else "merged" if "sources" in record.facts else "replaced"
            yield _finding([record, *before], why)


def _finding(records: Sequence[MemoryRecord], why: str) -> Finding:
    return Finding(tuple(record.id for record in records), tuple(record.content for record in records), why)


_Lines = Annotated[Iterable[bytes], Meta(description="such as a file opened with mode 'rb'")]
_BATCH = 200  # how many memories are written at once

_encode = msgspec.json.Encoder().encode
_record = codec.decoder(MemoryRecord)


class Imported(Struct, frozen=True):
    stored: int = 0
    skipped: int = 0


async def export_memories(
    store: MemoryStore, *, owner: str | None = None, vectors: bool = True
) -> AsyncIterator[bytes]:
    """Yield memories as lines of JSON, by creation time, with what was archived, superseded and merged.

    Args:
        store: Where the memories are stored; it may be written meanwhile.
        owner: Whose memories; None for those of all owners.
        vectors: Include their vectors, with the names of the models that made them; without them the file is a tenth
            as large, and `reembed` of each kind of memory makes new ones.
    """
    async for record in store.scan(owner=owner, archived=None):
        if record.kind != LEASE_KIND:
            yield _encode(record if vectors else replace(record, embedding=None, embedder="")) + b"\n"


async def import_memories(store: MemoryStore, lines: _Lines, *, overwrite: bool = False) -> Imported:
    """Store exported memories, in batches, each in one write.

    Memories are compared by their ids only. After an error, what was stored before stays, and importing the corrected
    file again stores the rest.

    Args:
        store: Where to store them.
        lines: The lines that `export_memories` yielded, such as a file opened with mode ``"rb"``.
        overwrite: Replace memories whose ids are in the store already; else they are skipped.

    Raises:
        ConfigurationError: a line is no memory, or its id belongs to another owner in this store; the message names
            the line.
        StoreError: the store cannot write.
    """
    numbered = enumerate(lines, start=1)
    done = Imported()
    while batch := [(number, _decoded(number, line)) for number, line in islice(numbered, _BATCH)]:
        known = {record.id: record.owner for record in await store.get([record.id for _, record in batch])}
        for number, record in batch:
            if known.get(record.id, record.owner) != record.owner:
                raise ConfigurationError(f"line {number}: the memory {record.id!r} belongs to {known[record.id]!r}")
        records = {record.id: record for _, record in batch if overwrite or record.id not in known}
        await (store.put if overwrite else store.add)(list(records.values()))
        done = Imported(done.stored + len(records), done.skipped + len(batch) - len(records))
    return done


def _decoded(number: int, line: bytes) -> MemoryRecord:
    try:
        record = _record.decode(line)
        refuse_unfit([record])
    except (msgspec.DecodeError, UnicodeDecodeError, ConfigurationError, RecursionError) as error:
        raise ConfigurationError(f"line {number} is no memory: {error}") from None
    return record
