"""Waiting: a place in a flow, a tool or a hook that waits for an answer, a time or an event, for days if need be."""

__all__ = ["Settle", "decision_on", "waiting_place"]

from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from ziggurat.calls.gate import begin_waiting, refuse
from ziggurat.calls.step import place_of
from ziggurat.core.codec import as_type
from ziggurat.core.context import AMBIENT, JOURNAL, Context
from ziggurat.core.entries import Decided, Pending
from ziggurat.core.errors import ConfigurationError, Suspend
from ziggurat.core.journal import journal_of
from ziggurat.messages.agent import Decision, PendingItem, decision_of
from ziggurat.messages.events import ApprovalDecided
from ziggurat.messages.parts import ToolCall
from ziggurat.tools.frozen import frozen_in

Settle = Callable[[PendingItem], Awaitable[Decided | None]]
"""Returns the entry that ends a wait without a person: its time has come, or what it waits for; None if it goes on."""


def waiting_place(name: str) -> Context:
    """Return the context of the next wait of this name, below the function that is running.

    Raises:
        ConfigurationError: nothing can wait here: outside of a run, in a step, or in a tool that acts once only.
    """
    ambient = AMBIENT.get()
    if ambient is None or JOURNAL not in ambient.scope:
        raise ConfigurationError(f"{name}() belongs into a flow, a tool or a hook of a run; here is none")
    if ambient.leaf:
        raise ConfigurationError(
            f"{ambient.path} is recorded as a whole, so it cannot wait: call {name}() in the flow, and pass on what "
            "comes of it"
        )
    frozen = frozen_in(ambient)
    if frozen is not None and frozen.effect == "once":
        raise ConfigurationError(
            f"{frozen.call.name} acts once only, and would be interrupted by its {name}(): wait before, in a tool of "
            "its own, or let a person approve the call"
        )
    return place_of(ambient, name)


async def decision_on(item: PendingItem, ctx: Context, settle: Settle) -> Decision:
    """Return the recorded decision on what waits here, or the one that `settle` finds now; else have the run wait.

    Args:
        item: What waits, as it is recorded if it did not wait before.
        ctx: The context of the wait.
        settle: Ends the wait without a person; not called in a replay.

    Raises:
        Suspend: nothing has ended the wait yet. It passes through ``except Exception``.
    """
    journal = journal_of(ctx)
    record = journal.find(ctx.path)
    if record is not None and record.decided is not None:
        return decision_of(record.decided.decision)
    waits = record is not None and record.pending is not None
    if record is not None and record.pending is not None:
        item = _as_recorded(item, record.pending)
    elif journal.refusing:
        refuse(item.call.name, ctx, journal)
    else:
        await begin_waiting(item, record, ctx)
    settled = None if journal.refusing else await settle(item)
    if settled is None:
        if waits:
            await begin_waiting(item, record, ctx)  # reports it again
        raise Suspend((item,))
    await journal.write(settled)
    decision = decision_of(settled.decision)
    if item.needs_decision and ctx.listens(ApprovalDecided):
        await ctx.emit(ApprovalDecided(ctx.path, item.id, item.call, decision))
    return decision


def _as_recorded(item: PendingItem, pending: Pending) -> PendingItem:
    call = as_type(pending.request, ToolCall)
    return replace(item, id=pending.id, call=call, reason=pending.reason, until=pending.until)
