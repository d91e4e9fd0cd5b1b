"""The gate: every call that a rule, a tool or a person may stop passes it, whether of a tool or of a model.

rules > decision: recorded, by an approver in this process, or awaited > the call in its final form

Calls of tools that act once only are settled here when it is unknown whether they took effect; an agent that fails
reports those that were started below it, so that nothing else is called in its place.
"""

import asyncio
import json
from asyncio import CancelledError
from collections.abc import Awaitable, Callable
from functools import partial
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.calls.agent_call import INBOX, inbox_of
from ziggurat.calls.hooks import note_failure
from ziggurat.calls.wait import item_of, report, wait
from ziggurat.core.clock import Stopwatch, take_back
from ziggurat.core.codec import as_type
from ziggurat.core.context import Context, Key, running
from ziggurat.core.errors import (
    ConfigurationError,
    Denied,
    InvalidArguments,
    NotRepeatable,
    Suspend,
    Timeout,
    ToolError,
    described,
    is_transient,
)
from ziggurat.core.failures import NO_OUTCOMES, noting_mistakes
from ziggurat.core.path import is_beneath, is_tool_call, upwards
from ziggurat.core.service import Service
from ziggurat.core.tasks import as_failure, in_task
from ziggurat.journal.entries import Decided, Failure, Intent, Record, Result, as_error
from ziggurat.journal.journal import LocalJournal, journal_of
from ziggurat.messages.agent import Decision, Deny, DidNotHappen, Happened, Modify, PendingItem, Stage, decision_of
from ziggurat.messages.message import ToolCall, ToolResult
from ziggurat.messages.model import ToolSpec
from ziggurat.tools.approval import APPROVALS, Approvals, Rule, Verdict
from ziggurat.tools.decisions import Normalize, fitting
from ziggurat.tools.guarded_call import Frozen
from ziggurat.tools.outcome import is_lost, unknown_outcome
from ziggurat.tools.results import kind_of, result_of, text_of_error


class ApprovedCall(Struct, frozen=True, gc=False):
    call: ToolCall
    id: str = ""


async def pass_gate(
    call: ToolCall, record: Record | None, ctx: Context, normalize: Normalize, tool: ToolSpec | None = None
) -> ApprovedCall:
    """Check a call against the approval rules, and get a decision if they, or the tool itself, require one."""
    stage: Stage = "model" if tool is None else "tool"
    waits = record is not None and record.pending is not None
    # A call without effects may be made twice; one that waits already is the first of its kind itself.
    earlier = ctx.scope.get(WAITING_CALLS) if tool is not None and tool.effect != "none" and not waits else None
    if earlier is not None and await earlier(call, normalize):
        raise ToolError(
            f"the same call of {call.name} waits for a person's decision already, since an earlier turn; it was not "
            "made a second time",
            kind="denied",
        )
    # A call that waits needs its decision even if no rule asks any more: a person was told of it.
    always = waits or (tool is not None and tool.approval)
    if not always and not any(gate.concern(call.name, stage) for gate in ctx.scope.get(APPROVALS) or ()):
        return ApprovedCall(call)
    frozen = replace(call)  # a copy that no other code can reach
    judgement = Judgement("ask")
    # A recorded decision stands: rules may have changed since, and a person must not be asked twice.
    if record is None or record.decided is None:
        judgement = await judge(frozen, stage, ctx, always=always)
        if judgement.verdict == "allow":
            return ApprovedCall(frozen)
    until = None if waits else _expiry(ctx)
    item = item_of(frozen, ctx, stage, reason=judgement.reason, until=until, record=record)
    decision: Decision = Deny(judgement.reason)
    if judgement.verdict == "deny":
        await report(item, decision, ctx)
    else:
        desk = judgement.desk
        decision = await wait(item, ctx, None if desk is None else partial(_ask_approver, desk, normalize, ctx))
    if isinstance(decision, Deny):
        raise _denial(decision.reason, stage)
    if not isinstance(decision, Modify):
        return ApprovedCall(frozen, item.id)
    changed = _changed(frozen, decision, normalize, item.id, ctx)
    judgement = await judge(changed, stage, ctx)
    if judgement.verdict == "deny":  # a person's change cannot override a rule that denies
        raise _denial(judgement.reason, stage)
    return ApprovedCall(changed, item.id)


