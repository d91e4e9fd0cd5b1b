"""The gate: every call that a rule, a tool or a person may stop passes it, whether of a tool or of a model.

rules > decision: recorded, by an approver in this process, or awaited > the call in its final form
"""

__all__ = [
    "WAITING_CALLS",
    "ApprovedCall",
    "Normalize",
    "begin_waiting",
    "decision_on_interrupted",
    "denial",
    "digest_of_call",
    "expired",
    "is_waiting",
    "item_of",
    "misfit",
    "pass_gate",
    "recorded_form",
    "refuse",
    "refuse_second",
    "waiting_call",
]

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.calls.judgement import Judgement, judge
from ziggurat.core.codec import as_type, digest
from ziggurat.core.containment import in_task
from ziggurat.core.context import AMBIENT, RUN_ID, Context
from ziggurat.core.entries import Decided, Pending, Record
from ziggurat.core.errors import (
    ConfigurationError,
    Denied,
    InvalidArguments,
    JournalCorrupt,
    Suspend,
    Timeout,
    ToolError,
)
from ziggurat.core.journal import LocalJournal, journal_of
from ziggurat.core.path import is_beneath
from ziggurat.core.scope import Key
from ziggurat.core.stopwatch import Stopwatch
from ziggurat.messages.agent import (
    Approve,
    Decision,
    Deny,
    Happened,
    Modify,
    PendingItem,
    Stage,
    decision_of,
    recorded_items,
)
from ziggurat.messages.canonical import canonical
from ziggurat.messages.events import ApprovalDecided, ApprovalRequested
from ziggurat.messages.parts import ToolCall
from ziggurat.tools.approval import APPROVALS, Approvals

Normalize = Callable[[ToolCall], ToolCall]
"""Returns a call with the arguments that will be used, as canonical JSON; raises InvalidArguments."""


class ApprovedCall(Struct, frozen=True):
    """A call that has passed the gate.

    Attributes:
        call: The call to execute.
        id: The id of the approved item; empty if the rules allowed the call.
    """

    call: ToolCall
    id: str = ""


async def pass_gate(
    call: ToolCall, stage: Stage, record: Record | None, ctx: Context, normalize: Normalize, *, always: bool = False
) -> ApprovedCall:
    """Check a call against the approval rules, and get a decision if they, or the tool (`always`), require one.

    The call is the one that will be executed: for a model, its name and the whole request.

    Raises:
        Denied: a rule or a person said no.
        InvalidArguments: a recorded decision changed the arguments to ones that do not fit.
        ConfigurationError: the approver in this process returned an invalid decision.
        Suspend: there is no approver in this process.
    """
    waits = record is not None and record.pending is not None
    if not (waits or always) and not any(gate.concern(call.name, stage) for gate in ctx.scope.get(APPROVALS) or ()):
        return ApprovedCall(call)
    frozen = _copy_of(call)
    if record is None or record.decided is None:
        judgement = await judge(frozen, stage, ctx, always=always or waits)
        if judgement.verdict == "allow":
            return ApprovedCall(frozen)
        if judgement.verdict == "deny":
            if ctx.listens(ApprovalDecided):
                item = item_of(frozen, ctx)
                await ctx.emit(ApprovalDecided(ctx.path, item.id, item.call, Deny(judgement.reason)))
            raise denial(judgement.reason, stage)
        item, decision = await _decide(frozen, stage, judgement, record, ctx, normalize)
    else:
        item = _waiting_item(frozen, stage, record, ctx)
        decision = _decided(item, record)
    if ctx.listens(ApprovalDecided):
        await ctx.emit(ApprovalDecided(ctx.path, item.id, _copy_of(frozen), decision))
    if isinstance(decision, Deny):
        raise denial(decision.reason, stage)
    if not isinstance(decision, Modify):
        return ApprovedCall(frozen, item.id)
    changed = normalize(ToolCall(frozen.id, frozen.name, decision.text))
    judgement = await judge(changed, stage, ctx)
    if judgement.verdict == "deny":  # a person's change cannot override a rule that denies
        raise denial(judgement.reason, stage)
    return ApprovedCall(changed, item.id)


def denial(reason: str, stage: Stage) -> Denied:
    """Return the error of a denied call: a tool's becomes a result for the model, a model's stops the run."""
    return Denied(reason if stage == "model" else f"denied: {reason}")


WAITING_CALLS: Key[frozenset[str]] = Key("waiting calls")
"""Digests of the calls that earlier runs of the same session made and that wait for a decision."""


