"""Make a tool call: every tool call of every agent goes through `act`, in this order.

look up the journal > decode > before_tool > decode > freeze > permissions > approval > budgets > intent
> wrap_tool > the tool's own layers > the guarded call of the function > error becomes a result > after_tool > record
"""

__all__ = ["act"]

from asyncio import CancelledError
from typing import Any

from msgspec.structs import replace

from ziggurat.calls.admission import ADMISSION, admit_tool
from ziggurat.calls.agent_call import AGENT_CALL
from ziggurat.calls.call_decision import is_waiting, refuse, waiting_call
from ziggurat.calls.failures import failure_at, note_failure
from ziggurat.calls.gate import WAITING_CALLS, ApprovedCall, pass_gate, refuse_second
from ziggurat.calls.hooks import MIDDLEWARE, NO_CHAIN, HookChain, hooked, run_hooks, tell, wrap
from ziggurat.calls.once import after_acts, make_once, settle_unknown
from ziggurat.core.clock import CLOCK, SYSTEM_CLOCK
from ziggurat.core.codec import as_type
from ziggurat.core.containment import as_failure
from ziggurat.core.context import Context
from ziggurat.core.entries import Intent, Record, Result
from ziggurat.core.errors import JournalError, ToolError
from ziggurat.core.event import SILENCE
from ziggurat.core.failures import Cause
from ziggurat.core.journal import LocalJournal, journal_of
from ziggurat.core.scope import Key
from ziggurat.messages.events import ApprovalExecuted, ToolEnded, ToolStarted
from ziggurat.messages.parts import ToolCall, ToolResult
from ziggurat.messages.usage import add_tool_call
from ziggurat.tools.approval import APPROVALS
from ziggurat.tools.fork_effects import FORK_EFFECTS
from ziggurat.tools.function import APPROVED_CALL, TOOL_DELTAS
from ziggurat.tools.guarded_call import Frozen
from ziggurat.tools.permissions import DECLARED_ONLY, PERMISSION_LOG, note_unknown
from ziggurat.tools.permissions import check as check_permissions
from ziggurat.tools.results import error_result
from ziggurat.tools.toolbox import Toolbox, ToolEntry

_CONCERNS: frozenset[Key[Any]] = frozenset(
    (ADMISSION, APPROVALS, DECLARED_ONLY, FORK_EFFECTS, PERMISSION_LOG, WAITING_CALLS)
)
"""What may see, count or refuse calls before they are made, besides hooks."""

_BROKEN_OFF = CancelledError("the run was broken off")
"""What interrupted a call that an earlier process has begun."""


async def act(box: Toolbox, call: ToolCall, ctx: Context) -> ToolResult:
    """Make one tool call and return its result; every failure of the tool, a denial too, becomes an error result here.

    Raises:
        Suspend: the call waits for a decision.
        JournalError: the record cannot be written or followed.
        ConfigurationError: the tool was used wrongly, or uses something wrongly.
    """
    journal = journal_of(ctx)
    record = journal.find(ctx.path)
    if record is not None and record.result is not None:
        return await _recorded_result(record.result, call, ctx, journal)
    chain = ctx.scope.get(MIDDLEWARE) or NO_CHAIN
    monotonic = (ctx.scope.get(CLOCK) or SYSTEM_CLOCK).monotonic
    started = monotonic()
    timed = journal.durable or ctx.watch is not journal.watch  # else the next entry of the model has the time
    if ctx.emit is not SILENCE:
        await ctx.emit(ToolStarted(ctx.path, call))
    entry = box.entries.get(call.name)
    if journal.refusing and not _is_replayed(entry, ctx, journal):
        refuse(call.name, ctx, journal)
    try:
        if entry is None:
            note_unknown(call.name, ctx)
            raise ToolError(box.unknown(call.name), kind="not_found")
        if entry.plain and record is None and chain is NO_CHAIN and not timed and _CONCERNS.isdisjoint(ctx.scope):
            # nothing sees the call before its function: to make it like any other takes 1.2 us more, of 8 for a step
            result = await entry.service(call, ctx.freezing(Frozen(call, entry.spec.effect, ctx.path, False)))
        else:
            result = await _make(entry, record, call, ctx, chain, journal)
    except JournalError:
        raise
    except BaseException as raised:  # noqa: BLE001 - the model is told of any failure of a tool
        error = await after_acts(as_failure(raised), ctx)
        result = await _failed(error, f"the tool {call.name}", call, ctx, chain)
    if chain.hooks["after_tool"] or result.id != call.id:
        result = await _apply_after_tool(result, call, ctx, chain)
    stored = journal.append(Result(ctx.path, call.name, call, result, (), journal.watch.elapsed if timed else 0.0))
    if stored is not None:  # `await journal.write(...)` takes 0.2 us longer
        await stored
    add_tool_call(ctx.scope.get(AGENT_CALL))
    seconds = monotonic() - started
    if entry is not None:
        entry.statistics.add(seconds, result)
    if result.error is not None or ctx.emit is not SILENCE:
        await _report_end(box, call, result, seconds, ctx)
    return result


