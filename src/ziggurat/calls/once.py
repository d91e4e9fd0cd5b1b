"""Calls that act once only, of a tool or a step: they are begun once, and settled if their outcome is unknown.

What came of those that have begun is found out before others take their place.
"""

from asyncio import CancelledError
from typing import TypeVar

from ziggurat.calls import wait
from ziggurat.core import errors
from ziggurat.core.codec import as_error, as_type
from ziggurat.core.context import Context
from ziggurat.core.failures import NO_OUTCOMES
from ziggurat.core.path import is_beneath, is_tool_call, upwards
from ziggurat.core.service import Service
from ziggurat.core.tasks import as_failure
from ziggurat.journal import entries
from ziggurat.journal.journal import LocalJournal, journal_of
from ziggurat.messages.agent import Decision, Deny, DidNotHappen, Happened
from ziggurat.messages.message import ToolCall, ToolResult
from ziggurat.messages.model import ToolSpec
from ziggurat.tools import results
from ziggurat.tools.guarded_call import Frozen, second_run_error
from ziggurat.tools.outcome import unknown_in, unknown_outcome

Q = TypeVar("Q")
R = TypeVar("R")


async def settle_equal(call: ToolCall, intent: entries.Intent | None, ctx: Context) -> None:
    """Have a person find out what came of equal calls before a call runs, and note that it runs."""
    journal = journal_of(ctx)
    unknown = False
    for act in journal.index.equal_acts(call.fingerprint()):
        if act.path != ctx.path and not _is_running(act.path, journal):
            _, known = await what_came_of(act, Context(act.path, ctx.emit, ctx.watch, ctx.scope))
            unknown = unknown or not known
    if unknown and intent is not None:  # else the call itself has begun before
        # Written with the question: an intent alone would be taken for a call that had begun when the process was lost.
        journal.append(intent, hold=True)
        await decision_on_interrupted(call, ctx)
    journal.index.running.add(ctx.path)


def _is_running(path: str, journal: LocalJournal) -> bool:
    outcomes = (record.result for above in upwards(path) if (record := journal.find(above)) is not None)
    return path in journal.index.running and not any(outcomes)


async def make_once(service: Service[ToolCall, ToolResult], spec: ToolSpec, frozen: Frozen, ctx: Context) -> ToolResult:
    """Make a call of a tool that acts once only; after a timeout or a lost connection, settle it as after a crash."""
    own, journal = frozen.call, journal_of(ctx)
    try:
        return await service(ToolCall(own.id, own.name, own.arguments), ctx.freezing(frozen))
    except CancelledError:
        journal.index.running.discard(ctx.path)
        raise
    except Exception as error:
        if (unknown := unknown_in(frozen, error)) is None:
            raise
        journal.index.running.discard(ctx.path)
        record = journal.find(ctx.path)
        assert record is not None  # it has an intent
        if record.returned is not None:  # only layers around it failed
            return await _pass_again(service, frozen, record.returned, ctx)
        settled = await settle_unknown(spec, own, record, ctx, unknown)
        if settled is None:  # it would be made again when the run is resumed; here it has had its chance
            raise unknown from error
        return settled


async def _pass_again(
    service: Service[ToolCall, ToolResult], frozen: Frozen, returned: entries.Returned, ctx: Context
) -> ToolResult:
    """Give layers what the function has returned once more, as after a crash; they may hide it, so nothing else may."""
    own = frozen.call
    again = Frozen(own, frozen.effect, frozen.path, returned=as_type(returned.value, ToolResult))
    try:
        return await service(ToolCall(own.id, own.name, own.arguments), ctx.freezing(again))
    except Exception as error:
        raise second_run_error(own.name, error) from error


async def run_once(service: Service[Q, R], request: Q, fingerprint: str, name: str, ctx: Context) -> R:
    """Record that a step that acts once only begins, and run it; raise if it was begun before."""
    journal = journal_of(ctx)
    record = journal.find(ctx.path)
    if record is not None and record.intent is not None and not record.never_began:
        raise _begun_before(name, record)
    frozen = Frozen(ToolCall("", name, fingerprint), "once", ctx.path)
    try:
        await journal.write(entries.Intent(ctx.path, name, fingerprint, fingerprint, "report"))
        return await service(request, ctx.freezing(frozen))
    except BaseException as raised:
        note_never_began(raised, frozen, ctx)
        error = as_failure(raised)
        if (unknown := unknown_in(frozen, error)) is None:
            raise
        raise unknown from error


def _begun_before(name: str, record: entries.Record) -> Exception:
    """Return the error of a step that was begun before: how it failed then, if it did."""
    failure = next((each for each in reversed(record.withdrawn) if isinstance(each, entries.Failure)), None)
    if failure is None:
        return unknown_outcome(name)
    error = as_error(failure.error)
    return error if isinstance(error, errors.NotRepeatable) else second_run_error(name, error)


