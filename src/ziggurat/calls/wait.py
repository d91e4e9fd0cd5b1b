"""Waits: an approval, a question, an unknown outcome, a timer and an event are one thing, a pending item.

look up the record > compare > the recorded decision > too late? > record that it waits > settle it here
> wait in the process while other calls of the run work > suspend
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from msgspec.structs import replace

from ziggurat.calls import agent_call
from ziggurat.calls.inbox import Inbox
from ziggurat.core import codec, errors
from ziggurat.core.clock import Clock, take_back
from ziggurat.core.context import AMBIENT, RUN_ID, Context
from ziggurat.core.tasks import ring
from ziggurat.journal import entries
from ziggurat.journal.journal import LocalJournal, journal_of
from ziggurat.messages.agent import Decision, Modify, PendingItem, Stage, decision_of, refuse
from ziggurat.messages.events import ApprovalDecided, ApprovalRequested
from ziggurat.messages.message import ToolCall
from ziggurat.tools.decisions import awaited_in, expired

LOOK = 600.0
"""Seconds after which a wait in the process looks at the clock, which may have been set, or the machine suspended."""

Settle = Callable[[PendingItem], Awaitable[tuple[Decision, int] | None]]
"""Returns a decision as it is recorded, and the number of its item in the run's inbox, 0 for none; None to wait on."""


async def for_decision(item: PendingItem, ctx: Context, settle: Settle | None = None) -> Decision:
    """Return the decision on what waits at a path: the recorded one, or the one that time or `settle` makes now."""
    journal = journal_of(ctx)
    record = journal.find(ctx.path)
    is_call = item.stage in ("tool", "model")  # which runs in its frozen form on record, as its station has looked up
    try:
        if not is_call:
            if record is not None and not _is_same(item, record, journal):
                record = None  # nobody has decided: it is asked anew
            elif record is not None and record.pending is not None:
                item = item_of(codec.as_type(record.pending.request, ToolCall), ctx, item.stage, record=record)
            if journal.refusing and (record is None or record.pending is None):
                refuse(item.call.name, ctx, journal)
        if record is None or record.decided is None:
            decision = await _decide(item, record, ctx, settle)
        else:
            decision = _decided(item, record.decided)
            if not is_call:
                return decision  # it was reported when it was made, and is used whenever the run is continued
        await report(item, decision, ctx)
        return decision
    except BaseException as error:
        if not is_call:
            agent_call.note_left(AMBIENT.get(), error)
        raise


def _is_same(item: PendingItem, record: entries.Record, journal: LocalJournal) -> bool:
    """Return whether an item is the recorded one; raise if that was decided, and is another."""
    if record.pending is None:
        return True
    recorded = codec.as_type(record.pending.request, ToolCall)
    if recorded.arguments == item.call.arguments:
        return True
    kept = journal.screened(entries.Pending(item.path, item.id, item.call.name, item.call))
    if _compared(recorded) == _compared(codec.as_type(kept.request, ToolCall)):
        return True
    if journal.refusing or record.decided is not None:
        raise journal.refuse(
            f"{item.path}: on record is {_shown(recorded)}, and this code has {_shown(item.call)}: resume the run with "
            "the code as it was; a question whose text varies takes a key="
        )
    return False


def _decided(item: PendingItem, decided: entries.Decided) -> Decision:
    if decided.id != item.id:
        raise errors.JournalCorrupt(f"the decision at {item.path} is on another call ({decided.id})")
    decision = decision_of(decided.decision)
    if decided.digest and decided.digest != _digest_of(decision):
        raise errors.ToolError(
            f"{item.call.name} was decided on, but the decision was not kept on record as it was made: nothing was "
            "run; ask for it again",
            kind="interrupted",
        )
    return decision


async def _decide(item: PendingItem, record: entries.Record | None, ctx: Context, settle: Settle | None) -> Decision:
    """Return and record the decision that follows when the time is over, or that `settle` returns."""
    journal, posted = journal_of(ctx), 0
    # An approver here may take long, and what waits for it must be seen elsewhere.
    write = journal.write if settle is not None and item.needs_decision else journal.note
    decision = None if journal.refusing else expired(item, ctx.clock.now())
    if decision is None:
        if record is None or record.pending is None:
            call = replace(item.call)
            await write(
                entries.Pending(item.path, item.id, call.name, call, item.reason, item.until, journal.watch.elapsed)
            )
        if ctx.listens(ApprovalRequested) and item.needs_decision:
            await ctx.emit(ApprovalRequested(ctx.path, item))
        settled = None if settle is None or journal.refusing else await settle(item)
        if settled is None and item.stage in ("question", "event", "timer"):
            decision = await _decided_meanwhile(item, ctx, settle, partial(_record, item, ctx, write))
            if decision is not None:
                return decision
        if settled is None:
            raise errors.Suspend((item,))
        decision, posted = settled
    await _record(item, ctx, write, decision, posted)
    return decision