def _changed(call: ToolCall, change: Modify, normalize: Normalize, item_id: str, ctx: Context) -> ToolCall:
    try:
        return normalize(ToolCall(call.id, call.name, change.text))
    except InvalidArguments as error:
        # Given with this very resume, and nothing has happened since: its author is told, and it is as if never given.
        # One on record stands, and the model gets the error.
        if not journal_of(ctx).withdraws(item_id):
            raise
        raise ConfigurationError(
            f"the decision on {call.name} does not fit: {error}; nothing was recorded, and the call still waits"
        ) from error


def _denial(reason: str, stage: Stage) -> Denied:
    return Denied(reason if stage == "model" else f"denied: {reason}")


WAITING_CALLS: Key[Callable[[ToolCall, Normalize], Awaitable[bool]]] = Key("waiting calls")
"""Returns whether an earlier run of the same session made an equal call and waits for a decision about it."""


SAVE_WAITING: Key[Callable[[], Awaitable[None]]] = Key("save waiting")
"""Saves in the session of the run what waits for a decision, for the next turn if this process is lost meanwhile."""


def _expiry(ctx: Context) -> float | None:
    seconds = [gate.expires for gate in ctx.scope.get(APPROVALS) or () if gate.expires is not None]
    return ctx.clock.now() + min(seconds) if seconds else None


# -- rules -----------------------------------------------------------------------------------------------------------


_AT_WORK: Key[tuple[object, ...]] = Key("rules at work")
"""The rules that are being judged, and the `Approvals` whose approver is deciding, in what these have called."""


def _deciding(what: Rule | Approvals, ctx: Context) -> Context:
    """Return the context of what a rule or an approver calls; it is not asked itself about the calls made there."""
    # Otherwise an agent that decides would be asked about the calls with which it decides, and these about theirs.
    return ctx.at("approval").within(_AT_WORK, (*(ctx.scope.get(_AT_WORK) or ()), what))


class Judgement(Struct, frozen=True):
    """The verdict of all rules on a call: allow, deny, or ask `desk` (None: no approver in this process)."""

    verdict: Verdict
    reason: str = ""
    desk: Approvals | None = None


async def judge(call: ToolCall, stage: Stage, ctx: Context, *, always: bool = False) -> Judgement:
    gates, at_work = ctx.scope.get(APPROVALS) or (), ctx.scope.get(_AT_WORK) or ()
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


async def _judge_by(gate: Approvals, call: ToolCall, stage: Stage, ctx: Context) -> tuple[Verdict, str]:
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


async def _applies(rule: Rule, arguments: str, ctx: Context) -> bool | str:
    """Return whether a rule applies, or a text that says why that cannot be determined."""
    if rule.when is None:
        return True
    try:
        with running(_deciding(rule, ctx)):
            answer = rule.when(json.loads(arguments))  # a copy, so the predicate cannot change the call
            if isinstance(answer, Awaitable):
                answer = await answer
    except BaseException as error:  # noqa: BLE001 - on any error a decision is asked for
        failure = as_failure(error)
        note_failure(failure, f"a rule on {rule.pattern!r}", ctx, "approval is requested")
        return described(failure)
    return answer if isinstance(answer, bool) else f"it answered {answer!r:.80}, not True or False"


# -- the approver in this process ------------------------------------------------------------------------------------


async def _ask_approver(desk: Approvals, normalize: Normalize, ctx: Context, item: PendingItem) -> tuple[Decision, int]:
    """Get a decision on a pending item from an approver, or the one that was posted to the run meanwhile."""
    assert desk.approver is not None
    watch = ctx.watch or Stopwatch(ctx.clock)
    apart = ctx.timed(Stopwatch(ctx.clock))  # what the approver does is measured apart: nobody below waits for it
    began = watch.clock.monotonic()
    with noting_mistakes():
        try:
            with running(_deciding(desk, apart)):  # an agent that the approver runs becomes part of this run
                answer = desk.approver(replace(item, call=replace(item.call)))  # a copy: it cannot change the call
                task = asyncio.ensure_future(in_task(lambda: answer)) if isinstance(answer, Awaitable) else None
        finally:
            watch.discount(watch.clock.monotonic() - began)  # it may have asked a person without letting others work
        if task is None:
            decision = cast("Decision", answer)
        else:
            decision = await _await_approver(task, desk, item.stage, apart, watch)
    posted = await inbox_of(ctx).take_decision(item.id) if INBOX in ctx.scope else None
    if posted is not None:
        return posted  # the first decision stands
    try:
        decision = fitting(item, decision, normalize)
    except InvalidArguments as error:
        raise ConfigurationError(
            f"the approver's decision on {item.call.name} does not fit: {error}; nothing was decided or run: let it "
            "return Approve(), Deny(reason), or Modify(arguments) with arguments that fit"
        ) from error
    entry = Decided(ctx.path, item.id, decision)
    if INBOX not in ctx.scope or journal_of(ctx).screened(entry) != entry:  # what is masked must not be stored
        return decision, 0
    # By way of the inbox, which keeps the first decision: another process may post one at this moment.
    return await inbox_of(ctx).post_decision(item.id, decision)


