"""Work under a limit: a task of its own, as every task of asyncio, which starts at once where Python can do that."""

import asyncio
import sys
from contextvars import ContextVar
from typing import Any

import pytest

from ziggurat import Context, Timeout, Toolbox, ToolCall, ToolError, tool
from ziggurat.calls.tool_call import act
from ziggurat.core import CLOCK
from ziggurat.core.context import JOURNAL, Scope
from ziggurat.journal import LocalJournal
from ziggurat.testing import HandClock, assert_no_leaks
from ziggurat.tools.guarded_call import run_bounded

NAME = ContextVar("NAME", default="nobody")


def _me() -> "asyncio.Task[Any]":
    task = asyncio.current_task()
    assert task is not None
    return task


def _context() -> Context:
    return Context("run", scope=Scope({JOURNAL: LocalJournal(), CLOCK: HandClock(auto=True)}))


def _bounded(work: Any, seconds: float | None = 5.0) -> Any:
    return run_bounded(work, _context(), name="work", seconds=seconds)


async def test_it_has_one_task_of_its_own_before_and_after_it_waits() -> None:
    async def waits() -> asyncio.Task[Any]:
        before = _me()
        await asyncio.sleep(0)
        assert before is _me()
        await asyncio.get_running_loop().run_in_executor(None, str)
        assert before is _me()
        return before

    async with assert_no_leaks():
        assert await _bounded(waits()) is not _me()


async def test_it_needs_no_turn_of_the_event_loop_if_it_does_not_wait_or_one_to_start() -> None:
    turns: list[int] = []

    async def quick() -> int:
        return len(turns)

    def count() -> None:
        turns.append(1)
        asyncio.get_running_loop().call_soon(count)

    async with assert_no_leaks():
        asyncio.get_running_loop().call_soon(count)
        started = 0 if sys.version_info >= (3, 12) else 1  # Python starts tasks at once from 3.12 on
        assert await _bounded(quick()) == started
        assert len(turns) == started


@pytest.mark.parametrize("turns", [0, 1, 3])
@pytest.mark.parametrize("error", [ValueError("one"), LookupError("two")])
async def test_its_value_and_its_error_are_those_of_the_call(turns: int, error: Exception) -> None:
    async def waits() -> None:
        for _ in range(turns):
            await asyncio.sleep(0)

    async def good() -> int:
        await waits()
        return 7

    async def bad() -> int:
        await waits()
        raise error

    async with assert_no_leaks():
        for seconds in (None, 5.0):
            assert await _bounded(good(), seconds) == 7
            with pytest.raises(type(error)) as raised:
                await _bounded(bad(), seconds)
            assert raised.value is error


@pytest.mark.parametrize("turns", [0, 1])
async def test_work_that_cancels_its_own_task_is_an_error_of_the_work(turns: int) -> None:
    async def ends_itself() -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        _me().cancel()
        await asyncio.sleep(0)

    async with assert_no_leaks():
        with pytest.raises(ToolError, match="cancelled the task it ran in"):
            await _bounded(ends_itself())
        assert _me().cancelling() == 0


async def test_timeouts_and_groups_that_were_entered_before_it_waited_hold() -> None:
    async def hangs() -> str:
        try:
            async with asyncio.timeout(0.001):
                await asyncio.Event().wait()
        except TimeoutError:
            return "in time"
        return "never"

    async def groups() -> str:
        async def fails() -> None:
            raise ValueError("one")

        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(fails())
                await asyncio.Event().wait()
        except* ValueError:
            pass
        return "in time"

    async with assert_no_leaks():
        for work in (hangs(), groups()):
            assert await _bounded(work, None) == "in time"
            assert _me().cancelling() == 0


async def test_context_variables_are_its_own_over_all_steps() -> None:
    async def sets() -> str:
        token = NAME.set("tool")
        await asyncio.sleep(0)
        seen = NAME.get()
        NAME.reset(token)
        return seen + " " + NAME.get()

    NAME.set("caller")
    assert await _bounded(sets()) == "tool caller"
    assert NAME.get() == "caller"


@pytest.mark.parametrize("turns", [0, 1, 3])
async def test_it_cleans_up_when_its_caller_is_cancelled_at_any_time(turns: int) -> None:
    cleaned: list[str] = []

    async def child() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append("child")

    async def parent() -> None:
        cleaned.append("begun")
        try:
            await asyncio.ensure_future(child())
        finally:
            await asyncio.sleep(0)
            cleaned.append("parent")

    async def call() -> None:
        await _bounded(parent())

    async with assert_no_leaks():
        caller = asyncio.create_task(call())
        for _ in range(turns):
            await asyncio.sleep(0)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        assert cleaned in ([], ["begun", "parent"], ["begun", "child", "parent"])


async def test_work_that_begins_other_work_has_its_own_task_still() -> None:
    async def outer() -> None:
        before = _me()

        async def inner() -> bool:
            return _me() is before

        assert not await _bounded(inner())
        assert _me() is before

    async with assert_no_leaks():
        await _bounded(outer())


class Passing(HandClock):
    """A clock whose time passes while the event loop is blocked."""

    def passes(self, seconds: float) -> None:
        """Advance the clock; due timers fire in the next turn of the event loop."""
        self._elapsed += seconds
        asyncio.get_running_loop().call_soon(self._run_next, self._elapsed)


async def test_tools_that_never_wait_do_not_keep_a_limit_from_being_heard_of() -> None:
    calls: list[int] = []
    clock = Passing()

    @tool
    async def quick() -> str:
        calls.append(1)
        if len(calls) == 100:
            clock.passes(10.0)
        return ""

    async with assert_no_leaks():
        box = Toolbox([quick])
        ctx = Context("run", scope=Scope({JOURNAL: LocalJournal(), CLOCK: clock}))
        with pytest.raises(Timeout):
            async with ctx.limit(10.0) as ctx:
                for number in range(100_000):
                    await act(box, ToolCall("c", "quick"), ctx.at(str(number)))
        assert len(calls) == 100


async def test_a_tool_under_a_limit_that_sets_one_of_its_own_blames_the_right_one() -> None:
    @tool(timeout=5)
    async def tries() -> str:
        try:
            async with asyncio.timeout(0.001):
                await asyncio.Event().wait()
        except TimeoutError:
            return "its own"
        return "never"

    async with assert_no_leaks():
        ctx = Context("run", scope=Scope({JOURNAL: LocalJournal(), CLOCK: HandClock()}))
        assert (await act(Toolbox([tries]), ToolCall("c", "tries"), ctx)).text == "its own"
