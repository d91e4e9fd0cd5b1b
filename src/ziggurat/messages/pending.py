"""The calls that wait for a decision, as the record of a run has them."""

__all__ = ["recorded_item", "recorded_items"]

from ziggurat.core.codec import as_type
from ziggurat.core.entries import Pending, Record
from ziggurat.core.journal import LocalJournal
from ziggurat.messages.agent import PendingItem, stage_of
from ziggurat.messages.parts import ToolCall


def recorded_items(journal: LocalJournal) -> tuple[PendingItem, ...]:
    """Return the calls that wait for a decision in the record of a run."""
    return tuple(recorded_item(pending, journal.find(pending.path)) for pending in journal.pending())


def recorded_item(pending: Pending, record: Record | None) -> PendingItem:
    """Return a call that waits as it is recorded, from the entry with which it began to wait and its record."""
    interrupted = record is not None and record.intent is not None
    call = as_type(pending.request, ToolCall)
    return PendingItem(
        pending.id, pending.path, call, pending.reason, stage_of(pending.path), pending.until, interrupted
    )
