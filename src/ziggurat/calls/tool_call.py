"""Make a tool call: every tool call of every agent goes through `act`, in this order.

look up the journal > decode > before_tool > decode > freeze > permissions > approval > budgets > intent
> wrap_tool > the tool's own layers > the function's door > error becomes a result > after_tool > record
"""

__all__ = ["act"]

from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from ziggurat.calls.admission import ADMISSION, admit_tool
from ziggurat.calls.gate import is_waiting, pass_gate, refuse, waiting_call
from ziggurat.calls.hooks import MIDDLEWARE, NO_CHAIN, Chain, hooked, tell, wrap
from ziggurat.calls.interrupted import settle_interrupted
from ziggurat.core.clock import CLOCK, SYSTEM_CLOCK
from ziggurat.core.codec import as_type
from ziggurat.core.containment import as_failure
from ziggurat.core.context import METER, Context
from ziggurat.core.entries import Intent, Record, Result
from ziggurat.core.errors import JournalError, ToolError
from ziggurat.core.event import SILENCE
from ziggurat.core.journal import MemoryJournal, journal_of
from ziggurat.core.service import Service
from ziggurat.messages.events import ApprovalExecuted, ToolEnded, ToolStarted
from ziggurat.messages.middleware import Middleware
from ziggurat.messages.parts import ToolCall, ToolResult
from ziggurat.messages.usage import TOOL_CALL
from ziggurat.tools.approval import APPROVALS
from ziggurat.tools.fork_effects import FORK_EFFECTS
from ziggurat.tools.function import AGREED, TOOL_DELTAS, Frozen
from ziggurat.tools.permissions import check as check_permissions
from ziggurat.tools.permissions import note_unknown
from ziggurat.tools.results import error_result
from ziggurat.tools.toolbox import Entry, Toolbox


async def act(box: Toolbox, call: ToolCall, ctx: Context) -> ToolResult:
    """Make one tool call and return its result; errors of the tool become error results.

    Raises:
        Suspend: the call waits for a decision.
        JournalError: the record cannot be written or followed.
    """
    scope = ctx.scope
    journal = journal_of(ctx)
    record = journal.find(ctx.path)
    if record is not None and record.result is not None:
        return await _recorded_result(record.result, call, ctx, journal)
    monotonic = (scope.get(CLOCK) or SYSTEM_CLOCK).monotonic
    started = monotonic()
    if ctx.emit is not SILENCE:
        await ctx.emit(ToolStarted(ctx.path, call))
    entry = box.entries.get(call.name)
    if journal.refusing and not (
        journal.replaying and entry is not None and entry.composite and journal.is_entered(ctx.path)
    ):
        refuse(record, call.name, "tool", ctx, journal)
    result = await _act_live(box, entry, record, call, ctx, journal)
    await journal.write(Result(ctx.path, call.name, call, result, (), journal.elapsed if journal.durable else 0.0))
    meter = scope.get(METER)
    if meter is not None:
        meter.add(TOOL_CALL)
    seconds = monotonic() - started
    if entry is not None:
        entry.statistics.add(seconds, result)
    if ctx.emit is not SILENCE:
        await ctx.emit(ToolEnded(ctx.path, call, result, seconds))
    return result


async def _recorded_result(recorded: Result, call: ToolCall, ctx: Context, journal: MemoryJournal) -> ToolResult:
    result = await journal.answer(ctx, recorded, call.name, call, ToolResult)
    if ctx.listens(ToolEnded):
        await ctx.emit(ToolEnded(ctx.path, call, result, 0.0, True))
    return result if result.id == call.id else replace(result, id=call.id)


async def _act_live(
    box: Toolbox, entry: Entry | None, record: Record | None, call: ToolCall, ctx: Context, journal: MemoryJournal
) -> ToolResult:
    """Make a call that has no recorded result; every failure, a denial too, becomes an error result here."""
    chain = ctx.scope.get(MIDDLEWARE) or NO_CHAIN
    try:
        if entry is None:
            note_unknown(call.name, ctx)
            raise ToolError(box.unknown(call.name), kind="not_found")
        result = _known_result(entry, record, call, ctx)
        if result is None and record is not None and record.intent is not None:
            result = await _resume_begun(entry, record, call, ctx, chain)
        elif result is None:
            result = await _run(entry, await _freeze(entry, record, call, ctx, journal, chain), ctx, chain)
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
    return result if result.id == call.id else replace(result, id=call.id)


def _known_result(entry: Entry, record: Record | None, call: ToolCall, ctx: Context) -> ToolResult | None:
    """Return the result that a tool with ``effect="once"`` gave before a crash, or the run that was forked."""
    effects = None if entry.composite else ctx.scope.get(FORK_EFFECTS)
    forked = None if effects is None else effects.instead(entry.spec, call, ctx.path)
    if forked is not None or record is None or record.returned is None:
        return forked
    return as_type(record.returned.value, ToolResult)


