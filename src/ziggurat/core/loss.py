"""Accepting that the end of a log was lost."""

from ziggurat.core.chain import chain_of
from ziggurat.core.clock import SYSTEM_CLOCK, Clock
from ziggurat.core.entries import LossAccepted
from ziggurat.core.errors import JournalCorrupt
from ziggurat.core.json_lines import write_entry
from ziggurat.core.settings import NonEmptyText
from ziggurat.core.store import Row, Store, memory_of, run_log
from ziggurat.core.stored_rows import read_rows


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