def digest_of_call(call: ToolCall) -> str:
    """Return a digest of what is called with which arguments, whichever run asked for it."""
    return digest([call.name, call.arguments])


def refuse_second(call: ToolCall, ctx: Context) -> None:
    """Refuse a call that an earlier run of the session has made already and that waits for a decision.

    Raises:
        ToolError: it waits; the message is for the model.
    """
    if digest_of_call(call) in (ctx.scope.get(WAITING_CALLS) or ()):
        raise ToolError(
            f"the same call of {call.name} waits for a person's decision already, since an earlier turn; it was not "
            "made a second time",
            kind="denied",
        )


# -- calls that wait -------------------------------------------------------------------------------------------------


def item_of(
    call: ToolCall, ctx: Context, reason: str = "", stage: Stage = "tool", until: float | None = None, *marks: str
) -> PendingItem:
    """Return the pending item for a frozen call; its id names the run, so that a decision fits no other run.

    `marks`, in the id too, say what else is asked than whether to execute the call.
    """
    run_id = ctx.scope.get(RUN_ID) or ""
    item_id = digest([run_id, ctx.path, call.name, call.arguments, *marks])
    return PendingItem(item_id, ctx.path, _copy_of(call), reason, stage, until, bool(marks))


def is_waiting(call: ToolCall, record: Record, ctx: Context, *marks: str) -> bool:
    """Return whether a call is identical to the one that waits here; earlier versions recorded ids without the run."""
    if record.pending is None:
        return False
    older = digest([ctx.path, call.name, call.arguments, *marks])
    return record.pending.id in (item_of(call, ctx, "", "tool", None, *marks).id, older)


def waiting_call(record: Record, ctx: Context) -> ToolCall | None:
    """Return a copy of the frozen call that waits here; None if the recorded call does not match its id."""
    assert record.pending is not None
    call = as_type(record.pending.request, ToolCall)
    return _copy_of(call) if is_waiting(call, record, ctx) else None


def _waiting_item(call: ToolCall, stage: Stage, record: Record, ctx: Context) -> PendingItem:
    pending = record.pending
    assert pending is not None
    return replace(item_of(call, ctx, pending.reason, stage, pending.until), id=pending.id)


def _copy_of(call: ToolCall) -> ToolCall:
    """Return a copy that no other code can reach."""
    return ToolCall(call.id, call.name, call.arguments)


def expired(pending: Pending | PendingItem, now: float) -> Deny | None:
    """Return a denial if a pending call has expired, else None."""
    if pending.until is None or now < pending.until:
        return None
    until = datetime.fromtimestamp(pending.until, UTC)
    return Deny(f"expired: nobody had decided by {until:%Y-%m-%d %H:%M:%S} UTC")


def _expiry(ctx: Context) -> float | None:
    """Return when a call that starts to wait now will expire, in POSIX seconds; None for never."""
    limits = [gate.expires for gate in ctx.scope.get(APPROVALS) or () if gate.expires is not None]
    return ctx.clock.now() + min(limits) if limits else None


def refuse(name: str, ctx: Context, journal: LocalJournal) -> None:
    """Raise if the journal refuses live calls at this path; in a replay, as Suspend if the call was waiting.

    So it is if a call below waits, in an agent that a function calls, which is not called again.
    """
    if journal.replaying:
        waiting = tuple(item for item in recorded_items(journal) if is_beneath(item.path, ctx.path))
        if waiting:
            raise Suspend(waiting)
    journal.missing(ctx.path, name)


async def decision_on_interrupted(call: ToolCall, record: Record, ctx: Context) -> Decision:
    """Return a person's decision on a call that was interrupted, and may or may not have taken effect.

    Raises:
        Suspend: there is none yet; the approver in this process is not asked.
        JournalCorrupt: the recorded decision belongs to another call.
    """
    mark = "interrupted"
    item = item_of(call, ctx, "it was interrupted, and nobody knows whether it took effect", "tool", None, mark)
    if record.pending is not None and is_waiting(call, record, ctx, mark):
        item = replace(item, id=record.pending.id)
    if record.decided is None:
        await begin_waiting(item, record, ctx)
        raise Suspend((item,))
    decision = _decided(item, record)
    if ctx.listens(ApprovalDecided):
        await ctx.emit(ApprovalDecided(ctx.path, item.id, item.call, decision))
    return decision


