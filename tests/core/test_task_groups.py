"""Task groups in the code of users cancel no run, and what cancels a run is not taken for one of them."""

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable
from itertools import product
from typing import Any

import pytest

from tests.core.hand import HandClock
from tests.samples import pairs, sample
from ziggurat import Agent, Context, Middleware, ModelRequest, ModelResponse, stack, tool
from ziggurat.agents import Environment
from ziggurat.flows import flow
from ziggurat.layers.retry import timeout
from ziggurat.messages import stops, tool_call
from ziggurat.testing import ScriptedModel


async def _fails() -> None:
    await asyncio.sleep(0)
    raise ValueError("no")


async def _works() -> None:
    await asyncio.sleep(0)


async def _caught() -> str:
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_fails())
            group.create_task(_works())
    except* ValueError:
        pass
    return "went on"


async def _raised() -> str:
    async with asyncio.TaskGroup() as group:
        group.create_task(_fails())
    return "not reached"


async def _in_the_body() -> str:
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_fails())
            await asyncio.Event().wait()
    except* ValueError:
        pass
    return "went on"


async def _nested() -> str:
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_caught())
            await _caught()
            group.create_task(_fails())
    except* ValueError:
        pass
    return "went on"


async def _several() -> str:
    return " ".join([await _caught() for _ in range(3)])


USES: list[Callable[[], Awaitable[str]]] = [_caught, _raised, _in_the_body, _nested, _several]


def _tool_of(use: Callable[[], Awaitable[str]]) -> Any:
    @tool
    async def work() -> str:
        return await use()

    return work


def _plain(use: Callable[[], Awaitable[str]]) -> Any:
    return Agent(ScriptedModel(tool_call("work"), tool_call("work"), "done"), tools=[_tool_of(use)])


def _timed(use: Callable[[], Awaitable[str]]) -> Any:
    model = ScriptedModel(tool_call("work"), tool_call("work"), "done")
    return Agent(model, tools=[_tool_of(use)], timeout=60)


def _layered(use: Callable[[], Awaitable[str]]) -> Any:
    model = ScriptedModel(tool_call("work"), tool_call("work"), "done")
    return Agent(model, tools=[stack(_tool_of(use), timeout(seconds=60))])


def _at_the_same_time(use: Callable[[], Awaitable[str]]) -> Any:
    calls = [tool_call("work", id="1"), tool_call("work", id="2")]
    return Agent(ScriptedModel(calls, tool_call("work"), "done"), tools=[_tool_of(use)])


def _below(use: Callable[[], Awaitable[str]]) -> Any:
    model = ScriptedModel(tool_call("work"), "found", tool_call("work"), "found")
    inner = Agent(model, name="inner", description="Works.", tools=[_tool_of(use)])
    return Agent(ScriptedModel(tool_call("inner", input="x"), tool_call("inner", input="x"), "done"), tools=[inner])


def _in_a_model(use: Callable[[], Awaitable[str]]) -> Any:
    answers = ScriptedModel(tool_call("work"), "done")

    async def model(request: ModelRequest, ctx: Context) -> ModelResponse:
        with contextlib.suppress(ExceptionGroup):
            await use()
        return await answers(request, ctx)

    return Agent(model, tools=[_tool_of(_works_on)])


async def _works_on() -> str:
    return "went on"


def _in_a_hook(use: Callable[[], Awaitable[str]]) -> Any:
    class Uses(Middleware):
        async def before_model(self, request: ModelRequest, ctx: Context) -> ModelRequest:
            with contextlib.suppress(ExceptionGroup):
                await use()
            return request

    return Agent(ScriptedModel(tool_call("work"), "done"), tools=[_tool_of(_works_on)], middleware=[Uses()])


def _in_a_flow(use: Callable[[], Awaitable[str]]) -> Any:
    agent = _plain(use)

    @flow
    async def work(text: str) -> str:
        with contextlib.suppress(ExceptionGroup):
            await use()
        return str((await agent.run(text)).text)

    return work


PLACES = [_plain, _timed, _layered, _at_the_same_time, _below, _in_a_model, _in_a_hook, _in_a_flow]


@pytest.mark.parametrize(("use", "place", "streamed"), pairs(USES, PLACES, [False, True]))
async def test_a_task_group_whose_task_fails_cancels_no_run(
    use: Callable[[], Awaitable[str]], place: Callable[[Callable[[], Awaitable[str]]], Any], streamed: bool
) -> None:
    agent = place(use)
    if streamed:
        async with agent.stream("go") as events:
            async for _ in events:
                pass
        run = events.response
    else:
        run = await agent.run("go")
    task = asyncio.current_task()
    assert task is not None
    cancelling = task.cancelling()
    assert isinstance(run.stop, stops.Completed), run.error
    assert run.text == "done"
    # the code of a flow is awaited as that of the caller; before 3.13, a group may leave a cancellation behind
    if place is not _in_a_flow and sys.version_info >= (3, 13):
        assert cancelling == 0


async def _waits_in_a_group() -> str:
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.sleep(3600))
    return "not reached"


async def _waits_after_one() -> str:
    await _caught()
    await asyncio.Event().wait()
    return "not reached"


async def _swallows_after_one() -> str:
    await _caught()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.Event().wait()
    return "swallowed it"


_CANCELLED = [_waits_in_a_group, _waits_after_one]
if sys.version_info >= (3, 13):  # before, it looks like the cancellation that a group leaves behind
    _CANCELLED.append(_swallows_after_one)


@pytest.mark.parametrize(
    ("use", "place"),
    sample(
        product(_CANCELLED, [_plain, _timed, _at_the_same_time, _below]),
        6,
    ),
)
async def test_who_cancels_a_run_whose_tool_uses_task_groups_ends_it(
    use: Callable[[], Awaitable[str]], place: Callable[[Callable[[], Awaitable[str]]], Any]
) -> None:
    task = asyncio.get_running_loop().create_task(place(use).run("go"))
    for _ in range(30):
        await asyncio.sleep(0)
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_time_limit_that_passes_after_a_task_group_has_failed_is_a_time_limit() -> None:
    clock = HandClock(0.0)
    agent = Agent(ScriptedModel(tool_call("work")), tools=[_tool_of(_waits_after_one)], timeout=60)
    task = asyncio.get_running_loop().create_task(agent.run("go", environment=Environment(clock=clock)))
    await clock.advance(61)
    assert isinstance((await task).stop, stops.TimedOut)
