"""However a tool hangs, control returns within its timeout and the grace."""

import asyncio
import gc
import sys
import threading
from typing import Any

import pytest

from tests.turns import until
from ziggurat import Agent, Context, Event, Timeout, Toolbox, ToolCall, tool
from ziggurat.agents import Environment
from ziggurat.calls.tool_call import act, call_tools
from ziggurat.core import CLOCK
from ziggurat.core.context import JOURNAL, Scope
from ziggurat.events import ToolAbandoned
from ziggurat.journal import LocalJournal
from ziggurat.messages import stops, tool_call
from ziggurat.testing import HandClock, ScriptedModel, assert_no_leaks
from ziggurat.testing.loop import run_until_idle
from ziggurat.tools.guarded_call import ABANDONED_CALLS, GRACE, end_tasks
from ziggurat.tools.threads import POOL


def _ctx(clock: Any) -> Context:
    return Context("run", scope=Scope({JOURNAL: LocalJournal(), CLOCK: clock}))


@tool
async def good(number: int) -> int:
    for _ in range(10):
        await asyncio.sleep(0)
    return number


async def test_a_tool_that_hangs_times_out() -> None:
    @tool(timeout=2)
    async def hangs() -> str:
        await asyncio.Event().wait()
        return "never"

    clock = HandClock(auto=True)
    result = await act(Toolbox([hangs]), ToolCall("c", "hangs"), _ctx(clock))
    assert result.error == "timeout"
    assert "hangs timed out after 2 s" in result.text
    assert clock.monotonic() == 2


async def test_the_run_deadline_bounds_a_tool_without_a_timeout() -> None:
    @tool
    async def stubborn() -> str:
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if released.is_set():
                    raise

    released = asyncio.Event()
    clock = HandClock(auto=True)
    leaked = ABANDONED_CALLS.count
    with pytest.raises(Timeout):
        async with _ctx(clock).limit(5) as ctx:
            await act(Toolbox([stubborn]), ToolCall("c", "stubborn"), ctx)
    assert clock.monotonic() == 5 + GRACE
    assert ABANDONED_CALLS.count == leaked + 1
    released.set()


@pytest.mark.parametrize("how", ["swallows", "cleans up too long", "shields itself again"])
async def test_a_tool_that_will_not_stop_gives_control_back_within_timeout_and_grace(how: str) -> None:
    heard: list[Event] = []
    clock, released = HandClock(auto=True), asyncio.Event()

    @tool(timeout=2)
    async def stubborn() -> str:
        if how == "shields itself again":
            while not released.is_set():
                try:
                    await asyncio.shield(asyncio.ensure_future(released.wait()))
                except asyncio.CancelledError:
                    continue
            return "late"
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await released.wait()
            if how == "cleans up too long":
                raise
        return "late"

    leaked, running = ABANDONED_CALLS.count, ABANDONED_CALLS.running
    ctx = _ctx(clock).heard_by(heard.append)
    result = await act(Toolbox([stubborn]), ToolCall("c", "stubborn"), ctx)
    assert result.error == "timeout"
    assert clock.monotonic() == 2 + GRACE
    assert (ABANDONED_CALLS.count, ABANDONED_CALLS.running) == (leaked + 1, running + 1)
    (event,) = [event for event in heard if isinstance(event, ToolAbandoned)]
    assert (event.name, event.leaked) == ("stubborn", leaked + 1)
    released.set()
    for _ in range(10):
        await asyncio.sleep(0)
    assert ABANDONED_CALLS.running == running, "what was left behind is let go of when it ends"


async def test_a_tool_that_cleans_up_within_the_grace_is_waited_for() -> None:
    cleaned: list[bool] = []

    @tool(timeout=2)
    async def tidy(ctx: Context) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            await ctx.clock.sleep(GRACE / 2)
            cleaned.append(True)
        return "never"

    async with assert_no_leaks():
        clock, leaked = HandClock(auto=True), ABANDONED_CALLS.count
        result = await act(Toolbox([tidy]), ToolCall("c", "tidy"), _ctx(clock))
        assert result.error == "timeout"
        assert cleaned == [True]
        assert ABANDONED_CALLS.count == leaked
        assert clock.monotonic() == 2 + GRACE / 2


async def test_siblings_of_a_tool_that_will_not_stop_are_kept() -> None:
    clock, released = HandClock(auto=True), asyncio.Event()

    @tool(timeout=2)
    async def stubborn() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await released.wait()
        return "late"

    calls = (tool_call("good", id="a", number=1), ToolCall("b", "stubborn"), tool_call("good", id="c", number=3))
    results = await call_tools(Toolbox([stubborn, good]), calls, _ctx(clock), "step-1")
    assert [(each.text, each.error) for each in results[::2]] == [("1", None), ("3", None)]
    assert results[1].error == "timeout"
    released.set()


