"""The tool calls of one reply: together, in order, and none left without an answer."""

__all__ = ["call_tool", "call_tools", "not_executed"]

import asyncio
from collections.abc import Awaitable

from ziggurat.core.context import JOURNAL, METER, Context
from ziggurat.core.entries import Result
from ziggurat.core.errors import Suspend, ToolError
from ziggurat.core.path import escaped
from ziggurat.messages.events import ToolEnded
from ziggurat.messages.parts import ToolCall, ToolResult
from ziggurat.messages.usage import TOOL_CALL
from ziggurat.tools.act import act
from ziggurat.tools.door import settle
from ziggurat.tools.toolbox import Toolbox


def call_tool(box: Toolbox, call: ToolCall, ctx: Context, step: str) -> Awaitable[ToolResult]:
    """Make the only tool call of a reply; no task is made for it."""
    at = ctx.at(f"{step}/tool-1:{escaped(call.name)}")
    return act(box, call, at) if box.on_error == "return" else _strictly(box, call, at)


async def _strictly(box: Toolbox, call: ToolCall, ctx: Context) -> ToolResult:
    result = await act(box, call, ctx)
    _raise_failures(box, (result,))
    return result


async def call_tools(box: Toolbox, calls: tuple[ToolCall, ...], ctx: Context, step: str) -> tuple[ToolResult, ...]:
    """Make the tool calls of a reply at once and return their results in the order of the calls.

    Calls stand at ``step-1/tool-1:name``, ``step-1/tool-2:name`` ... beneath the context, whatever ids the provider
    gave them. When one waits for a decision, the others finish and are kept first.

    Raises:
        Suspend: at least one call waits for a decision.
        ToolError: a call failed and the box says that this ends the run.
    """
    contexts = [ctx.at(f"{step}/tool-{number}:{escaped(call.name)}") for number, call in enumerate(calls, 1)]
    results = await _together(box, calls, contexts, ctx)
    if box.on_error == "raise":
        _raise_failures(box, results)
    return results


async def _together(
    box: Toolbox, calls: tuple[ToolCall, ...], contexts: list[Context], ctx: Context
) -> tuple[ToolResult, ...]:
    room = asyncio.Semaphore(box.concurrency) if box.concurrency is not None and box.concurrency < len(calls) else None

    async def limited(call: ToolCall, at: Context) -> ToolResult:
        if room is None:
            return await act(box, call, at)
        async with room:
            return await act(box, call, at)

    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(_waiting_as_value(limited(call, at))) for call, at in zip(calls, contexts, strict=True)]
    try:
        await _joined(box, tasks, ctx)
    except BaseException:
        await settle(tasks, ctx, name="a batch of tool calls")
        raise
    outcomes = [await _outcome(task, call, at) for task, call, at in zip(tasks, calls, contexts, strict=True)]
    pending = tuple(item for outcome in outcomes if isinstance(outcome, Suspend) for item in outcome.pending)
    if pending:
        raise Suspend(pending)
    return tuple(outcome for outcome in outcomes if isinstance(outcome, ToolResult))


async def _waiting_as_value(call: Awaitable[ToolResult]) -> ToolResult | Suspend:
    """Keep a suspension from flying out of its task, where a BaseException would stop the event loop."""
    try:
        return await call
    except Suspend as suspend:
        return suspend


async def _joined(box: Toolbox, tasks: "list[asyncio.Task[ToolResult | Suspend]]", ctx: Context) -> None:
    waiting = set(tasks)
    until = asyncio.FIRST_COMPLETED if box.join == "fail_fast" else asyncio.FIRST_EXCEPTION
    while waiting:
        done, waiting = await asyncio.wait(waiting, return_when=until)
        failed = [task for task in tasks if task in done and task.exception() is not None]
        if failed:
            failed[0].result()
        if box.join == "fail_fast" and any(_is_failure(task) for task in done):
            await settle(tasks, ctx, name="a batch of tool calls")
            return


def _is_failure(task: "asyncio.Task[ToolResult | Suspend]") -> bool:
    outcome = task.result()
    return isinstance(outcome, ToolResult) and outcome.error is not None


async def _outcome(task: "asyncio.Task[ToolResult | Suspend]", call: ToolCall, ctx: Context) -> ToolResult | Suspend:
    """Return what came of a call; that it was cancelled depended on timing, so it is recorded."""
    if task.done() and not task.cancelled():
        return task.result()
    journal = ctx.scope[JOURNAL]
    record = journal.find(ctx.path)
    result = not_executed((call,), "another call of the batch failed")[0]
    if record is not None and record.intent is not None:
        told = "interrupted: another call of the batch failed while this one ran; whether it took effect is unknown"
        result = ToolResult(call.id, call.name, told, "interrupted", call.name)
    waiting = journal.append(Result(ctx.path, call.name, call, result))
    if waiting is not None:
        await waiting
    meter = ctx.scope.get(METER)
    if meter is not None:
        meter.add(TOOL_CALL)
    if ctx.listens(ToolEnded):
        await ctx.emit(ToolEnded(ctx.path, call, result, 0.0))
    return result


def _raise_failures(box: Toolbox, results: tuple[ToolResult, ...]) -> None:
    failed = [result for result in results if result.error not in (None, "interrupted")]
    if not failed:
        return
    if box.join == "fail_fast" or len(failed) == 1:
        raise ToolError(f"{failed[0].name}: {failed[0].text}", kind=failed[0].error or "permanent")
    texts = "; ".join(f"{result.name}: {result.text}" for result in failed)
    raise ToolError(f"one or more tools failed: {texts}", kind=failed[0].error or "permanent")


def not_executed(calls: tuple[ToolCall, ...], why: str) -> tuple[ToolResult, ...]:
    """Answer calls that the end of a run left unexecuted, so that the conversation can be sent again."""
    return tuple(ToolResult(call.id, call.name, f"not executed: {why}", "interrupted", call.name) for call in calls)