async def begin_waiting(item: PendingItem, record: Record | None, ctx: Context) -> None:
    """Record that a call waits, unless it did so before, and report it if somebody must decide."""
    if record is None or record.pending is None:
        call = item.call
        journal, frozen = journal_of(ctx), _copy_of(call)
        await journal.write(Pending(item.path, item.id, call.name, frozen, item.reason, item.until, journal.elapsed))
    if item.needs_decision and ctx.listens(ApprovalRequested):
        await ctx.emit(ApprovalRequested(ctx.path, item))


# -- decisions -------------------------------------------------------------------------------------------------------


def _decided(item: PendingItem, record: Record) -> Decision:
    """Return the recorded decision on a pending item."""
    assert record.decided is not None
    if record.decided.id != item.id:
        raise JournalCorrupt(f"the decision at {item.path} is on another call ({record.decided.id})")
    return decision_of(record.decided.decision)


def misfit(decision: Decision, call: ToolCall, normalize: Normalize | None) -> str | None:
    """Return why a decision on a call cannot be carried out, or None if it can, or its tool is not known here."""
    if isinstance(decision, Deny) and not isinstance(decision.reason, str):
        return f"the reason of a denial is text, got {decision.reason!r:.200}"
    if isinstance(decision, Happened) and not isinstance(decision.result, str):
        return f"the result of a call is text, got {decision.result!r:.200}"
    if not isinstance(decision, Modify):
        return None
    try:
        canonical(decision.text, call.name)
        if normalize is not None:
            normalize(ToolCall(call.id, call.name, decision.text))
    except InvalidArguments as error:
        return str(error)
    return None


def recorded_form(decision: Decision) -> Decision:
    """Return a decision that fits as it is recorded, with changed arguments as JSON text."""
    return Modify(decision.text) if isinstance(decision, Modify) else decision


async def _decide(
    call: ToolCall, stage: Stage, judgement: Judgement, record: Record | None, ctx: Context, normalize: Normalize
) -> tuple[PendingItem, Decision]:
    """Ask for a decision on a frozen call, and record it."""
    if record is None or record.pending is None:
        item, late = item_of(call, ctx, judgement.reason, stage, _expiry(ctx)), None
    else:
        item, late = _waiting_item(call, stage, record, ctx), expired(record.pending, ctx.clock.now())
    if late is None:
        await begin_waiting(item, record, ctx)
        decision = await _ask_approver(item, judgement.desk, ctx)
        wrong = misfit(decision, call, normalize)
        if wrong is not None:
            raise ConfigurationError(
                f"the approver's decision on {call.name} does not fit: {wrong}; nothing was decided or run: let it "
                "return Approve(), Deny(reason), or Modify(arguments) with arguments that fit"
            )
        decision = recorded_form(decision)
    else:
        decision = late
    await journal_of(ctx).write(Decided(ctx.path, item.id, decision))
    return item, decision


async def _ask_approver(item: PendingItem, desk: Approvals | None, ctx: Context) -> Decision:
    """Get a decision on a pending item from an approver."""
    if desk is None or desk.approver is None:
        raise Suspend((item,))
    watch = ctx.watch or Stopwatch(ctx.clock)
    apart = ctx.timed(Stopwatch(ctx.clock))  # what the approver does is measured apart: nobody below waits for it
    with watch.waiting():
        began = watch.clock.monotonic()
        token = AMBIENT.set(apart.at("approval"))  # an agent that the approver runs becomes part of this run
        try:
            view = replace(item, call=_copy_of(item.call))  # a copy, so the approver cannot change the call
            answer = desk.approver(view)
            task = asyncio.ensure_future(in_task(lambda: answer)) if isinstance(answer, Awaitable) else None
        finally:
            AMBIENT.reset(token)
            watch.discount(watch.clock.monotonic() - began)  # it may have asked a person without letting others work
        decision = answer if task is None else await _await_approver(task, desk, apart)
    if not isinstance(decision, (Approve, Deny, Modify)):
        raise ConfigurationError(
            f"the approver must return Approve(), Deny(reason) or Modify(arguments), got {decision!r}"
        )
    return decision


async def _await_approver(task: "asyncio.Future[Decision]", desk: Approvals, ctx: Context) -> Decision:
    """Await an approver in a separate task, so that one that ignores its cancellation cannot delay the timeout."""
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    try:
        if desk.timeout is None:
            await asyncio.wait([task])
        else:
            async with ctx.limit(desk.timeout):
                await asyncio.wait([task])
    except Timeout as error:
        raise Denied(f"denied: nobody decided within {desk.timeout:g} s") from error
    finally:
        task.cancel()
    if task.cancelled():
        raise Denied("denied: the approver gave up")
    return task.result()
