"""Calls of tools that act once only: run, and settled if it is unknown whether they took effect.

An agent that fails reports such calls that were started below it, so that nothing else is called in its place.
"""

from asyncio import CancelledError

from ziggurat.calls.wait import item_of, wait
from ziggurat.core.codec import as_type
from ziggurat.core.context import Context
from ziggurat.core.errors import NotRepeatable, Suspend, is_transient
from ziggurat.core.failures import NO_OUTCOMES
from ziggurat.core.path import is_beneath, is_tool_call, upwards
from ziggurat.core.service import Service
from ziggurat.journal.entries import Decided, Failure, Intent, Record, Result, Returned
from ziggurat.journal.journal import LocalJournal, journal_of
from ziggurat.journal.lines import as_error
from ziggurat.messages.agent import Decision, Deny, DidNotHappen, Happened, decision_of
from ziggurat.messages.model import ToolSpec
from ziggurat.messages.parts import ToolCall, ToolResult
from ziggurat.tools.guarded_call import Frozen
from ziggurat.tools.outcome import is_lost, unknown_outcome
from ziggurat.tools.results import kind_of, result_of, text_of_error


async def make_once(
    service: Service[ToolCall, ToolResult], spec: ToolSpec, frozen: Frozen, ctx: Context, journal: LocalJournal
) -> ToolResult:
    """Make a call of a tool that acts once only; after a timeout or a lost connection, settle it as after a crash."""
    own = frozen.call
    try:
        return await service(ToolCall(own.id, own.name, own.arguments), ctx.freezing(frozen))
    except CancelledError:
        journal.acts.running.discard(ctx.path)
        raise
    except Exception as error:
        if frozen.unknown is None and not (frozen.runs and is_lost(error)):
            raise
        journal.acts.running.discard(ctx.path)
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


async def settle_equal(intent: Intent, ctx: Context, *, begun: bool) -> None:
    """Have a person find out what came of equal calls of the run before a call runs, and note that it runs."""
    journal = journal_of(ctx)
    unknown = False
    for act in journal.acts.equal(intent.digest):
        if act.path != ctx.path and not _is_running(act.path, journal):
            _, known = await _what_came_of(act, Context(act.path, ctx.emit, ctx.watch, ctx.scope))
            unknown = unknown or not known
    if unknown and not begun:
        journal.hold(intent)
        await _decision_on_interrupted(as_type(intent.request, ToolCall), ctx)
    journal.acts.running.add(ctx.path)


def _is_running(path: str, journal: LocalJournal) -> bool:
    """Return whether a call runs in this process, and nothing around it has ended without it."""
    results = (record.result for above in upwards(path) if (record := journal.find(above)) is not None)
    return path in journal.acts.running and not any(results)


def note_never_began(ctx: Context, journal: LocalJournal) -> None:
    """Record with the next entry that a call with an intent was cancelled before it began, such as by a limiter."""
    if not journal.closed:
        journal.hold(Decided(ctx.path, "", DidNotHappen(), journal.watch.elapsed))


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
    """Return a person's decision on a call that was interrupted, and may or may not have taken effect."""
    reason = "it was interrupted, and nobody knows whether it took effect"
    return await wait(item_of(call, ctx, reason=reason, interrupted=True), ctx)


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
    outcome = record.returned or (record.outcomes[-1] if record.outcomes else None)
    if isinstance(outcome, Failure):  # of a step, or with which a tool has ended its agent
        return (unknown, False) if kind_of(as_error(outcome.error)) == "interrupted" else ("", True)
    if outcome is not None:
        result = as_type(outcome.value, ToolResult) if is_tool_call(intent.path) else _result_of_step(name, outcome)
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


def _result_of_step(name: str, outcome: Returned | Result) -> ToolResult:
    return result_of(as_type(outcome.value, object), ToolCall("", name, "{}"))