async def settle_unknown(
    spec: ToolSpec, call: ToolCall, record: entries.Record, ctx: Context, unknown: errors.NotRepeatable | None = None
) -> ToolResult | None:
    """Return the result of a begun call as a person reported it; None to run it, as it may be repeated."""
    # The approver in this process is not asked: one that approves everything would let the call run twice.
    policy = spec.interrupted if record.pending is None else "ask"  # once a person was asked, that stands
    if policy == "retry_if_idempotent" or record.never_began:
        return None
    if (failure := failure_since(record, ctx)) is not None:
        text = f"{failure.text} ({spec.name} acts once only and has been run; it was not run again)"
        raise errors.NotRepeatable(text, kind="interrupted")
    if policy == "report":
        raise unknown or unknown_outcome(spec.name)
    decision = await decision_on_interrupted(call, ctx)
    if isinstance(decision, Happened):
        return results.result_of(decision.result, call)
    if isinstance(decision, Deny):
        raise errors.NotRepeatable(
            f"{spec.name} was interrupted and acts once only, so it was not run again; whether it took effect is "
            f"unknown: {decision.reason}",
            kind="interrupted",
        )
    return None


def note_never_began(raised: BaseException, frozen: Frozen, ctx: Context) -> None:
    """Record with the next entry that a call with an intent was cancelled before it began, such as by a limiter."""
    journal = journal_of(ctx)
    if isinstance(raised, CancelledError) and not frozen.runs and not journal.closed:
        journal.append(entries.Decided(ctx.path, "", DidNotHappen(), journal.watch.elapsed), hold=True)


# -- the outcomes of those that have begun ---------------------------------------------------------------------------


def failure_since(record: entries.Record, ctx: Context) -> ToolResult | None:
    """Return the error with which a begun call has ended its agent, which asks for it again; None if it has not."""
    for entry in reversed(journal_of(ctx).entries):
        if entry is record.intent:
            break
        if isinstance(entry, entries.Result) and entry.path == ctx.path:
            result = as_type(entry.value, ToolResult)
            if result.error != "interrupted":
                return result
    return None


async def decision_on_interrupted(call: ToolCall, ctx: Context) -> Decision:
    reason = "it was interrupted, and nobody knows whether it took effect"
    record = journal_of(ctx).find(ctx.path)
    return await wait.for_decision(wait.item_of(call, ctx, reason=reason, interrupted=True, record=record), ctx)


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
            note, known = await what_came_of(intent, Context(intent.path, ctx.emit, ctx.watch, ctx.scope))
        except errors.Suspend as suspend:
            waiting += suspend.pending
            continue
        notes += [note] if note else []
        unknown = unknown or not known
    if waiting:
        raise errors.Suspend(tuple(waiting)) from error
    if not notes or isinstance(error, errors.NotRepeatable):
        return error
    text = f"{results.text_of_error(error)}; do not repeat it blindly, what was done is done: {'; '.join(notes)}"
    failed = errors.NotRepeatable(text, kind="interrupted" if unknown else results.kind_of(error))
    failed.transient, failed.original, failed.__cause__ = errors.is_transient(error), error, error
    return failed


async def what_came_of(intent: entries.Intent, ctx: Context) -> tuple[str, bool]:
    """Return the outcome of a call that was started, empty if it did nothing, and whether that is known."""
    name, record = intent.name, journal_of(ctx).find(intent.path)
    assert record is not None  # it has an intent
    unknown = f"{name} was interrupted, and whether it took effect is unknown"
    outcome = record.outcomes[-1] if record.outcomes else None
    if record.returned is not None and as_type(record.returned.value, ToolResult).error is None:
        passed_on = isinstance(outcome, entries.Result) and as_type(outcome.value, ToolResult).error is None
        if not passed_on:  # layers and hooks may hide what the function returned, so it is not told
            return f"{name} was run, and its result is lost", True
    if isinstance(outcome, entries.Failure):  # of a step, or with which a tool has ended its agent
        return (unknown, False) if results.kind_of(as_error(outcome.error)) == "interrupted" else ("", True)
    if outcome is not None:
        if is_tool_call(intent.path):
            result = as_type(outcome.value, ToolResult)
        else:  # of a step
            result = results.result_of(as_type(outcome.value, object), ToolCall("", name, "{}"))
        if result.error and (result.error != "interrupted" or record.never_began or failure_since(record, ctx)):
            return "", True
        return f"{name}: {result.text:.500}", result.error is None
    decision = wait.recorded_decision(record)
    if decision is None and (intent.once == "ask" or record.pending is not None):
        await decision_on_interrupted(as_type(intent.request, ToolCall), ctx)
    if isinstance(decision, Happened):
        return f"{name}: {decision.result:.500}", True
    if isinstance(decision, DidNotHappen):
        return "", True
    return unknown, False
