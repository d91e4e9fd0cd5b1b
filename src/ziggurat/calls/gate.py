"""The gate: every call that a rule, a tool or a person may stop passes it, whether of a tool or of a model.

rules > decision: recorded, by an approver in this process, or awaited > the call in its final form
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.calls import agent_call, wait
from ziggurat.calls.hooks import note_failure
from ziggurat.core import clock, errors, tasks
from ziggurat.core.context import Context, Key, running
from ziggurat.core.failures import noting_mistakes
from ziggurat.journal import entries
from ziggurat.journal.journal import journal_of
from ziggurat.messages.agent import Decision, Deny, Modify, PendingItem, Stage
from ziggurat.messages.events import ApprovalExecuted
from ziggurat.messages.message import ToolCall
from ziggurat.messages.model import ModelRequest, ToolSpec
from ziggurat.tools import approval, decisions


class ApprovedCall(Struct, frozen=True, gc=False):
    call: ToolCall
    id: str = ""


async def pass_gate(
    call: ToolCall,
    record: entries.Record | None,
    ctx: Context,
    normalize: decisions.Normalize,
    tool: ToolSpec | None = None,
) -> ApprovedCall:
    """Check a call against the approval rules, and get a decision if they, or the tool itself, require one."""
    stage: Stage = "model" if tool is None else "tool"
    waits = record is not None and record.pending is not None
    # A call without effects may be made twice; one that waits already is the first of its kind itself.
    earlier = ctx.scope.get(WAITING_CALLS) if tool is not None and tool.effect != "none" and not waits else None
    if earlier is not None and await earlier(call, normalize):
        raise errors.ToolError(
            f"the same call of {call.name} waits for a person's decision already, since an earlier turn; it was not "
            "made a second time",
            kind="denied",
        )
    # A call that waits needs its decision even if no rule asks any more: a person was told of it.
    always = waits or (tool is not None and tool.approval)
    if not always and not any(gate.concern(call.name, stage) for gate in ctx.scope.get(approval.APPROVALS) or ()):
        return ApprovedCall(call)
    frozen = replace(call)  # a copy that no other code can reach
    judgement = Judgement("ask")
    # A recorded decision stands: rules may have changed since, and a person must not be asked twice.
    if record is None or record.decided is None:
        judgement = await judge(frozen, stage, ctx, always=always)
        if judgement.verdict == "allow":
            return ApprovedCall(frozen)
    expiries = [gate.expires for gate in ctx.scope.get(approval.APPROVALS) or () if gate.expires is not None]
    until = None if waits or not expiries else ctx.clock.now() + min(expiries)
    item = wait.item_of(frozen, ctx, stage, reason=judgement.reason, until=until, record=record)
    decision: Decision = Deny(judgement.reason)
    if judgement.verdict == "deny":
        await wait.report(item, decision, ctx)
    else:
        desk = judgement.desk
        settle = None if desk is None else partial(_ask_approver, desk, normalize, ctx)
        decision = await wait.for_decision(item, ctx, settle)
    if isinstance(decision, Deny):
        raise _denial(decision.reason, stage)
    if not isinstance(decision, Modify):
        return ApprovedCall(frozen, item.id)
    changed = _changed(frozen, decision, normalize, item.id, ctx)
    judgement = await judge(changed, stage, ctx)
    if judgement.verdict == "deny":  # a person's change cannot override a rule that denies
        raise _denial(judgement.reason, stage)
    return ApprovedCall(changed, item.id)


async def approve_request(
    request: ModelRequest, name: str, record: entries.Record | None, ctx: Context
) -> ModelRequest:
    """Return the request as it was approved: a call named like the model, with the whole request as its arguments."""
    waits = record is not None and record.pending is not None
    if not waits and not any(gate.concern(name, "model") for gate in ctx.scope.get(approval.APPROVALS) or ()):
        return request
    call = ToolCall("", name, decisions.request_arguments(request, name))
    if record is not None and record.pending is not None:
        waited = wait.waiting_call(record, ctx)
        if waited is not None and waited.arguments != call.arguments:  # the hooks changed the request meanwhile
            call, request = waited, decisions.request_in(waited)
        elif waited is None and wait.item_of(call, ctx).id != record.pending.id:
            raise errors.JournalCorrupt(f"another call than this waits at {ctx.path} ({record.pending.id})")
    passed = await pass_gate(call, record, ctx, decisions.normalize_request)
    if passed.id and ctx.listens(ApprovalExecuted):
        await ctx.emit(ApprovalExecuted(ctx.path, passed.id, passed.call))
    return request if passed.call.arguments == call.arguments else decisions.request_in(passed.call)


def _changed(call: ToolCall, change: Modify, normalize: decisions.Normalize, item_id: str, ctx: Context) -> ToolCall:
    try:
        return normalize(ToolCall(call.id, call.name, change.text))
    except errors.InvalidArguments as error:
        # Given with this very resume, and nothing has happened since: its author is told, and it is as if never given.
        # One on record stands, and the model gets the error.
        if not journal_of(ctx).withdraws(item_id):
            raise
        raise errors.ConfigurationError(
            f"the decision on {call.name} does not fit: {error}; nothing was recorded, and the call still waits"
        ) from error


def _denial(reason: str, stage: Stage) -> errors.Denied:
    return errors.Denied(reason if stage == "model" else f"denied: {reason}")


WAITING_CALLS: Key[Callable[[ToolCall, decisions.Normalize], Awaitable[bool]]] = Key("waiting calls")
"""Returns whether an earlier run of the same session made an equal call and waits for a decision about it."""


SAVE_WAITING: Key[Callable[[], Awaitable[None]]] = Key("save waiting")
"""Saves in the session of the run what waits for a decision, for the next turn if this process is lost meanwhile."""


# -- rules -----------------------------------------------------------------------------------------------------------


_AT_WORK: Key[tuple[object, ...]] = Key("rules at work")
"""The rules that are being judged, and the `Approvals` whose approver is deciding, in what these have called."""


def _deciding(what: approval.Rule | approval.Approvals, ctx: Context) -> Context:
    """Return the context of what a rule or an approver calls; it is not asked itself about the calls made there."""
    # Otherwise an agent that decides would be asked about the calls with which it decides, and these about theirs.
    return ctx.at("approval").within(_AT_WORK, (*(ctx.scope.get(_AT_WORK) or ()), what))


class Judgement(Struct, frozen=True):
    """The verdict of all rules on a call: allow, deny, or ask `desk` (None: no approver in this process)."""

    verdict: approval.Verdict
    reason: str = ""
    desk: approval.Approvals | None = None


async def judge(call: ToolCall, stage: Stage, ctx: Context, *, always: bool = False) -> Judgement:
    gates, at_work = ctx.scope.get(approval.APPROVALS) or (), ctx.scope.get(_AT_WORK) or ()
    desks = [gate for gate in gates if gate.approver is not None and gate not in at_work]
    asking: int | None = None
    why = ""
    for number, gate in enumerate(gates):
        verdict, reason = await _judge_by(gate, call, stage, ctx)
        if verdict == "deny":
            return Judgement("deny", reason or "the rules forbid it")
        if verdict == "ask" and asking is None:
            asking, why = number, reason
    if asking is not None:
        # The approver at or above the outermost rule that asks: an agent below must not decide for those above it.
        return Judgement("ask", why, next((gate for gate in reversed(gates[: asking + 1]) if gate in desks), None))
    if always:
        return Judgement("ask", "", next(iter(desks), None))
    return Judgement("allow")


async def _judge_by(
    gate: approval.Approvals, call: ToolCall, stage: Stage, ctx: Context
) -> tuple[approval.Verdict, str]:
    at_work = ctx.scope.get(_AT_WORK) or ()
    # Calls of the approver itself are not asked about, for that would not end, but they can still be denied.
    rules = gate.rules if gate not in at_work else [rule for rule in gate.rules if rule.verdict == "deny"]
    concerned = [rule for rule in rules if rule.concerns(call.name, stage) and rule not in at_work]
    unsure: str | None = None
    for rule in sorted(concerned, key=lambda rule: rule.verdict != "deny"):  # a stable sort
        # A rule that denies could not be judged: no later rule may allow the call then, a person decides.
        if rule.verdict != "deny" and unsure is not None:
            break
        holds = await _applies(rule, call.arguments, ctx)
        if holds is True:
            return rule.verdict, rule.reason
        if holds is not False:
            unsure = unsure or f"a rule on {rule.pattern!r} could not be judged: {holds}"
    return ("allow", "") if unsure is None else ("ask", unsure)


async def _applies(rule: approval.Rule, arguments: str, ctx: Context) -> bool | str:
    """Return whether a rule applies, or a text that says why that cannot be determined."""
    if rule.when is None:
        return True
    try:
        with running(_deciding(rule, ctx)):
            answer = rule.when(json.loads(arguments))  # a copy, so the predicate cannot change the call
            if isinstance(answer, Awaitable):
                answer = await answer
    except BaseException as error:  # noqa: BLE001 - on any error a decision is asked for
        failure = tasks.as_failure(error)
        note_failure(failure, f"a rule on {rule.pattern!r}", ctx, "approval is requested")
        return errors.described(failure)
    return answer if isinstance(answer, bool) else f"it answered {answer!r:.80}, not True or False"


# -- the approver in this process ------------------------------------------------------------------------------------


async def _ask_approver(
    desk: approval.Approvals, normalize: decisions.Normalize, ctx: Context, item: PendingItem
) -> tuple[Decision, int]:
    """Get a decision on a pending item from an approver, or the one that was posted to the run meanwhile."""
    assert desk.approver is not None
    watch = ctx.watch or clock.Stopwatch(ctx.clock)
    # What the approver does is measured apart: nobody below waits for it.
    apart = _deciding(desk, ctx.timed(clock.Stopwatch(ctx.clock)))
    began = watch.clock.monotonic()
    with noting_mistakes():
        try:
            with running(apart):  # an agent that the approver runs becomes part of this run
                answer = desk.approver(replace(item, call=replace(item.call)))  # a copy: it cannot change the call
        finally:
            watch.discount(watch.clock.monotonic() - began)  # it may have asked a person without letting others work
        if isinstance(answer, Awaitable):
            answer = await _await_approver(answer, desk, item.stage, apart, watch)
    posted = await agent_call.inbox_of(ctx).take_decision(item.id) if agent_call.INBOX in ctx.scope else None
    if posted is not None:
        return posted  # the first decision stands
    try:
        decision = decisions.fitting(item, answer, normalize)
    except errors.InvalidArguments as error:
        raise errors.ConfigurationError(
            f"the approver's decision on {item.call.name} does not fit: {error}; nothing was decided or run: let it "
            "return Approve(), Deny(reason), or Modify(arguments) with arguments that fit"
        ) from error
    entry = entries.Decided(ctx.path, item.id, decision)
    # What is masked must not be stored.
    if agent_call.INBOX not in ctx.scope or journal_of(ctx).screened(entry) != entry:
        return decision, 0
    # By way of the inbox, which keeps the first decision: another process may post one at this moment.
    return await agent_call.inbox_of(ctx).post_decision(item.id, decision)


async def _await_approver(
    answer: Awaitable[Decision], desk: approval.Approvals, stage: Stage, ctx: Context, watch: clock.Stopwatch
) -> Decision:
    """Await an approver in a separate task, so that one that ignores its cancellation cannot delay the timeout."""
    late = ""
    with running(ctx):
        task = asyncio.ensure_future(tasks.in_task(lambda: answer))
    # Its error is retrieved here: asyncio would log that of a task which nobody awaits after its timeout.
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    try:
        await asyncio.sleep(0)  # an approver that waits for nothing has decided then, and no slot changes hands
        if not task.done():
            if SAVE_WAITING in ctx.scope:
                await ctx.scope[SAVE_WAITING]()
            with journal_of(ctx).watch.soon(), watch.waiting():
                late = await _wait(task, desk.timeout, ctx)
                # Within the wait: time in which it queues for its slots again is not counted as work.
                await clock.take_back(watch)
    finally:
        task.cancel()
    if not late and not task.cancelled():
        return task.result()
    reason = late or "the approver gave up"
    if stage == "model":
        raise _denial(reason, stage)
    return Deny(reason)


async def _wait(task: "asyncio.Future[Decision]", seconds: float | None, ctx: Context) -> str:
    """Wait until an approver has decided, and end its task if its time is over before; return how it was late then."""
    try:
        if seconds is None:
            await asyncio.wait([task])
        else:
            async with ctx.limit(seconds):
                await asyncio.wait([task])
    except errors.Timeout:
        task.cancel()
        return f"nobody decided within {seconds:g} s"
    return ""
