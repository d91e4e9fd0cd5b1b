"""A run in the background."""

import asyncio
import gc
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.agents.support import assert_sendable, turns
from tests.samples import sample
from tests.wrong import wrong
from ziggurat import Agent, AgentRun, Approve, ConfigurationError, Context, ModelRequest, ModelResponse
from ziggurat.agents import RunHandle
from ziggurat.errors import EmptyPrompt, RunNotFound
from ziggurat.messages import assistant, stops, tool_call
from ziggurat.testing import Pause, ScriptedModel, assert_no_leaks


async def test_it_goes_on_beside_and_has_a_result() -> None:
    async with assert_no_leaks():
        handle = Agent(ScriptedModel(["a", Pause(), "b"])).start("go")
        run = await handle.result()
        with pytest.raises(RunNotFound):  # it has ended, and is not kept
            await handle.status()
        assert await handle.result() is run
        await handle.cancel()
        assert (await handle.result()).stop == stops.Completed()
    assert run.text == "ab"


@pytest.mark.parametrize("asked", [False, True])
async def test_an_error_that_is_raised_out_of_a_run_is_logged_if_nobody_asks_for_the_result(
    asked: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def wrong_use(ctx: Context) -> str:
        raise ConfigurationError("not so")

    handle = Agent(ScriptedModel("a"), instructions=wrong_use).start("go")
    if asked:
        with pytest.raises(ConfigurationError):
            await handle.result()
    await turns(20)
    del handle
    gc.collect()
    lines = [(record.name, record.levelno, "not so" in record.getMessage()) for record in caplog.records]
    assert lines == ([] if asked else [("ziggurat", logging.ERROR, True)])


@pytest.mark.parametrize("after", [0, 1, 2, 5])
async def test_it_can_be_cancelled_at_once_and_later(after: int) -> None:
    async with assert_no_leaks():
        handle = Agent(ScriptedModel([Pause()] * 50)).start("go", run_id="r")
        await turns(after)
        await handle.cancel()
        await handle.cancel()
        went = await handle.result()
    assert (went.stop, went.id, went.agent) == (stops.Cancelled(), "r", "agent")
    assert_sendable(went.messages)


@pytest.mark.parametrize("after", sample(range(8), 3))
async def test_it_can_be_cancelled_while_its_record_is_opened_in_a_store(tmp_path: Path, after: int) -> None:
    async def slow(request: ModelRequest, ctx: Context) -> ModelResponse:
        await asyncio.Event().wait()
        raise AssertionError

    async with assert_no_leaks():
        handle = Agent(slow, store=f"file:///{tmp_path}/runs").start("go", run_id="r")
        await turns(after)
        await handle.cancel()
        went = await handle.result()
    assert (went.stop, went.id, went.agent) == (stops.Cancelled(), "r", "agent")


async def test_a_waiting_that_is_cancelled_does_not_cancel_the_run() -> None:
    handle = Agent(ScriptedModel(["a", *[Pause()] * 10])).start("go")
    waiting = asyncio.ensure_future(handle.result())
    await turns(2)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert (await handle.result()).stop == stops.Completed()


async def test_a_cancelled_run_keeps_what_is_complete_and_can_be_resumed() -> None:
    async def echo() -> str:
        return "x"

    agent = Agent(ScriptedModel(tool_call("echo"), [Pause()] * 50, "done"), tools=[echo])
    handle = agent.start("go")
    await turns(10)
    await handle.cancel()
    cancelled = await handle.result()
    resumed = await agent.resume(cancelled.id)
    assert cancelled.stop == stops.Cancelled()
    assert [message.role for message in cancelled.messages] == ["user", "assistant", "tool"]
    assert resumed.text == "done"


def test_wrong_use_is_raised_at_once() -> None:
    agent = Agent(ScriptedModel("x"))
    with pytest.raises(ConfigurationError, match="run_sync"):
        agent.start("go")

    async def run() -> None:
        with pytest.raises(EmptyPrompt):
            agent.start("")
        with pytest.raises(ConfigurationError, match="run_id"):
            await agent.start("go", run_id=wrong(7)).result()
        handle = agent.start("go")
        by_mistake = wrong(handle)
        for awaited in (by_mistake, asyncio.wait_for(by_mistake, 1), asyncio.gather(by_mistake)):
            with pytest.raises(ConfigurationError, match=r"handle\.result"):
                await awaited
        assert (await handle.result()).text == "x"

    asyncio.run(run())


async def test_a_handle_that_nobody_waits_for_makes_no_noise() -> None:
    Agent(ScriptedModel("x")).start("go")


@pytest.mark.timeout(10)
def test_it_can_be_steered_from_another_thread() -> None:
    asked: list[str] = []

    async def main(how: str) -> AgentRun:
        loop, waits = asyncio.get_running_loop(), asyncio.Event()

        async def slow(request: ModelRequest, ctx: Context) -> ModelResponse:
            asked.append(request.messages[-1].text)
            if len(asked) == 1:
                await waits.wait()
            return ModelResponse(assistant("said"))

        handle = Agent(slow).start("go")
        await turns(5)

        def steer() -> bool:
            with pytest.raises(ConfigurationError, match="run_coroutine_threadsafe"):
                asyncio.run(handle.inject("in a loop of its own"))
            verbs: dict[str, Callable[[], Coroutine[Any, Any, bool]]] = {
                "cancel": handle.cancel,
                "inject": partial(handle.inject, "more"),
                "redirect": partial(handle.redirect, "other"),
            }
            told = asyncio.run_coroutine_threadsafe(verbs[how](), loop).result()
            if how != "cancel":
                loop.call_soon_threadsafe(waits.set)
            return told

        assert await asyncio.to_thread(steer)
        run = await handle.result()
        assert not await handle.cancel()
        return run

    assert asyncio.run(main("cancel")).stop == stops.Cancelled()
    for how, told in (("inject", "more"), ("redirect", "other")):
        asked.clear()
        assert asyncio.run(main(how)).stop == stops.Completed()
        assert asked == ["go", told]


def test_steered_after_its_event_loop_has_ended_nothing_is_done() -> None:
    async def main() -> RunHandle:
        handle = Agent(ScriptedModel("said")).start("go")
        await handle.result()
        return handle

    handle = asyncio.run(main())
    outcome: list[object] = []

    async def steer() -> None:
        outcome.append((await handle.inject("late"), await handle.cancel()))

    asyncio.run(steer())
    assert outcome == [(False, False)]


@pytest.mark.parametrize("decisions", [None, [Approve()], {"id": Approve}, {"id": True}, {7: Approve()}])
async def test_decisions_of_a_wrong_type_are_refused(decisions: object) -> None:
    agent = Agent(ScriptedModel("done"), store="memory:")
    run = await agent.run("go")
    with pytest.raises(ConfigurationError):
        await agent.attach(run.id).decide(wrong(decisions))


@pytest.mark.parametrize(
    ("verb", "arguments", "named"),
    [
        ("inject", (7,), {}),
        ("redirect", (None,), {}),
        ("send", ("",), {}),
        ("send", (7,), {}),
        ("send", ("paid",), {"key": ""}),
        ("decide", ({},), {"environment": 7}),
    ],
)
async def test_arguments_of_a_wrong_type_are_refused_at_the_door(
    verb: str, arguments: tuple[object, ...], named: dict[str, object]
) -> None:
    agent = Agent(ScriptedModel("done"), store="memory:")
    run = await agent.run("go")
    with pytest.raises(ConfigurationError, match=verb):
        await getattr(agent.attach(run.id), verb)(*arguments, **named)