async def _await_approver(
    task: "asyncio.Future[Decision]", desk: Approvals, stage: Stage, ctx: Context, watch: Stopwatch
) -> Decision:
    """Await an approver in a separate task, so that one that ignores its cancellation cannot delay the timeout."""
    late = ""
    # Its error is retrieved here: asyncio would log that of a task which nobody awaits after its timeout.
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    try:
        await asyncio.sleep(0)  # an approver that waits for nothing has decided then, and no slot changes hands
        if not task.done():
            if SAVE_WAITING in ctx.scope:
                await ctx.scope[SAVE_WAITING]()
            with watch.waiting():
                late = await _wait(task, desk.timeout, ctx)
                # Within the wait: time in which it queues for its slots again is not counted as work.
                await take_back(watch)
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
    except Timeout:
        task.cancel()
        return f"nobody decided within {seconds:g} s"
    return ""


# -- calls of tools that act once only -------------------------------------------------------------------------------


async def make_once(
    service: Service[ToolCall, ToolResult], spec: ToolSpec, frozen: Frozen, ctx: Context, journal: LocalJournal
) -> ToolResult:
    """Make a call of a tool that acts once only; after a timeout or a lost connection, settle it as after a crash."""
    own = frozen.call
    try:
        return await service(ToolCall(own.id, own.name, own.arguments), ctx.freezing(frozen))
    except CancelledError:
        journal.index.running.discard(ctx.path)
        raise
    except Exception as error:
        if frozen.unknown is None and not (frozen.runs and is_lost(error)):
            raise
        journal.index.running.discard(ctx.path)
        record = journal.find(ctx.path)
        assert record is not None  # it has an intent
        if record.returned is not None:  # only layers around it failed
            return as_type(record.returned.value, ToolResult)
        unknown = frozen.unknown or unknown_outcome(spec.name, error)
        settled = await settle_unknown(spec, own, record, ctx, unknown)
        if settled is None:  # it would be made again when the run is resumed; here it has had its chance
            raise unknown from error
        return settled


async def settle_unknown(
    spec: ToolSpec, call: ToolCall, record: Record, ctx: Context, unknown: NotRepeatable | None = None
) -> ToolResult | None:
    """Return the result of a begun call as a person reported it; None to run it, as it may be repeated."""
    # The approver in this process is not asked: one that approves everything would let the call run twice.
    policy = spec.interrupted if record.pending is None else "ask"  # once a person was asked, that stands
    if policy == "retry_if_idempotent" or record.never_began:
        return None
    if (failure := _failure_since(record, ctx)) is not None:
        text = f"{failure.text} ({spec.name} acts once only and has been run; it was not run again)"
        raise NotRepeatable(text, kind="interrupted")
    if policy == "report":
        raise unknown or unknown_outcome(spec.name)
    decision = await _decision_on_interrupted(call, ctx)
    if isinstance(decision, Happened):
        return result_of(decision.result, call)
    if isinstance(decision, Deny):
        raise NotRepeatable(
            f"{spec.name} was interrupted and acts once only, so it was not run again; whether it took effect is "
            f"unknown: {decision.reason}",
            kind="interrupted",
        )
    return None