async def test_a_tool_left_behind_by_the_end_of_its_run_is_counted_once() -> None:
    """An abandoned tool is counted only once, not again by its batch."""

    async with assert_no_leaks():
        clock, released = HandClock(auto=True), asyncio.Event()

        @tool
        async def stubborn() -> str:
            while not released.is_set():
                try:
                    await released.wait()
                except asyncio.CancelledError:
                    continue
            return "late"

        leaked = ABANDONED_CALLS.count
        with pytest.raises(Timeout):
            async with _ctx(clock).limit(2) as ctx:
                calls = (tool_call("good", id="a", number=1), ToolCall("b", "stubborn"))
                await call_tools(Toolbox([stubborn, good]), calls, ctx, "step-1")
        assert clock.monotonic() == 2 + GRACE
        assert ABANDONED_CALLS.count == leaked + 1
        released.set()
        await run_until_idle()


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("timeout", [60.0, None])
async def test_a_tool_that_cancels_the_task_it_runs_in_cancels_nothing_else(batch: bool, timeout: float | None) -> None:
    if not batch and timeout is None:
        pytest.skip("alone and without a limit it runs in the task of its run, and cancels that")

    @tool(timeout=timeout)
    async def suicidal() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)
        return "never"

    async with assert_no_leaks():
        calls = [ToolCall("b", "suicidal"), tool_call("good", id="c", number=3)][: 2 if batch else 1]
        run = await Agent(ScriptedModel(calls, "done"), tools=[suicidal, good]).run(
            "go", environment=Environment(clock=HandClock())
        )
        assert run.text == "done"
        first, *rest = (result for message in run.messages for result in message.tool_results)
        assert (first.text, first.error) == ("the tool cancelled the task it ran in", "permanent")
        assert [each.text for each in rest] == ["3"][: len(rest)]


@pytest.mark.parametrize("error", [ValueError("in cleaning up"), SystemExit(3)])
async def test_what_a_tool_raises_when_it_is_cancelled_is_not_reported_as_lost(error: BaseException) -> None:
    lost: list[object] = []

    @tool
    async def sore() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise error from None
        return "never"

    async with assert_no_leaks():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: lost.append(context))
        agent = Agent(ScriptedModel([ToolCall("b", "sore"), ToolCall("c", "sore")]), tools=[sore], timeout=5)
        run = await agent.run("go", environment=Environment(clock=HandClock(auto=True)))
        assert stops.status_of(run.stop) == "Timeout"
    gc.collect()
    assert lost == []


async def test_a_cancelled_run_gets_control_back_from_a_timed_tool_that_swallows_it() -> None:
    clock, released, entered = HandClock(), asyncio.Event(), asyncio.Event()

    @tool(timeout=60)
    async def stubborn() -> str:
        entered.set()
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue
        return "late"

    task = asyncio.ensure_future(act(Toolbox([stubborn]), ToolCall("c", "stubborn"), _ctx(clock)))
    await entered.wait()
    task.cancel()
    for _ in range(5):
        await asyncio.sleep(0)
    task.cancel()  # again, while it is waited for
    await clock.advance(GRACE)
    with pytest.raises(asyncio.CancelledError):
        await task
    released.set()


async def test_a_sync_tool_that_hangs_times_out_and_its_thread_is_written_off() -> None:
    entered, released = threading.Event(), threading.Event()

    @tool(timeout=2)
    def hangs() -> str:
        entered.set()
        released.wait()
        return "late"

    clock, before = HandClock(), POOL.written_off
    acting = asyncio.ensure_future(act(Toolbox([hangs]), ToolCall("c", "hangs"), _ctx(clock)))
    await until(entered.is_set)
    await clock.advance(2)
    result = await acting
    assert result.error == "timeout"
    assert clock.monotonic() <= 2 + GRACE
    assert POOL.written_off == before + 1
    released.set()
    await until(lambda: POOL.written_off == before)  # threads are not waited for


def _deaf(limit: float | None) -> Any:
    @tool(timeout=limit)
    async def deaf() -> str:
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue

    return deaf


@pytest.mark.timeout(10)
@pytest.mark.parametrize(("limit", "of_all"), [(2, None), (None, 3)], ids=["its own timeout", "the run's"])
def test_an_event_loop_ends_though_a_tool_never_does(limit: float | None, of_all: float | None) -> None:
    leaked = ABANDONED_CALLS.count
    agent = Agent(ScriptedModel(tool_call("deaf"), "well"), tools=[_deaf(limit)], timeout=of_all)
    run = agent.run_sync("go", environment=Environment(clock=HandClock(auto=True)))
    assert ABANDONED_CALLS.count == leaked + 1
    if limit is None:
        assert run.stop == stops.TimedOut(3)
    else:
        assert (run.text, run.observations) == ("well", ("the tool deaf timed out after 2 s",))


@pytest.mark.timeout(10)
async def test_what_was_left_behind_is_found() -> None:
    with pytest.raises(AssertionError, match="deaf"):
        async with assert_no_leaks():
            agent = Agent(ScriptedModel(tool_call("deaf"), "well"), tools=[_deaf(2)])
            await agent.run("go", environment=Environment(clock=HandClock(auto=True)))


async def test_settling_nothing_is_quick() -> None:
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    done.set_result(None)
    await end_tasks([done], _ctx(HandClock()), name="nothing")


@pytest.mark.skipif(sys.version_info < (3, 13), reason="see limits: a failed task group looks the same before")
async def test_a_run_stops_though_a_tool_keeps_its_cancellation_to_itself() -> None:
    begun: list[int] = []

    @tool
    async def swallows() -> str:
        begun.append(1)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "kept"
        return "never"

    async with assert_no_leaks():
        model = ScriptedModel(tool_call("swallows"), tool_call("swallows"), "never")
        agent = Agent(model, tools=[swallows], store="memory:")
        task = asyncio.ensure_future(agent.run("go", run_id="r"))
        await run_until_idle()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(begun) == 1
        assert len(model.calls) == 1