async def _record(
    item: PendingItem,
    ctx: Context,
    write: Callable[[entries.Decided], Awaitable[None]],
    decision: Decision,
    posted: int,
) -> None:
    caller, elapsed = ctx.scope.get(agent_call.AGENT_CALL), journal_of(ctx).watch.elapsed
    worked = None if caller is None else caller.worked()
    await write(entries.Decided(ctx.path, item.id, decision, elapsed, worked, posted, _digest_of(decision)))


async def _decided_meanwhile(
    item: PendingItem, ctx: Context, settle: Settle | None, record: Callable[[Decision, int], Awaitable[None]]
) -> Decision | None:
    """Wait while other calls of the run work; record and return the decision if one is made meanwhile."""
    watch, run = ctx.watch, journal_of(ctx)
    outermost = watch
    while outermost is not None and outermost is not run.watch:
        outermost = outermost.outer
    # What is measured apart, as an approver is, waits for nobody: those around it wait for it.
    if run.refusing or watch is None or outermost is None or agent_call.INBOX not in ctx.scope:
        return None
    inbox, clock = agent_call.inbox_of(ctx), ctx.clock
    awaited = awaited_in(item.call).event if item.stage == "event" else item.id
    with run.watch.still() as still:
        with watch.waiting():
            pass  # if nothing else works, it ends here, without a look into the store
        while not still.done():
            with inbox.news(awaited, item.path) as news:  # before the look, so that nothing is missed
                # A look counts as work: what it finds must not come when the others are suspended already.
                settled = await (_posted(item, inbox, clock) if settle is None else settle(item))
                if settled is not None:
                    await record(*settled)  # before it queues for its slots, where it may be cancelled
                    with run.watch.soon(), watch.waiting():
                        await take_back(watch)
                    return settled[0]
                left = LOOK if item.until is None else min(max(0.0, item.until - clock.now()), LOOK)
                alarm = clock.call_at(clock.monotonic() + left, partial(ring, news))
                try:
                    with watch.waiting():
                        await asyncio.wait((still, news), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    alarm.cancel()
    inbox.find_taken()  # what is given back by alternatives that have lost makes the run due at once
    return None


async def _posted(item: PendingItem, inbox: Inbox, clock: Clock) -> tuple[Decision, int] | None:
    """Return the decision that was posted on a question, or that follows as its time is over; None if it waits on."""
    late = expired(item, clock.now())
    return await inbox.take_decision(item.id) if late is None else (late, 0)


def _digest_of(decision: Decision) -> str:
    return codec.digest(decision.text) if isinstance(decision, Modify) else ""


def recorded_decision(record: entries.Record | None) -> Decision | None:
    return None if record is None or record.decided is None else decision_of(record.decided.decision)


async def report(item: PendingItem, decision: Decision, ctx: Context) -> None:
    if ctx.listens(ApprovalDecided) and item.needs_decision:
        await ctx.emit(ApprovalDecided(ctx.path, item.id, replace(item.call), decision))


# -- items -----------------------------------------------------------------------------------------------------------


def item_of(
    call: ToolCall,
    ctx: Context,
    stage: Stage = "tool",
    *,
    reason: str = "",
    until: float | None = None,
    interrupted: bool = False,
    record: entries.Record | None = None,
) -> PendingItem:
    """Return what is asked about a call, or was by its record; its id names the run: a decision fits no other run."""
    copy = replace(call)  # that no other code can reach
    pending = None if record is None else record.pending
    if pending is not None:
        return PendingItem(pending.id, ctx.path, copy, pending.reason, stage, pending.until, interrupted)
    marks = ("interrupted",) if interrupted else ()
    item_id = codec.digest([ctx.scope.get(RUN_ID) or "", ctx.path, call.name, call.arguments, *marks])
    return PendingItem(item_id, ctx.path, copy, reason, stage, until, interrupted)


def _compared(call: ToolCall) -> dict[str, object]:
    """Return what a wait is compared by: neither when it ends, nor what follows then, nor a text that has a key."""
    fields = codec.decode(call.arguments, dict[str, object])
    left_out = {"default", "seconds", "until", *(("question",) if "key" in fields else ())}
    return {name: value for name, value in fields.items() if name not in left_out}


def _shown(call: ToolCall) -> str:
    return f"{call.name} {codec.canonical(_compared(call)).decode():.300}"


def waiting_call(record: entries.Record | None, ctx: Context) -> ToolCall | None:
    """Return a copy of the call that waits here; None if none does, or the recorded one does not match its id."""
    if record is None or record.pending is None:
        return None
    call = codec.as_type(record.pending.request, ToolCall)
    return replace(call) if item_of(call, ctx).id == record.pending.id else None