async def settle_equal(call: ToolCall, intent: Intent | None, ctx: Context) -> None:
    """Have a person find out what came of equal calls before one runs, which begins if it has an intent; note that."""
    journal = journal_of(ctx)
    unknown = False
    for act in journal.index.equal_acts(call.fingerprint()):
        if act.path != ctx.path and not _is_running(act.path, journal):
            _, known = await _what_came_of(act, Context(act.path, ctx.emit, ctx.watch, ctx.scope))
            unknown = unknown or not known
    if unknown and intent is not None:
        # Written with the question: an intent alone would be taken for a call that had begun when the process was lost.
        journal.append(intent, hold=True)
        await _decision_on_interrupted(call, ctx)
    journal.index.running.add(ctx.path)


def _is_running(path: str, journal: LocalJournal) -> bool:
    results = (record.result for above in upwards(path) if (record := journal.find(above)) is not None)
    return path in journal.index.running and not any(results)


def note_never_began(ctx: Context, journal: LocalJournal) -> None:
    """Record with the next entry that a call with an intent was cancelled before it began, such as by a limiter."""
    if not journal.closed:
        journal.append(Decided(ctx.path, "", DidNotHappen(), journal.watch.elapsed), hold=True)


def _failure_since(record: Record, ctx: Context) -> ToolResult | None:
    """Return the error with which a begun call has ended its agent, which asks for it again; None if it has not."""
    for entry in reversed(journal_of(ctx).entries):
        if entry is record.intent:
            break
        if isinstance(entry, Result) and entry.path == ctx.path:
            result = as_type(entry.value, ToolResult)
            if result.error != "interrupted":
                return result
    return None


async def _decision_on_interrupted(call: ToolCall, ctx: Context) -> Decision:
    reason = "it was interrupted, and nobody knows whether it took effect"
    record = journal_of(ctx).find(ctx.path)
    return await wait(item_of(call, ctx, reason=reason, interrupted=True, record=record), ctx)


async def after_acts(error: Exception, ctx: Context) -> Exception:
    """Return the error of a call below which others may have acted: it tells of those that act once only."""
    acts = journal_of(ctx).acts_before(error)
    if not acts or isinstance(error, NO_OUTCOMES):
        return error
    notes: list[str] = []
    waiting: list[object] = []
    unknown = False
    for intent in acts:
        if intent.path == ctx.path or not is_beneath(intent.path, ctx.path):
            continue
        try:
            note, known = await _what_came_of(intent, Context(intent.path, ctx.emit, ctx.watch, ctx.scope))
        except Suspend as suspend:
            waiting += suspend.pending
            continue
        notes += [note] if note else []
        unknown = unknown or not known
    if waiting:
        raise Suspend(tuple(waiting)) from error
    if not notes or isinstance(error, NotRepeatable):
        return error
    text = f"{text_of_error(error)}; do not repeat it blindly, what was done is done: {'; '.join(notes)}"
    failed = NotRepeatable(text, kind="interrupted" if unknown else kind_of(error))
    failed.transient, failed.original, failed.__cause__ = is_transient(error), error, error
    return failed


async def _what_came_of(intent: Intent, ctx: Context) -> tuple[str, bool]:
    """Return the outcome of a call that was started, empty if it did nothing, and whether that is known."""
    name, record = intent.name, journal_of(ctx).find(intent.path)
    assert record is not None  # it has an intent
    unknown = f"{name} was interrupted, and whether it took effect is unknown"
    # What the function returned comes first: the outcome may be an error of the layers around it, or of a hook.
    outcome = record.returned or (record.outcomes[-1] if record.outcomes else None)
    if isinstance(outcome, Failure):  # of a step, or with which a tool has ended its agent
        return (unknown, False) if kind_of(as_error(outcome.error)) == "interrupted" else ("", True)
    if outcome is not None:
        if is_tool_call(intent.path):
            result = as_type(outcome.value, ToolResult)
        else:  # of a step
            result = result_of(as_type(outcome.value, object), ToolCall("", name, "{}"))
        if result.error and (result.error != "interrupted" or record.never_began or _failure_since(record, ctx)):
            return "", True
        return f"{name}: {result.text:.500}", result.error is None
    decision = None if record.decided is None else decision_of(record.decided.decision)
    if decision is None and (intent.once == "ask" or record.pending is not None):
        await _decision_on_interrupted(as_type(intent.request, ToolCall), ctx)
    if isinstance(decision, Happened):
        return f"{name}: {decision.result:.500}", True
    if isinstance(decision, DidNotHappen):
        return "", True
    return unknown, False
