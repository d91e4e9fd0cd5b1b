"""Make a tool call: every tool call of every agent goes through `act`, in this order.

look up the journal > decode > before_tool > decode > freeze > permissions > approval > intent
> wrap_tool > the tool's own layers > the function's door > error becomes a result > after_tool > record
"""

__all__ = ["act"]

from functools import partial

import msgspec

from ziggurat.core.clock import CLOCK, SYSTEM_CLOCK
from ziggurat.core.codec import as_type
from ziggurat.core.containment import as_failure
from ziggurat.core.context import JOURNAL, METER, Context, Journal
from ziggurat.core.entries import Intent, Record, Result
from ziggurat.core.errors import JournalError, Suspend, ToolError
from ziggurat.core.event import SILENCE, Diverged
from ziggurat.core.service import Service
from ziggurat.messages.approval import is_waiting, item_of, waiting_call, written
from ziggurat.messages.events import ApprovalExecuted, ToolEnded, ToolStarted
from ziggurat.messages.hooks import hooked, tell
from ziggurat.messages.middleware import MIDDLEWARE, Chain, Middleware
from ziggurat.messages.parts import ToolCall, ToolResult
from ziggurat.messages.usage import TOOL_CALL
from ziggurat.tools.approval import APPROVALS, agree
from ziggurat.tools.fork_effects import FORK_EFFECTS
from ziggurat.tools.function import AGREED, Frozen
from ziggurat.tools.interrupted import settle_interrupted
from ziggurat.tools.permissions import check as check_permissions
from ziggurat.tools.permissions import note_unknown
from ziggurat.tools.results import error_result
from ziggurat.tools.toolbox import Entry, Toolbox

_NO_CHAIN = Chain()


async def act(box: Toolbox, call: ToolCall, ctx: Context) -> ToolResult:
    """Make one tool call and return its result; errors of the tool become error results.

    Raises:
        Suspend: the call waits for a decision.
        JournalError: the record cannot be written or followed.
    """
    scope = ctx.scope
    journal = scope[JOURNAL]
    monotonic = (scope.get(CLOCK) or SYSTEM_CLOCK).monotonic
    started = monotonic()
    entry = box.entries.get(call.name)
    chain = scope.get(MIDDLEWARE)
    durable = journal.durable
    free = not durable and (chain is None or not chain.acts) and APPROVALS not in scope
    plainly = entry if free and entry is not None and entry.plain else None
    record = None if plainly is not None and journal.known is None else journal.find(ctx.path)
    if record is not None and record.result is not None:
        return await _recorded_result(record.result, call, ctx, journal)
    if ctx.emit is not SILENCE:
        await ctx.emit(ToolStarted(ctx.path, call))
    if journal.refusing:
        _refuse(record, call, ctx, journal)
    if plainly is not None and record is None:
        try:
            service = plainly.service
            result = await (service(call, ctx) if plainly.held is None else _call_layered(plainly, call, ctx))
        except JournalError:
            raise
        except BaseException as error:  # noqa: BLE001 - the model is told of any failure of a tool
            result = error_result(as_failure(error), call)
    else:
        result = await _act_through_stages(box, entry, record, call, ctx, journal, chain or _NO_CHAIN)
    waiting = journal.append(Result(ctx.path, call.name, call, result, (), journal.elapsed if durable else 0.0))
    if waiting is not None:
        await waiting
    meter = scope.get(METER)
    if meter is not None:
        meter.add(TOOL_CALL)
    seconds = monotonic() - started
    if entry is not None:
        figures = entry.statistics
        figures.calls += 1
        figures.seconds += seconds
        if result.error is not None:
            figures.errors += 1
    if ctx.emit is not SILENCE:
        await ctx.emit(ToolEnded(ctx.path, call, result, seconds))
    return result


def _refuse(record: Record | None, call: ToolCall, ctx: Context, journal: Journal) -> None:
    """Raise for a call that has no recorded result, as Suspend if it was waiting for a decision."""
    if journal.replaying and record is not None and record.waits:
        assert record.pending is not None
        item = item_of(waiting_call(record, ctx) or call, ctx)
        raise Suspend((msgspec.structs.replace(item, id=record.pending.id),))
    journal.missing(ctx.path, call.name)


async def _call_layered(entry: Entry, call: ToolCall, ctx: Context) -> ToolResult:
    """Freeze a call that goes through layers, so that a layer cannot change what is run."""
    frozen = entry.normalize(call)
    result = await entry.service(frozen, ctx.freezing(Frozen(frozen, entry.spec.effect, ctx.path), alone=True))
    return result if result.id == call.id else msgspec.structs.replace(result, id=call.id)


async def _recorded_result(recorded: Result, call: ToolCall, ctx: Context, journal: Journal) -> ToolResult:
    result = as_type(recorded.value, ToolResult)
    meter = ctx.scope.get(METER)
    for usage in journal.pass_over(recorded):
        if meter is not None:
            meter.add(usage)
    known = recorded.request if isinstance(recorded.request, ToolCall) else None
    asked = call.fingerprint()
    was = known.fingerprint() if known is not None else as_type(recorded.request, str)
    event = journal.diverged(ctx.path, "tool call", f"{recorded.name} {was}", f"{call.name} {asked}")
    if event is not None and ctx.listens(Diverged):
        await ctx.emit(event)
    if ctx.listens(ToolEnded):
        await ctx.emit(ToolEnded(ctx.path, call, result, 0.0, True))
    return result if result.id == call.id else msgspec.structs.replace(result, id=call.id)


