"""Make a call that acts once only, of a tool or a step: begun once, and settled if its outcome is unknown."""

from asyncio import CancelledError
from typing import TypeVar

from ziggurat.calls.acts import decision_on_interrupted, failure_since, what_came_of
from ziggurat.core.codec import as_error, as_type
from ziggurat.core.context import Context
from ziggurat.core.errors import NotRepeatable
from ziggurat.core.path import upwards
from ziggurat.core.service import Service
from ziggurat.core.tasks import as_failure
from ziggurat.journal.entries import Decided, Failure, Intent, Record
from ziggurat.journal.journal import LocalJournal, journal_of
from ziggurat.messages.agent import Deny, DidNotHappen, Happened
from ziggurat.messages.message import ToolCall, ToolResult
from ziggurat.messages.model import ToolSpec
from ziggurat.tools.guarded_call import Frozen, second_run_error
from ziggurat.tools.outcome import unknown_in, unknown_outcome
from ziggurat.tools.results import result_of

Q = TypeVar("Q")
R = TypeVar("R")


async def settle_equal(call: ToolCall, intent: Intent | None, ctx: Context) -> None:
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
    results = (record.result for above in upwards(path) if (record := journal.find(above)) is not None)
    return path in journal.index.running and not any(results)


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
            return as_type(record.returned.value, ToolResult)
        settled = await settle_unknown(spec, own, record, ctx, unknown)
        if settled is None:  # it would be made again when the run is resumed; here it has had its chance
            raise unknown from error
        return settled


async def run_once(service: Service[Q, R], request: Q, fingerprint: str, name: str, ctx: Context) -> R:
    """Record that a step that acts once only begins, and run it; raise if it was begun before."""
    journal = journal_of(ctx)
    record = journal.find(ctx.path)
    if record is not None and record.intent is not None and not record.never_began:
        raise _begun_before(name, record)
    frozen = Frozen(ToolCall("", name, fingerprint), "once", ctx.path)
    try:
        await journal.write(Intent(ctx.path, name, fingerprint, fingerprint, "report"))
        return await service(request, ctx.freezing(frozen))
    except BaseException as raised:
        if isinstance(raised, CancelledError) and not frozen.runs:
            note_never_began(ctx)
        error = as_failure(raised)
        if (unknown := unknown_in(frozen, error)) is None:
            raise
        raise unknown from error


def _begun_before(name: str, record: Record) -> Exception:
    """Return the error of a step that was begun before: how it failed then, if it did."""
    failure = next((each for each in reversed(record.withdrawn) if isinstance(each, Failure)), None)
    if failure is None:
        return unknown_outcome(name)
    error = as_error(failure.error)
    return error if isinstance(error, NotRepeatable) else second_run_error(name, error)


async def settle_unknown(
    spec: ToolSpec, call: ToolCall, record: Record, ctx: Context, unknown: NotRepeatable | None = None
) -> ToolResult | None:
    """Return the result of a begun call as a person reported it; None to run it, as it may be repeated."""
    # The approver in this process is not asked: one that approves everything would let the call run twice.
    policy = spec.interrupted if record.pending is None else "ask"  # once a person was asked, that stands
    if policy == "retry_if_idempotent" or record.never_began:
        return None
    if (failure := failure_since(record, ctx)) is not None:
        text = f"{failure.text} ({spec.name} acts once only and has been run; it was not run again)"
        raise NotRepeatable(text, kind="interrupted")
    if policy == "report":
        raise unknown or unknown_outcome(spec.name)
    decision = await decision_on_interrupted(call, ctx)
    if isinstance(decision, Happened):
        return result_of(decision.result, call)
    if isinstance(decision, Deny):
        raise NotRepeatable(
            f"{spec.name} was interrupted and acts once only, so it was not run again; whether it took effect is "
            f"unknown: {decision.reason}",
            kind="interrupted",
        )
    return None


def note_never_began(ctx: Context) -> None:
    """Record with the next entry that a call with an intent was cancelled before it began, such as by a limiter."""
    journal = journal_of(ctx)
    if not journal.closed:
        journal.append(Decided(ctx.path, "", DidNotHappen(), journal.watch.elapsed), hold=True)
