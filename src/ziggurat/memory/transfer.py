"""Export and import: memories as JSON lines, to keep a copy of them or to move them into another store.

::

    with open("ann.jsonl", "wb") as file:
        async for line in export_memories(store, owner="ann"):
            file.write(line)
    with open("ann.jsonl", "rb") as file:
        report = await import_memories(other, file)

Each line is a whole `MemoryRecord`, the archived ones too, so that `View.history` and `View.undo` work as before.
"""

from collections.abc import AsyncIterator, Iterable
from itertools import islice
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from ziggurat.core.errors import ConfigurationError
from ziggurat.core.settings import checked
from ziggurat.memory.record import MemoryRecord
from ziggurat.memory.store import LEASE_KIND, MemoryStore, refuse_unfit

_Lines = Annotated[Iterable[bytes], Meta(description="such as a file opened with mode 'rb'")]
_BATCH = 200
"""How many memories are written at once."""

_encode = msgspec.json.Encoder().encode
_record = msgspec.json.Decoder(MemoryRecord)


class Imported(Struct, frozen=True):
    """The result of `import_memories`."""

    stored: int = 0
    skipped: int = 0


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
    async for record in store.scan(owner=owner, archived=None):
        if record.kind != LEASE_KIND:
            yield _encode(record if vectors else replace(record, embedding=None, embedder="")) + b"\n"


@checked
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
