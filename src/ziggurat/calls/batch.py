"""Run the tool calls of one reply concurrently; results come in call order, and every call gets one."""

import asyncio
from collections.abc import Awaitable
from functools import partial

from ziggurat.calls.agent_call import AGENT_CALL
from ziggurat.calls.failures import failure_at
from ziggurat.calls.tool_call import act
from ziggurat.core.context import Context
from ziggurat.core.errors import Suspend, ToolError
from ziggurat.core.path import escaped
from ziggurat.core.stopwatch import Stopwatch
from ziggurat.journal.entries import PlainResult
from ziggurat.journal.journal import journal_of
from ziggurat.messages.events import ToolEnded
from ziggurat.messages.parts import ToolCall, ToolResult
from ziggurat.messages.usage import add_tool_call
from ziggurat.tools.guarded_call import CANCELLED_ITSELF, GRACE, end_tasks
from ziggurat.tools.toolbox import Quorum, Toolbox


def _grace(ctx: Context) -> float:
    # Under a deadline it is longer than the grace in `guarded_call`, so that a tool is not abandoned and counted twice.
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
    box: Toolbox, calls: tuple[ToolCall, ...], ctx: Context, step: str, unwanted: str = ""
) -> tuple[ToolResult, ...]:
    """Make the tool calls of a reply concurrently and return their results in the order of the calls."""
    contexts = [ctx.at(f"{step}/tool-{number}:{escaped(call.name)}") for number, call in enumerate(calls, 1)]
    results = await _call_together(box, calls, contexts, ctx, unwanted)
    if box.on_error == "raise":
        await _raise_failures(box, results, contexts)
    return results


async def _call_together(
    box: Toolbox, calls: tuple[ToolCall, ...], contexts: list[Context], ctx: Context, unwanted: str
) -> tuple[ToolResult, ...]:
    from ziggurat.core.fan_out import FanOut, raise_suspended  # many runs make one call at a time

    results: list[ToolResult] = []

    def make(call: ToolCall, at: Context, watch: Stopwatch) -> Awaitable[ToolResult]:
        return act(box, call, at.timed(watch))

    def enough(outcome: ToolResult | Suspend) -> str:
        if isinstance(outcome, Suspend):
            return ""
        results.append(outcome)
        return _reason_to_cancel(box, results, outcome)

    slots = None
    if box.concurrency is not None:
        from ziggurat.layers.concurrency_limit import Bulkhead  # most batches have no limit

        slots = Bulkhead(box.concurrency, queue=len(calls))
    fan_out: FanOut[ToolResult] = FanOut(
        [partial(make, call, at) for call, at in zip(calls, contexts, strict=True)],
        partial(end_tasks, ctx=ctx, name="a batch of tool calls", grace=_grace(ctx)),
        ctx,
        slots=slots,
        enough=None if box.join == "join_all" else enough,
    )
    why = unwanted or await fan_out.run()
    outcomes = [
        await _outcome(box, task, call, at, why) for task, call, at in zip(fan_out.tasks, calls, contexts, strict=True)
    ]
    raise_suspended(outcomes)
    return tuple(outcome for outcome in outcomes if isinstance(outcome, ToolResult))


REDIRECTED = "the run was redirected"
"""Why calls are not wanted any more when the model gets another task."""

_NO_FAILURE = (None, "interrupted", "retry")
_FAILED = "another call of the batch failed"
_ENOUGH = "enough other calls have succeeded"


def _reason_to_cancel(box: Toolbox, results: list[ToolResult], latest: ToolResult) -> str:
    """Return why the calls that still run are no longer needed, empty if they are needed."""
    if box.join == "fail_fast":
        return _FAILED if latest.error is not None else ""
    if isinstance(box.join, Quorum):
        return _ENOUGH if sum(result.error is None for result in results) >= box.join.count else ""
    return ""


async def _outcome(
    box: Toolbox, task: "asyncio.Task[ToolResult | Suspend] | None", call: ToolCall, ctx: Context, why: str
) -> ToolResult | Suspend:
    """Return the outcome of a call; record a cancellation, because it depended on timing."""
    if task is not None and task.done() and not task.cancelled():
        outcome = task.result()
        if isinstance(outcome, ToolResult) or not why:
            return outcome  # else it waits for a decision that is no longer needed
    journal = journal_of(ctx)
    record = journal.find(ctx.path)
    if record is not None and record.result is not None:
        return await act(box, call, ctx)  # it has a recorded result, from this process or an earlier one
    intent = None if record is None or record.never_began else record.intent
    if intent is not None and intent.once in ("ask", "report"):
        try:
            return await act(box, call, ctx)  # it may have taken effect, and is settled as after a crash
        except Suspend as suspend:
            return suspend
    result = not_executed((call,), why)[0]
    if not why:
        result = ToolResult(call.id, call.name, CANCELLED_ITSELF, "permanent", call.name)
    elif intent is not None:
        text = f"interrupted: {why} while this one ran; whether it took effect is unknown"
        result = ToolResult(call.id, call.name, text, "interrupted", call.name)
    stored = journal.write(PlainResult(ctx.path, call.name, call, result))
    add_tool_call(ctx.scope.get(AGENT_CALL), ctx.path)
    await stored
    if ctx.listens(ToolEnded):
        await ctx.emit(ToolEnded(ctx.path, call, result, 0.0))
    return result


async def _raise_failures(box: Toolbox, results: tuple[ToolResult, ...], contexts: list[Context]) -> None:
    """Raise if a call failed; its failure is recorded after its result, so that the call is made again on resume."""
    failed = [(result, ctx) for result, ctx in zip(results, contexts, strict=True) if result.error not in _NO_FAILURE]
    if not failed or (isinstance(box.join, Quorum) and _reason_to_cancel(box, [*results], results[0])):
        return
    texts = [f"{result.name}: {result.text}" for result, _ in failed]
    for (result, ctx), text in zip(failed, texts, strict=True):
        error = ToolError(text, kind=result.error or "permanent")
        error.__cause__ = failure_at(ctx)
        record = journal_of(ctx).find(ctx.path)
        if record is None or not record.has_failed:  # else the failure is on record, from a process that was lost
            await journal_of(ctx).write_failure(ctx, result.name, result.name, error)
    kind = failed[0][0].error or "permanent"
    if box.join == "fail_fast" or len(failed) == 1:
        raise ToolError(texts[0], kind=kind) from failure_at(failed[0][1])
    causes = [cause for _, ctx in failed if (cause := failure_at(ctx)) is not None]
    raise ToolError(f"one or more tools failed: {'; '.join(texts)}", kind=kind) from next(iter(causes), None)


def not_executed(calls: tuple[ToolCall, ...], why: str) -> tuple[ToolResult, ...]:
    """Return results for calls that were not made, so that the conversation can be sent again."""
    return tuple(ToolResult(call.id, call.name, f"not executed: {why}", "interrupted", call.name) for call in calls)