async def _resume_begun(entry: Entry, record: Record, call: ToolCall, ctx: Context, chain: Chain) -> ToolResult:
    """Run the frozen call of an intent without a result, or return its result if a person has reported it.

    Raises:
        ToolError: the tool has ``effect="once"`` and it is unknown whether the call took effect.
        Suspend: a person must find out whether it took effect.
        Denied: a permission it had when it began is no longer granted.
        JournalCorrupt: the record is damaged, or its decision belongs to another call.
    """
    assert record.intent is not None
    frozen = as_type(record.intent.request, ToolCall)
    if entry.spec.effect == "once":
        happened = await settle_interrupted(entry.spec, frozen, record, ctx)
        if happened is not None:
            return happened
    check_permissions(entry.spec, ctx)
    if frozen.fingerprint() != record.intent.digest:
        digest, frozen = record.intent.digest, await _apply_before_tool(entry, entry.normalize(call), ctx, chain)
        if digest not in (frozen.fingerprint(), call.fingerprint()):  # older records hold the call as it was asked
            raise _not_kept_error(call)
    admit_tool(call.name, ctx)
    if record.pending is not None:
        await journal_of(ctx).write(Intent(ctx.path, frozen.name, frozen, frozen.fingerprint()))
    return await _run(entry, frozen, ctx, chain)


def _not_kept_error(call: ToolCall) -> ToolError:
    return ToolError(
        f"{call.name} was not run: not all of its arguments were kept on record, and the hooks before it did not make "
        "the same call again; ask for it again",
        kind="interrupted",
    )


async def _freeze(
    entry: Entry, record: Record | None, call: ToolCall, ctx: Context, journal: MemoryJournal, chain: Chain
) -> ToolCall:
    """Decode, permit, approve, admit and record a call, and return it in its final form."""
    spec = entry.spec
    waiting = waiting_call(record, ctx) if record is not None and record.pending is not None else None
    if waiting is not None:
        frozen = entry.normalize(waiting)
    else:
        frozen = entry.normalize(call)
        if chain.hooks["before_tool"]:
            frozen = await _apply_before_tool(entry, frozen, ctx, chain)
        lost = record is not None and record.pending is not None
        if record is not None and lost and not any(is_waiting(each, record, ctx) for each in (frozen, call)):
            raise _not_kept_error(call)
    check_permissions(spec, ctx)
    approved = ""
    if spec.approval or APPROVALS in ctx.scope or waiting is not None:
        passed = await pass_gate(frozen, "tool", record, ctx, entry.normalize, always=spec.approval)
        frozen, approved = passed.call, passed.id
        check_permissions(spec, ctx)
    if ADMISSION in ctx.scope:
        admit_tool(call.name, ctx)
    if spec.effect == "once" or journal.durable or chain.hooks["before_tool"] or approved:
        await journal.write(Intent(ctx.path, frozen.name, frozen, frozen.fingerprint()))
    if approved and ctx.listens(ApprovalExecuted):
        await ctx.emit(ApprovalExecuted(ctx.path, approved, ToolCall(frozen.id, frozen.name, frozen.arguments)))
    return frozen


async def _apply_before_tool(entry: Entry, call: ToolCall, ctx: Context, chain: Chain) -> ToolCall:
    """Return the normalized call as the hooks left it, in its normal form."""
    changed = call
    for middleware in chain.hooks["before_tool"]:
        changed = await hooked(middleware, "before_tool", middleware.before_tool, changed, ctx)
    if changed is call:
        return call
    if changed.name != call.name:
        raise ToolError(f"a middleware turned the call of {call.name} into one of {changed.name}; it was not run")
    return entry.normalize(changed)


def _run(entry: Entry, frozen: ToolCall, ctx: Context, chain: Chain) -> Awaitable[ToolResult]:
    """Run the frozen call; the door below all layers refuses every other."""
    own = ToolCall(frozen.id, frozen.name, frozen.arguments)  # a copy that nothing below can reach
    ctx = ctx.within(AGREED, own) if entry.composite else ctx.freezing(Frozen(own, entry.spec.effect, ctx.path))
    if chain is NO_CHAIN:
        return entry.service(frozen, ctx)
    if chain.hooks["on_tool_delta"]:
        ctx = ctx.within(TOOL_DELTAS, _filter_deltas(chain))
    service = wrap(entry.service, chain.hooks["wrap_tool"], _wrap_tool, "wrap_tool")
    return service(frozen, ctx)


async def _wrap_tool(
    middleware: Middleware, call: ToolCall, ctx: Context, tool: Service[ToolCall, ToolResult]
) -> ToolResult:
    return await middleware.wrap_tool(call, ctx, tool)


def _filter_deltas(chain: Chain) -> Callable[[str, Context], Awaitable[str]]:
    """Return a function that changes each piece of a tool's output as middleware does."""

    async def change(text: str, ctx: Context) -> str:
        for middleware in chain.hooks["on_tool_delta"]:
            text = await hooked(middleware, "on_tool_delta", middleware.on_tool_delta, text, ctx)
        return text

    return change
