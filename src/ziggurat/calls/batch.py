"""Run the tool calls of one reply concurrently; results come in call order, and every call gets one."""

__all__ = ["Unwanted", "call_tool", "call_tools", "not_executed"]

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext

from ziggurat.calls.agent_call import AGENT_CALL
from ziggurat.calls.tool_call import act
from ziggurat.core.containment import contained
from ziggurat.core.context import METER, Context
from ziggurat.core.entries import Result
from ziggurat.core.errors import RecordEnds, Suspend, ToolError
from ziggurat.core.journal import journal_of
from ziggurat.core.path import escaped
from ziggurat.messages.events import ToolEnded
from ziggurat.messages.parts import ToolCall, ToolResult
from ziggurat.messages.usage import TOOL_CALL
from ziggurat.tools.guarded_call import CANCELLED_ITSELF, GRACE, settle
from ziggurat.tools.toolbox import Quorum, Toolbox

Unwanted = Callable[[], Awaitable[None]]
"""Returns when the calls of a reply are no longer wanted."""


def _grace(ctx: Context) -> float:
    """Return the seconds cancelled calls have to end.

    Under a deadline it is longer than the grace in `guarded_call`, so that a tool is not abandoned and counted twice.
    """
    return GRACE if ctx.deadline is None else 1.25 * GRACE


def call_tool(box: Toolbox, call: ToolCall, ctx: Context, step: str) -> Awaitable[ToolResult]:
    """Make the only tool call of a reply, without a task."""
    name = call.name if call.name.isidentifier() else escaped(call.name)
    at = ctx.at(f"{step}/tool-1:{name}")
    return act(box, call, at) if box.on_error == "return" else _call_or_raise(box, call, at)


async def _call_or_raise(box: Toolbox, call: ToolCall, ctx: Context) -> ToolResult:
    result = await act(box, call, ctx)
    await _raise_failures(box, (result,), [ctx])
    return result


async def call_tools(
    box: Toolbox, calls: tuple[ToolCall, ...], ctx: Context, step: str, dropped: Unwanted | None = None
) -> tuple[ToolResult, ...]:
    """Make the tool calls of a reply concurrently and return their results in the order of the calls.

    Their paths are ``step-1/tool-1:name``, ``step-1/tool-2:name`` ... below the context, whatever ids the provider
    gave them. When one waits for a decision, the others finish and are recorded first. When `dropped` returns, those
    that still run are cancelled, and their results say so.

    Raises:
        Suspend: at least one call waits for a decision.
        ToolError: a call failed and the toolbox has ``on_error="raise"``.
    """
    contexts = [ctx.at(f"{step}/tool-{number}:{escaped(call.name)}") for number, call in enumerate(calls, 1)]
    results = await _call_together(box, calls, contexts, ctx, dropped)
    if box.on_error == "raise":
        await _raise_failures(box, results, contexts)
    return results


async def _call_together(
    box: Toolbox, calls: tuple[ToolCall, ...], contexts: list[Context], ctx: Context, dropped: Unwanted | None
) -> tuple[ToolResult, ...]:
    limited = box.concurrency is not None and box.concurrency < len(calls)
    room: AbstractAsyncContextManager[None] = asyncio.Semaphore(box.concurrency or 1) if limited else nullcontext()

    async def make(call: ToolCall, at: Context) -> ToolResult:
        async with room:
            with at.branch() as branch:
                return await act(box, call, branch)

    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(_catch_suspend(make(call, at))) for call, at in zip(calls, contexts, strict=True)]
    try:
        why = await (_join(box, tasks, ctx) if dropped is None else _join_or_drop(box, tasks, ctx, dropped))
    except BaseException:
        await settle(tasks, ctx, name="a batch of tool calls", grace=_grace(ctx))
        raise
    outcomes = [await _outcome(box, task, call, at, why) for task, call, at in zip(tasks, calls, contexts, strict=True)]
    suspends = [outcome for outcome in outcomes if isinstance(outcome, Suspend)]
    for suspend in suspends:
        if isinstance(suspend, RecordEnds):
            raise suspend
    if suspends:
        raise Suspend(tuple(item for suspend in suspends for item in suspend.pending))
    return tuple(outcome for outcome in outcomes if isinstance(outcome, ToolResult))


async def _catch_suspend(call: Awaitable[ToolResult]) -> ToolResult | Suspend:
    """Return a Suspend as a value: raised out of a task, a BaseException would stop the event loop."""
    try:
        return await call
    except Suspend as suspend:
        return suspend
    except (KeyboardInterrupt, SystemExit) as error:
        raise contained(error)  # noqa: B904 - it has its cause already


_NO_FAILURE = (None, "interrupted", "retry")
_FAILED = "another call of the batch failed"
_ENOUGH = "enough other calls have succeeded"
_REDIRECTED = "the run was redirected"