async def _act_through_stages(
    box: Toolbox,
    entry: Entry | None,
    record: Record | None,
    call: ToolCall,
    ctx: Context,
    journal: Journal,
    chain: Chain,
) -> ToolResult:
    """Make a call through all stages; used when hooks, approvals, a durable journal or an earlier attempt need it."""
    try:
        if entry is None:
            note_unknown(call.name, ctx)
            raise ToolError(box.unknown(call.name), kind="not_found")
        held = None if entry.composite else ctx.scope.get(FORK_EFFECTS)
        kept = None if held is None else held.instead(entry.spec, call, ctx.path)
        if kept is not None:
            result = kept
        elif record is not None and record.returned is not None:
            result = as_type(record.returned.value, ToolResult)
        else:
            begun = record is not None and record.intent is not None
            frozen = (
                await _resume_begun(entry, record, call, ctx, chain)
                if begun
                else await _freeze(entry, record, call, ctx, journal, chain)
            )
            result = frozen if isinstance(frozen, ToolResult) else await _run(entry, frozen, ctx, chain)
    except JournalError:
        raise
    except BaseException as raised:  # noqa: BLE001 - the model is told of any failure of a tool
        error = as_failure(raised)
        await tell(chain, error, ctx)
        result = error_result(error, call)
    for middleware in reversed(chain.hooks["after_tool"]):
        try:
            result = await hooked(middleware, "after_tool", middleware.after_tool, result, ctx)
        except BaseException as raised:  # noqa: BLE001 - as above; a result the hook did not pass must not be used
            error = as_failure(raised)
            await tell(chain, error, ctx)
            result = error_result(error, call)
    return result if result.id == call.id else msgspec.structs.replace(result, id=call.id)


async def _resume_begun(
    entry: Entry, record: Record | None, call: ToolCall, ctx: Context, chain: Chain
) -> ToolCall | ToolResult:
    """Return the frozen call of an intent without a result, or its result if a person has reported it.

    Raises:
        ToolError: the tool has ``effect="once"`` and it is unknown whether the call took effect.
        Suspend: a person must find out whether it took effect.
        Denied: a permission it had when it began is no longer granted.
        JournalCorrupt: the record is damaged, or its decision belongs to another call.
    """
    assert record is not None
    assert record.intent is not None
    frozen = as_type(record.intent.request, ToolCall)
    if entry.spec.effect == "once":
        happened = await settle_interrupted(entry.spec, frozen, record, ctx)
        if happened is not None:
            return happened
    check_permissions(entry.spec, ctx)
    if frozen.fingerprint() != record.intent.digest:
        digest, frozen = record.intent.digest, await _prepare(entry, call, ctx, chain)
        if digest not in (frozen.fingerprint(), call.fingerprint()):  # older records hold the call as it was asked
            raise _not_kept_error(call)
    if record.pending is not None:
        await written(ctx.scope[JOURNAL], Intent(ctx.path, frozen.name, frozen, frozen.fingerprint()))
    return frozen


def _not_kept_error(call: ToolCall) -> ToolError:
    return ToolError(
        f"{call.name} was not run: not all of its arguments were kept on record, and the hooks before it did not make "
        "the same call again; ask for it again",
        kind="interrupted",
    )


async def _freeze(
    entry: Entry, record: Record | None, call: ToolCall, ctx: Context, journal: Journal, chain: Chain
) -> ToolCall:
    """Check, permit, approve and record a call, and return it in its final form."""
    waits = record is not None and record.pending is not None
    waiting = waiting_call(record, ctx) if record is not None and waits else None
    if waiting is not None:
        frozen = entry.normalize(waiting)
    else:
        frozen = await _prepare(entry, call, ctx, chain)
        if record is not None and waits and not any(is_waiting(each, record, ctx) for each in (frozen, call)):
            raise _not_kept_error(call)
    check_permissions(entry.spec, ctx)
    agreed = ""
    gates = ctx.scope.get(APPROVALS)
    if waits or entry.spec.approval or gates:
        passed = await agree(entry.spec, entry.normalize, frozen, record, ctx)
        frozen, agreed = passed.call, passed.id
        check_permissions(entry.spec, ctx)
    if entry.spec.effect == "once" or journal.durable or chain.hooks["before_tool"] or agreed:
        await written(journal, Intent(ctx.path, frozen.name, frozen, frozen.fingerprint()))
    if agreed and ctx.listens(ApprovalExecuted):
        await ctx.emit(ApprovalExecuted(ctx.path, agreed, ToolCall(frozen.id, frozen.name, frozen.arguments)))
    return frozen


async def _prepare(entry: Entry, call: ToolCall, ctx: Context, chain: Chain) -> ToolCall:
    """Return the call in its normal form, as the hooks before it left it."""
    call = changed = entry.normalize(call)
    for middleware in chain.hooks["before_tool"]:
        changed = await hooked(middleware, "before_tool", middleware.before_tool, changed, ctx)
    if changed is not call:
        if changed.name != call.name:
            raise ToolError(f"a middleware turned the call of {call.name} into one of {changed.name}; it was not run")
        changed = entry.normalize(changed)
    return changed


async def _run(entry: Entry, frozen: ToolCall, ctx: Context, chain: Chain) -> ToolResult:
    kept = ToolCall(frozen.id, frozen.name, frozen.arguments)  # a copy that nothing below can reach
    service = entry.service
    frozen_at = Frozen(kept, entry.spec.effect, ctx.path)
    ctx = ctx.within(AGREED, kept) if entry.composite else ctx.freezing(frozen_at)
    for middleware in reversed(chain.hooks["wrap_tool"]):
        service = partial(_call_wrapped, middleware, service)
    return await service(frozen, ctx)


async def _call_wrapped(
    middleware: Middleware, inner: Service[ToolCall, ToolResult], call: ToolCall, ctx: Context
) -> ToolResult:
    return await middleware.wrap_tool(call, ctx, inner)
