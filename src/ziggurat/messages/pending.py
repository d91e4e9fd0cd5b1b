"""The calls that wait for a decision, as the record of a run has them."""

from collections.abc import Iterable

from ziggurat.core.codec import as_type
from ziggurat.core.context import Context
from ziggurat.core.errors import Suspend
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


def refuse(name: str, ctx: Context, journal: LocalJournal) -> None:
    """Begin a call, or raise if the journal refuses live ones; in a replay, as Suspend if the call was waiting."""
    if journal.replaying:
        waiting = journal.waits.at(ctx.path)
        anywhere = journal.waits.at()
        waits = waiting or (anywhere and journal.breaks_off_at(ctx.path, "Suspended"))
        if waits and not journal.breaks_off_at(ctx.path, "Failed"):  # such as by a mistake in its approver
            raise Suspend(recorded_items(journal, waiting or anywhere))
    journal.begin_call(ctx.path, name)
