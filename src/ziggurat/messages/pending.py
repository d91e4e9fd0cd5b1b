"""The calls that wait for a decision, as the record of a run has them."""

from collections.abc import Iterable

from ziggurat.core.codec import as_type
from ziggurat.journal.entries import Pending, Record
from ziggurat.journal.journal import LocalJournal
from ziggurat.messages.agent import PendingItem, stage_of
from ziggurat.messages.parts import ToolCall


def recorded_items(journal: LocalJournal, waiting: Iterable[Pending] | None = None) -> tuple[PendingItem, ...]:
    """Return the calls that wait for a decision in the record of a run, all or some of them."""
    entries = journal.waits.at() if waiting is None else waiting
    return tuple(recorded_item(pending, journal.find(pending.path)) for pending in entries)


def recorded_item(pending: Pending, record: Record | None) -> PendingItem:
    """Return a call that waits as it is recorded, from the entry with which it began to wait and its record."""
    interrupted = record is not None and record.intent is not None
    call = as_type(pending.request, ToolCall)
    return PendingItem(
        pending.id, pending.path, call, pending.reason, stage_of(pending.path), pending.until, interrupted
    )