async def _report_end(box: Toolbox, call: ToolCall, result: ToolResult, seconds: float, ctx: Context) -> None:
    failure = None if result.error is None else failure_at(ctx, keep=box.on_error == "raise")
    if ctx.emit is not SILENCE:
        cause = None if failure is None else Cause.of(failure)
        await ctx.emit(ToolEnded(ctx.path, call, result, seconds, cause=cause))


async def _recorded_result(recorded: Result, call: ToolCall, ctx: Context, journal: LocalJournal) -> ToolResult:
    result = await journal.answer(ctx, recorded, call.name, call, ToolResult)
    if ctx.listens(ToolEnded):
        await ctx.emit(ToolEnded(ctx.path, call, result, 0.0, True))
    return result if result.id == call.id else replace(result, id=call.id)


def _is_replayed(entry: ToolEntry | None, ctx: Context, journal: LocalJournal) -> bool:
    """Return whether a call is that of an agent that was entered: a replay runs it from the record of its calls."""
    return journal.replaying and entry is not None and entry.composite and journal.is_entered(ctx.path)


async def _failed(raised: BaseException, what: str, call: ToolCall, ctx: Context, chain: HookChain) -> ToolResult:
    """Return the error result of a call that failed; raise what the model must not get.

    That is `Suspend` and the like, and mistakes of the programmer.
    """
    error = as_failure(raised)
    await tell(chain, error, ctx)
    note_failure(error, what, ctx)
    return error_result(error, call)


async def _apply_after_tool(result: ToolResult, call: ToolCall, ctx: Context, chain: HookChain) -> ToolResult:
    for middleware in reversed(chain.hooks["after_tool"]):
        try:
            result = await hooked(middleware, "after_tool", result, ctx)
        except BaseException as raised:  # noqa: BLE001 - as above; a result the hook did not pass must not be used
            result = await _failed(raised, f"the hook {middleware.name}.after_tool", call, ctx, chain)
    return result if result.id == call.id else replace(result, id=call.id)


async def _make(
    entry: ToolEntry, record: Record | None, call: ToolCall, ctx: Context, chain: HookChain, journal: LocalJournal
) -> ToolResult:
    """Check a call, admit it, record that it begins, and run it.

    The guard below all layers refuses every call but the frozen one.
    """
    spec = entry.spec
    hooks = chain.hooks["before_tool"]
    if entry.checked or record is not None or hooks or not _CONCERNS.isdisjoint(ctx.scope):
        passed = await _check(entry, record, call, ctx, chain)
        if isinstance(passed, ToolResult):
            return passed
        frozen, decided = passed.call, passed.id
    else:
        frozen, decided = entry.normalize(call), ""
    once = spec.effect == "once"
    if record is not None and record.intent is not None:
        intended = record.pending is not None  # a person has decided about a call that was started before
    else:  # the call may be lost, or cancelled with those beside it, or its form is not that of the model
        beside = ctx.watch is not journal.watch  # that of the run: nothing is made at the same time
        intended = journal.durable or beside or once or decided != "" or hooks != ()
    if ADMISSION in ctx.scope:
        admit_tool(frozen.name, ctx)
    if intended:
        unknown = spec.interrupted if once else ""
        await journal.write(Intent(ctx.path, frozen.name, frozen, frozen.fingerprint(), unknown))
    own = ToolCall(frozen.id, frozen.name, frozen.arguments)  # a copy that nothing below can reach
    if decided and ctx.listens(ApprovalExecuted):
        await ctx.emit(ApprovalExecuted(ctx.path, decided, own))
    service = entry.service
    if chain is not NO_CHAIN:
        if chain.hooks["on_tool_delta"]:
            ctx = ctx.within(TOOL_DELTAS, lambda text, ctx: run_hooks(chain, "on_tool_delta", text, ctx))
        service = wrap(service, chain, "wrap_tool")
    if once:
        return await make_once(service, spec, own, ctx, journal)
    approved = Frozen(own, spec.effect, ctx.path)
    ctx = ctx.within(APPROVED_CALL, approved) if entry.composite else ctx.freezing(approved)
    return await service(frozen, ctx)