async def _join(box: Toolbox, tasks: "list[asyncio.Task[ToolResult | Suspend]]", ctx: Context) -> str:
    """Wait for the calls; return why the rest were cancelled, empty if none were."""
    waiting = set(tasks)
    until = asyncio.FIRST_EXCEPTION if box.join == "join_all" else asyncio.FIRST_COMPLETED
    while waiting:
        done, waiting = await asyncio.wait(waiting, return_when=until)
        ended = [task for task in tasks if task not in waiting and not task.cancelled()]
        failed = [task for task in ended if task in done and task.exception() is not None]
        if failed:
            failed[0].result()
        why = _reason_to_cancel(box, [task.result() for task in ended])
        if why:
            await settle(tasks, ctx, name="a batch of tool calls", grace=_grace(ctx))
            return why
    return ""


async def _join_or_drop(
    box: Toolbox, tasks: "list[asyncio.Task[ToolResult | Suspend]]", ctx: Context, dropped: Unwanted
) -> str:
    joined = asyncio.ensure_future(_join(box, tasks, ctx))
    drop = asyncio.ensure_future(dropped())
    try:
        await asyncio.wait([joined, drop], return_when=asyncio.FIRST_COMPLETED)
        if joined.done():
            return joined.result()
        drop.result()
        await settle([joined], ctx, name="a batch of tool calls", grace=_grace(ctx))
        if not joined.cancelled():
            return joined.result()
        await settle(tasks, ctx, name="a batch of tool calls", grace=_grace(ctx))
        return _REDIRECTED
    finally:
        joined.cancel()
        drop.cancel()


def _reason_to_cancel(box: Toolbox, outcomes: list[ToolResult | Suspend]) -> str:
    """Return why the calls that still run are no longer needed, empty if they are needed."""
    results = [outcome for outcome in outcomes if isinstance(outcome, ToolResult)]
    if box.join == "fail_fast":
        return _FAILED if any(result.error is not None for result in results) else ""
    if isinstance(box.join, Quorum):
        return _ENOUGH if sum(result.error is None for result in results) >= box.join.count else ""
    return ""


async def _outcome(
    box: Toolbox, task: "asyncio.Task[ToolResult | Suspend]", call: ToolCall, ctx: Context, why: str
) -> ToolResult | Suspend:
    """Return the outcome of a call; record a cancellation, because it depended on timing."""
    if task.done() and not task.cancelled():
        outcome = task.result()
        if isinstance(outcome, ToolResult) or not why:
            return outcome  # else it waits for a decision that is no longer needed
    journal = journal_of(ctx)
    record = journal.find(ctx.path)
    if record is not None and record.result is not None:
        return await act(box, call, ctx)  # it has a recorded result, from this process or an earlier one
    if record is not None and record.intent is not None and record.intent.once in ("ask", "report"):
        try:
            return await act(box, call, ctx)  # it may have taken effect, and is settled as after a crash
        except Suspend as suspend:
            return suspend
    result = not_executed((call,), why)[0]
    if not why:
        result = ToolResult(call.id, call.name, CANCELLED_ITSELF, "permanent", call.name)
    elif record is not None and record.intent is not None:
        told = f"interrupted: {why} while this one ran; whether it took effect is unknown"
        result = ToolResult(call.id, call.name, told, "interrupted", call.name)
    await journal.write(Result(ctx.path, call.name, call, result))
    meter = ctx.scope.get(METER)
    if meter is not None:
        meter.add(TOOL_CALL)
    if ctx.listens(ToolEnded):
        await ctx.emit(ToolEnded(ctx.path, call, result, 0.0))
    return result


async def _raise_failures(box: Toolbox, results: tuple[ToolResult, ...], contexts: list[Context]) -> None:
    """Raise if a call failed; its failure is recorded after its result, so that the call is made again on resume."""
    failed = [(result, ctx) for result, ctx in zip(results, contexts, strict=True) if result.error not in _NO_FAILURE]
    if not failed or (isinstance(box.join, Quorum) and _reason_to_cancel(box, [*results])):
        return
    texts = [f"{result.name}: {result.text}" for result, _ in failed]
    for (result, ctx), text in zip(failed, texts, strict=True):
        error = ToolError(text, kind=result.error or "permanent")
        error.__cause__ = _cause_of(ctx)
        await journal_of(ctx).write_failure(ctx, result.name, result.name, error)
    kind = failed[0][0].error or "permanent"
    if box.join == "fail_fast" or len(failed) == 1:
        raise ToolError(texts[0], kind=kind) from _cause_of(failed[0][1])
    causes = [cause for _, ctx in failed if (cause := _cause_of(ctx)) is not None]
    raise ToolError(f"one or more tools failed: {'; '.join(texts)}", kind=kind) from next(iter(causes), None)


def _cause_of(ctx: Context) -> Exception | None:
    """Return the error that became the result of a call, if it was unexpected."""
    caller = ctx.scope.get(AGENT_CALL)
    return None if caller is None else caller.failures.get(ctx.path)


def not_executed(calls: tuple[ToolCall, ...], why: str) -> tuple[ToolResult, ...]:
    """Return results for calls that were not made, so that the conversation can be sent again."""
    return tuple(ToolResult(call.id, call.name, f"not executed: {why}", "interrupted", call.name) for call in calls)
