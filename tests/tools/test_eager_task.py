"""Eager tasks: work under a limit starts at once, and becomes a task of its own only if it waits."""

import asyncio
from contextvars import ContextVar
from typing import Any

import pytest

from ziggurat.core.clock import CLOCK
from ziggurat.core.context import JOURNAL, Context
from ziggurat.core.errors import Timeout
from ziggurat.core.journal import MemoryJournal
from ziggurat.core.scope import Scope
from ziggurat.messages.parts import ToolCall
from ziggurat.testing.clock import HandClock
from ziggurat.testing.leaks import assert_no_leaks
from ziggurat.tools.act import act
from ziggurat.tools.eager_task import begin
from ziggurat.tools.function import tool
from ziggurat.tools.toolbox import Toolbox

NAME = ContextVar("NAME", default="nobody")


def _me() -> "asyncio.Task[Any]":
    task = asyncio.current_task()
    assert task is not None
    return task


async def _without_leaks(work: Any) -> None:
    async with assert_no_leaks():
        await work


def test_what_does_not_wait_ends_at_once_and_leaves_its_task_to_the_next() -> None:
    seen: list[asyncio.Task[Any]] = []

    async def quick() -> int:
        seen.append(_me())
        return 7

    async def main() -> None:
        me = _me()
        for _ in range(3):
            with pytest.raises(StopIteration) as ended:
                begin(quick())
            assert ended.value.value == 7
            assert _me() is me
        assert seen[0] is seen[1] is seen[2]
        assert seen[0] is not me
        assert seen[0].get_loop() is asyncio.get_running_loop()
        await asyncio.sleep(0)
        assert seen[0].done(), "a task that is not needed does not outlive the turn of the event loop"
        with pytest.raises(StopIteration):
            begin(quick())
        assert seen[3] is not seen[0]

    asyncio.run(_without_leaks(main()))


def test_it_is_in_the_same_task_before_and_after_it_waits() -> None:
    async def waits() -> bool:
        before = _me()
        await asyncio.sleep(0)
        middle = _me()
        await asyncio.get_running_loop().run_in_executor(None, str)
        return before is middle is _me()

    async def main() -> None:
        task, bell = begin(waits())
        await bell
        assert task.done()
        assert await task
        assert task is not _me()

    asyncio.run(_without_leaks(main()))


def test_timeouts_and_groups_that_were_entered_before_it_waited_hold() -> None:
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

    async def main() -> None:
        me = _me()
        for work in (hangs(), groups()):
            task, bell = begin(work)
            await bell
            assert await task == "in time"
            assert me.cancelling() == 0

    asyncio.run(_without_leaks(main()))


def test_context_variables_are_its_own_over_all_steps() -> None:
    async def sets() -> str:
        token = NAME.set("tool")
        await asyncio.sleep(0)
        seen = NAME.get()
        NAME.reset(token)
        return seen + " " + NAME.get()

    async def main() -> None:
        NAME.set("caller")
        task, bell = begin(sets())
        assert NAME.get() == "caller"
        await bell
        assert await task == "tool caller"

    asyncio.run(main())


@pytest.mark.parametrize("turns", [0, 1, 3])
def test_it_cleans_up_when_it_is_cancelled_at_any_time(turns: int) -> None:
    cleaned: list[str] = []

    async def child() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append("child")

    async def parent() -> None:
        try:
            await asyncio.ensure_future(child())
        finally:
            await asyncio.sleep(0)
            cleaned.append("parent")

    async def waits() -> None:
        try:
            await asyncio.sleep(0)
            await parent()
        finally:
            cleaned.append("all")

    async def main() -> None:
        task, bell = begin(parent())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await bell
        with pytest.raises(asyncio.CancelledError):
            await task
        assert cleaned[-1] == "parent"
        assert turns == 0 or cleaned == ["child", "parent"]
        task, bell = begin(waits())  # when it waits for nothing that can be cancelled
        task.cancel()
        await bell
        assert task.cancelled() or not task.done()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert cleaned[-1] == "all"

    asyncio.run(_without_leaks(main()))


def test_work_that_begins_other_work_has_its_own_task_still() -> None:
    async def inner() -> int:
        return id(_me())

    async def outer() -> tuple[int, int, int]:
        before = id(_me())
        try:
            begin(inner())
        except StopIteration as ended:
            return before, ended.value, id(_me())
        raise AssertionError("it waited")

    async def main() -> None:
        with pytest.raises(StopIteration) as ended:
            begin(outer())
        before, within, after = ended.value.value
        assert before == after != within

    asyncio.run(_without_leaks(main()))


def test_each_event_loop_has_its_own() -> None:
    async def quick() -> Any:
        return _me().get_loop()

    async def main() -> None:
        with pytest.raises(StopIteration) as ended:
            begin(quick())
        assert ended.value.value is asyncio.get_running_loop()

    for _ in range(2):
        asyncio.run(main())


def test_a_task_that_was_cancelled_by_its_work_is_not_given_on() -> None:
    async def ends_itself() -> None:
        _me().cancel()

    async def looks() -> int:
        return _me().cancelling()

    async def main() -> None:
        with pytest.raises(StopIteration):
            begin(ends_itself())
        with pytest.raises(StopIteration) as ended:
            begin(looks())
        assert ended.value.value == 0

    asyncio.run(_without_leaks(main()))


class Passing(HandClock):
    """A clock whose time passes while the event loop is blocked."""

    def passes(self, seconds: float) -> None:
        """Advance the clock; due timers fire in the next turn of the event loop."""
        self._elapsed += seconds
        asyncio.get_running_loop().call_soon(self._run_next, self._elapsed)


def test_tools_that_never_wait_do_not_keep_a_limit_from_being_heard_of() -> None:
    calls: list[int] = []
    clock = Passing()

    @tool
    async def quick() -> str:
        """Answer at once."""
        calls.append(1)
        if len(calls) == 100:
            clock.passes(10.0)
        return ""

    async def main() -> None:
        box = Toolbox([quick])
        ctx = Context("run", scope=Scope({JOURNAL: MemoryJournal(), CLOCK: clock}))
        with pytest.raises(Timeout):
            async with ctx.limit(10.0) as ctx:
                for number in range(100_000):
                    await act(box, ToolCall("c", "quick"), ctx.at(str(number)))
        assert len(calls) == 100

    asyncio.run(_without_leaks(main()))


def test_a_tool_under_a_limit_that_sets_one_of_its_own_blames_the_right_one() -> None:
    @tool(timeout=5)
    async def tries() -> str:
        """Try for a while."""
        try:
            async with asyncio.timeout(0.001):
                await asyncio.Event().wait()
        except TimeoutError:
            return "its own"
        return "never"

    async def main() -> None:
        ctx = Context("run", scope=Scope({JOURNAL: MemoryJournal(), CLOCK: HandClock()}))
        assert (await act(Toolbox([tries]), ToolCall("c", "tries"), ctx)).text == "its own"

    asyncio.run(_without_leaks(main()))
