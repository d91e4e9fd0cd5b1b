"""Runs from code that is not async; the rest is tested with `run_sync`."""

import asyncio
import os
import signal
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from ziggurat import Agent, Event, Message, ModelRequest, tool
from ziggurat.journal import Store
from ziggurat.messages import stops, tool_call
from ziggurat.models import FunctionModel
from ziggurat.stores import connect
from ziggurat.testing import ScriptedModel, assert_no_leaks


def _said(messages: Sequence[Message]) -> list[str]:
    return [result.text for message in messages for result in message.tool_results]


@pytest.mark.timeout(10)
@pytest.mark.parametrize("store", ["memory:", "file:///{}/runs", "sqlite:///{}/runs.db"])
def test_in_any_thread_with_the_context_of_a_run_it_goes_on_where_that_run_does(store: str, tmp_path: Path) -> None:
    loops: set[asyncio.AbstractEventLoop] = set()

    async def answer(request: ModelRequest) -> str:
        loops.add(asyncio.get_running_loop())
        return "well"

    helper = Agent(FunctionModel(answer), name="helper")

    @tool
    async def threads() -> str:
        """Ask from a thread that is not the pool's."""
        return await asyncio.to_thread(lambda: helper.run_sync("q").text)

    @tool
    async def loops_within() -> str:
        """Ask from another event loop."""
        return await asyncio.to_thread(lambda: asyncio.run(helper.run("q")).text)

    async def main() -> None:
        calls = [tool_call("threads", id=str(number)) for number in range(6)]
        model = ScriptedModel([*calls, tool_call("loops_within", id="last")], "end")
        opened = connect(store.format(tmp_path))
        agent = Agent(model, tools=[threads, loops_within], store=opened)
        run = await agent.run("go", run_id="r")
        assert run.stop == stops.Completed()
        assert _said(run.messages) == ["well"] * 7
        assert run.usage.requests == 9
        assert loops == {asyncio.get_running_loop()}
        assert (await agent.replay("r")).messages == run.messages
        if isinstance(opened, Store):
            await opened.close()

    asyncio.run(main())


def test_what_is_wrong_with_a_run_within_is_told_to_the_tool_that_asked() -> None:
    helper = Agent(ScriptedModel("never"), name="helper")

    @tool
    def asks() -> str:
        return helper.run_sync("").text

    run = Agent(ScriptedModel(tool_call("asks"), "end"), tools=[asks]).run_sync("go")
    assert "the prompt is empty" in _said(run.messages)[0]


def test_tools_in_threads_that_run_event_loops_of_their_own_do_not_starve_each_other() -> None:
    @tool
    def leaf() -> str:
        return "leaf"

    @tool
    def outer() -> str:
        """Run an agent of its own."""
        agent = Agent(ScriptedModel(tool_call("leaf"), "end"), tools=[leaf])

        async def detached() -> str:
            return (await agent.run("q", detached=True)).text

        return asyncio.run(detached())

    async def main() -> None:
        async with assert_no_leaks():
            calls = [tool_call("outer", id=str(number)) for number in range(40)]
            run = await Agent(ScriptedModel(calls, "end"), tools=[outer]).run("go")
            assert _said(run.messages) == ["end"] * 40

    asyncio.run(main())


@pytest.mark.skipif(threading.current_thread() is not threading.main_thread(), reason="signals go to the main thread")
def test_an_interrupt_cancels_a_run_in_another_thread() -> None:
    begun, cancelled = threading.Event(), threading.Event()

    async def forever(request: ModelRequest) -> str:
        begun.set()
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return ""

    def interrupt() -> None:
        begun.wait()
        os.kill(os.getpid(), signal.SIGINT)

    async def notebook() -> None:
        threading.Thread(target=interrupt).start()
        with pytest.raises(KeyboardInterrupt):
            Agent(FunctionModel(forever)).run_sync("go")

    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(notebook())
    finally:
        loop.close()
    assert cancelled.is_set()


def test_errors_of_a_run_bear_nothing_of_how_it_was_started() -> None:
    seen: list[BaseException] = []

    def listener(event: Event) -> None:
        try:
            raise ValueError("its own")
        except ValueError as error:
            seen.append(error)

    Agent(ScriptedModel("hi")).run_sync("go", listeners=[listener])
    assert seen
    assert all(error.__context__ is None for error in seen)


@pytest.mark.parametrize("within", [True, False])
def test_only_code_that_blocks_an_event_loop_is_told_to_await(within: bool, caplog: pytest.LogCaptureFixture) -> None:
    def ask() -> str:
        return Agent(ScriptedModel("done")).run_sync("go").text

    async def notebook() -> str:
        return ask()

    assert (asyncio.run(notebook()) if within else ask()) == "done"
    assert ["run = await agent.run(...)" in record.getMessage() for record in caplog.records] == [True] * within
