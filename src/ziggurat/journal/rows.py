"""Reading of records from a store: rows whose digests are checked, and the entries in them."""

from collections.abc import Iterable
from hashlib import blake2b

import msgspec
from msgspec import Struct

from ziggurat.core.clock import SYSTEM_CLOCK, Clock
from ziggurat.core.errors import JournalCorrupt, RunNotFound
from ziggurat.core.settings import NonEmptyText
from ziggurat.journal.chain import chain_of
from ziggurat.journal.entries import LossAccepted
from ziggurat.journal.lines import write_entry
from ziggurat.journal.store import LogInfo, Row, Store, acknowledged_in, loss, memory_of, run_log

BLOB_BYTES = 64 * 1024
"""An entry longer than this is stored as a separate large value, and its row has only the digest."""


class Blob(Struct, frozen=True):
    """The data of a row whose entry is stored as a separate large value."""

    blob: str
    size: int


async def lines_of(store: Store, log: str, rows: Iterable[Row]) -> list[bytes]:
    """Return the data of rows as JSON lines, with separate large values put back in."""
    lines: list[bytes] = []
    for row in rows:
        data = row.data
        if data.startswith(b'{"blob":'):
            blob = msgspec.json.decode(data, type=Blob)
            content = await store.blob(log, blob.blob)
            if content is None or blake2b(content, digest_size=32).hexdigest() != blob.blob:
                raise JournalCorrupt(f"entry {row.number} of {log}: its large value is missing or damaged")
            data = content
        lines.append(data)
    return lines


async def read_rows(
    store: Store, log: str, after: int = 0, before: str = "", *, accept_loss: bool = False
) -> list[Row]:
    """Return the rows of a log after checking their numbers, their chain of digests, and that no later one is
    missing."""
    mark = None if after else await acknowledged_in(store, log)
    problem = ""
    try:
        rows = await store.read(log, after)
    except JournalCorrupt as error:
        problem, rows = str(error), []
    chain = chain_of(store)
    if not after:
        chain.check_key(log, rows)
    for number, row in enumerate(rows, after + 1):
        is_other = mark is not None and number == mark.number and not mark.fits(row)
        if row.number != number or not chain.fits(log, before, row) or is_other:
            problem = f"entry {number} of {log} was changed, lost or damaged after it was written"
            break
        before = row.digest
    if problem:
        await store.quarantine(log, problem)
        raise JournalCorrupt(f"{problem}; only this run is affected")
    if mark is not None and len(rows) < mark.number and not accept_loss:
        raise loss(log, len(rows), mark.number)
    return rows


async def known_run(store: Store, run_id: str) -> LogInfo:
    """Return the header of a run that can be read."""
    info = await store.find(run_log(run_id))
    if info is None:
        raise RunNotFound(f"there is no run {run_id!r} in this store")
    if info.status == "Quarantined":
        raise JournalCorrupt(f"the run {info.id!r} is in quarantine: {info.problem}")
    return info


async def accept_loss(store: Store, log: NonEmptyText, *, clock: Clock = SYSTEM_CLOCK) -> range:
    """Accept that the last entries of a run are lost, so that it can be continued from those that are left.

    The acceptance is recorded in the run. Calls whose entries are lost are made again when the run is resumed, also
    those of tools with ``effect="once"``. If nothing is left of a run or a session, its id becomes free; a session of
    which something is left goes on by itself.

    Args:
        store: The store.
        log: The log, such as `run_log("r-17")`.
        clock: The clock.

    Returns:
        The numbers of the lost entries; empty if none is missing, and then nothing is written.

    Raises:
        ConfigurationError: an argument has a wrong type, or no log is named.
        LeaseHeld: another process drives the run.
        JournalCorrupt: an entry further back is damaged.
    """
    memory = memory_of(store)
    mark = None if memory is None else await memory.acknowledged(log)
    if memory is None or mark is None:
        return range(0)
    try:
        await store.find(log)
    except JournalCorrupt:  # nothing is left
        await store.delete(log)
        return range(1, mark.number + 1)
    if log != run_log(log.partition(":")[2]):
        return range(0)
    epoch = await store.lease(log)
    try:
        rows = await read_rows(store, log, accept_loss=True)
        if 0 < len(rows) < mark.number:
            data = write_entry(LossAccepted("", mark.number, clock.now()))
            digest = chain_of(store).link(log, rows[-1].digest, data)
            await memory.accept_loss(log, epoch, [Row(len(rows) + 1, digest, data)])
    finally:
        await store.release(log, epoch)
    if not rows:
        await store.delete(log)
    return range(len(rows) + 1, mark.number + 1)