async def _check(
    entry: ToolEntry, record: Record | None, call: ToolCall, ctx: Context, chain: HookChain
) -> ApprovedCall | ToolResult:
    """Return a call as it may be made, which hooks, permissions, rules and people have seen; or its result.

    It has one if it was made before, and in a fork that makes no effects that of the original run.
    """
    if record is not None and (record.intent is not None or record.returned is not None):
        return await _resume_begun(entry, record, call, ctx, chain)
    if FORK_EFFECTS in ctx.scope and (original := _result_before_fork(entry, call, ctx)) is not None:
        return original
    hooked_or_waits = record is not None or chain.hooks["before_tool"]
    frozen = await _freeze(entry, record, call, ctx, chain) if hooked_or_waits else entry.normalize(call)
    check_permissions(entry.spec, ctx)
    return await _approve(entry, record, frozen, ctx)


async def _resume_begun(
    entry: ToolEntry, record: Record, call: ToolCall, ctx: Context, chain: HookChain
) -> ApprovedCall | ToolResult:
    """Return the frozen call of an intent without a result, or the result if it is known."""
    if record.returned is not None:  # of a tool with effect="once", before layers and hooks processed it
        return as_type(record.returned.value, ToolResult)
    assert record.intent is not None
    frozen = as_type(record.intent.request, ToolCall)
    if entry.spec.effect == "once":
        happened = await settle_unknown(entry.spec, frozen, record, ctx, _BROKEN_OFF)
        if happened is not None:
            return happened
    check_permissions(entry.spec, ctx)
    journal_of(ctx).skip(ctx, record.intent)
    if frozen.fingerprint() != record.intent.digest:
        digest, frozen = record.intent.digest, await _apply_before_tool(entry, entry.normalize(call), ctx, chain)
        if digest not in (frozen.fingerprint(), call.fingerprint()):  # older records hold the call as it was asked
            raise _not_kept_error(call)
    return ApprovedCall(frozen)


def _not_kept_error(call: ToolCall) -> ToolError:
    return ToolError(
        f"{call.name} was not run: not all of its arguments were kept on record, and the hooks before it did not make "
        "the same call again; ask for it again",
        kind="interrupted",
    )


def _result_before_fork(entry: ToolEntry, call: ToolCall, ctx: Context) -> ToolResult | None:
    """Return the result that the original run of a fork has for a call with effects; None if the call is to be made."""
    if entry.composite:
        return None
    spec = entry.spec
    effects = ctx.scope[FORK_EFFECTS]
    original = effects.instead(spec.effect, spec.name, call.fingerprint(), ctx.path, ToolResult)
    return None if original is None else original[0]


async def _freeze(entry: ToolEntry, record: Record | None, call: ToolCall, ctx: Context, chain: HookChain) -> ToolCall:
    """Return a call in its normal form: the one that waits for a decision, or as the hooks leave the model's."""
    waiting = None if record is None else waiting_call(record, ctx)
    if record is not None and waiting is not None:
        journal_of(ctx).skip(ctx, record.pending)
        return entry.normalize(waiting)
    frozen = await _apply_before_tool(entry, entry.normalize(call), ctx, chain)
    lost = record is not None and record.pending is not None
    if record is not None and lost and not any(is_waiting(each, record, ctx) for each in (frozen, call)):
        raise _not_kept_error(call)
    return frozen


async def _approve(entry: ToolEntry, record: Record | None, frozen: ToolCall, ctx: Context) -> ApprovedCall:
    """Return a permitted call as it was approved, if it must be decided on."""
    spec = entry.spec
    waits = record is not None and waiting_call(record, ctx) is not None
    if not waits and spec.effect != "none" and WAITING_CALLS in ctx.scope:
        refuse_second(frozen, ctx)
    if not (spec.approval or APPROVALS in ctx.scope or waits):
        return ApprovedCall(frozen)
    passed = await pass_gate(frozen, "tool", record, ctx, entry.normalize, always=spec.approval)
    check_permissions(spec, ctx)
    return passed


async def _apply_before_tool(entry: ToolEntry, call: ToolCall, ctx: Context, chain: HookChain) -> ToolCall:
    """Return the normalized call as the hooks left it, in its normal form."""
    changed = await run_hooks(chain, "before_tool", call, ctx)
    if changed is call:
        return call
    if changed.name != call.name:
        raise ToolError(f"a middleware turned the call of {call.name} into one of {changed.name}; it was not run")
    return entry.normalize(changed)
