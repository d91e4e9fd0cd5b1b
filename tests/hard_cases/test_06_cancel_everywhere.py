"""Cancelled at any turn of the event loop, once or twice, a run leaves nothing behind and can go on."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.agents.support import assert_sendable, elsewhere, turns
from tests.hard_cases.support import entries_of, ids_in
from tests.samples import pairs, sample
from tests.stores.places import close_opened, new_store
from tests.wrong import wrong
from ziggurat import Agent, AgentRun, Middleware, ModelRequest, ModelResponse, stack, tool
from ziggurat.errors import RunNotFound
from ziggurat.layers import retry, timeout
from ziggurat.messages import stops, tool_call
from ziggurat.runs.drive import partial_of
from ziggurat.stores import InMemoryStore
from ziggurat.testing import Pause, ScriptedModel


class World:
    """What tools do to it."""

    def __init__(self) -> None:
        self.paid: Counter[str] = Counter()
        self.cleaned = 0
        self.begun = 0


async def _turn(self: object, value: object, ctx: object) -> None:
    await asyncio.sleep(0)


class Turning(Middleware):
    """Hooks that let the loop turn, so that a cancellation may hit them."""

    before_agent = before_model = after_model = before_tool = after_agent = wrong(_turn)


def _asked(text: str) -> Callable[[ModelRequest], bool]:
    """Return whether a request is the first of its run and holds a text."""
    return lambda request: request.messages[-1].role == "user" and text in request.messages[-1].text


def _agents(world: World, store: InMemoryStore, hooked: bool) -> Agent:
    @tool(effect="once", interrupted="report")
    async def pay(to: str) -> str:
        """Pay."""
        await asyncio.sleep(0)
        world.paid[to] += 1
        await asyncio.sleep(0)
        return f"paid {to}"

    @tool(timeout=60)
    async def look(what: str) -> str:
        """Look."""
        world.begun += 1
        try:
            await turns(8)  # where a disk is slow, much of a run passes in one turn, but not this
        finally:
            try:
                await turns(2)
            finally:
                world.cleaned += 1
        return f"seen {what}"

    inner = Agent(
        ScriptedModel(
            rules=[
                (
                    _asked("help"),
                    [
                        "Let ",
                        Pause(),
                        "me",
                        tool_call("pay", to="inner", id="c0"),
                        tool_call("look", what="in", id="c1"),
                    ],
                )
            ],
            always=["in", Pause(), "ner"],
        ),
        tools=[pay, look],
        name="helper",
        timeout=600,
    )
    outer = ScriptedModel(
        rules=[
            (
                _asked("go"),
                [
                    "I ", Pause(), "go",
                    tool_call("helper", input="help", id="c0"),
                    tool_call("pay", to="outer", id="c1"),
                    tool_call("look", what="out", id="c2"),
                ],
            )
        ],
        always=["do", Pause(), "ne"],
    )  # fmt: skip
    return Agent(
        stack(outer, retry(attempts=2), timeout(seconds=60)),
        tools=[inner.layered(retry(attempts=2)), pay, look],
        middleware=[Turning()] if hooked else [],
        store=store,
    )


async def _plain(agent: Agent, run_id: str) -> AgentRun:
    return await agent.run("go", run_id=run_id)


async def _streamed(agent: Agent, run_id: str) -> AgentRun:
    async with agent.stream("go", run_id=run_id, buffer=2) as events:
        async for _ in events:
            await asyncio.sleep(0)
    return events.response


async def _handled(agent: Agent, run_id: str) -> AgentRun:
    handle = agent.start("go", run_id=run_id)
    try:
        return await handle.result()
    except asyncio.CancelledError:
        await handle.cancel()
        run = await handle.result()
        if isinstance(run.stop, stops.Cancelled):
            assert_sendable(run.messages)
        raise


FORMS = {"plain": _plain, "streamed": _streamed, "handle": _handled}
TURNS = 6
"""The turns at which a run is cancelled; every one in the long form."""


async def _turns_of(work: Coroutine[Any, Any, AgentRun]) -> int:
    """Return how many turns a run takes that nobody cancels."""
    task = asyncio.get_running_loop().create_task(work)
    count = 0
    while not task.done():
        await turns(1)
        count += 1
    assert isinstance(task.result().stop, stops.Completed)
    return count


async def _cancelled_at(turn: int, form: str, again: int, hooked: bool) -> None:
    """Cancel at a turn, and so many times again, and go on elsewhere."""
    world, store, run_id = World(), new_store(), f"r-{turn}"
    before = asyncio.all_tasks()
    task = asyncio.get_running_loop().create_task(FORMS[form](_agents(world, store, hooked), run_id))
    await turns(turn)
    task.cancel()
    for _ in range(again):
        await asyncio.sleep(0)
        task.cancel()
    try:
        await task
    except asyncio.CancelledError as error:
        partial = partial_of(error)
        if form == "plain" and len(await entries_of(store, run_id)) > 1:
            assert partial is not None
        if partial is not None:
            assert_sendable(partial.messages)
    if form != "handle" or not again:  # who cancels the waiting for a handle does not cancel its run
        assert asyncio.all_tasks() == before, "a task outlives the run"
    else:
        await turns(40)
    assert world.cleaned == world.begun
    await _goes_on(world, store, hooked, run_id)
    assert asyncio.all_tasks() == before


async def _goes_on(world: World, store: InMemoryStore, hooked: bool, run_id: str) -> None:
    if run_id not in await ids_in(store):  # it was cancelled before it had begun
        assert not world.paid
        with pytest.raises(RunNotFound):
            await _agents(world, store, hooked).resume(run_id)
        run = await _agents(world, store, hooked).run("go", run_id=run_id)
    else:
        store = elsewhere(store, run_id)
        run = await _agents(world, store, hooked).resume(run_id)
    assert isinstance(run.stop, stops.Completed)
    assert run.text == "done"
    assert_sendable(run.messages)
    assert all(times == 1 for times in world.paid.values()), world.paid
    assert world.cleaned == world.begun
    again = await _agents(world, elsewhere(store, run_id), hooked).resume(run_id)
    assert again.messages == run.messages
    assert again.usage == run.usage


@pytest.mark.parametrize(("form", "again", "hooked"), pairs(FORMS, range(3), [False, True]))
async def test_a_cancelled_run_leaves_nothing_behind(form: str, again: int, hooked: bool) -> None:
    # A disk that is quick answers several times within a turn that is counted, so one run may seem to have very few.
    whole = max([await _turns_of(FORMS[form](_agents(World(), new_store(), hooked), f"whole-{n}")) for n in range(5)])
    assert whole > 6
    for turn in sample(range(whole), TURNS):
        await _cancelled_at(turn, form, again, hooked)
        await close_opened()


async def test_a_cancelled_run_can_be_cancelled_again_when_it_is_resumed() -> None:
    async def begun(run_id: str) -> tuple[World, InMemoryStore]:
        world, store = World(), new_store()
        task = asyncio.get_running_loop().create_task(_agents(world, store, False).run("go", run_id=run_id))
        await turns(8)
        task.cancel()
        await asyncio.wait([task])
        return world, elsewhere(store, run_id)

    world, store = await begun("whole")
    whole = await _turns_of(_agents(world, store, False).resume("whole"))
    assert whole > 3
    for turn in sample(range(whole), TURNS):
        world, store = await begun(f"r-{turn}")
        task = asyncio.get_running_loop().create_task(_agents(world, store, False).resume(f"r-{turn}"))
        await turns(turn)
        task.cancel()
        await asyncio.wait([task])
        await _goes_on(world, elsewhere(store, f"r-{turn}"), False, f"r-{turn}")
        await close_opened()


async def test_the_payment_that_was_interrupted_is_told_to_the_model() -> None:
    world, store = World(), new_store()

    @tool(effect="once", interrupted="report")
    async def pay(to: str) -> str:
        """Pay."""
        world.paid[to] += 1
        await asyncio.Event().wait()
        return "never"

    def agent(store: InMemoryStore) -> Agent:
        model = ScriptedModel(rules=[(_asked("go"), tool_call("pay", to="x"))], always="done")
        return Agent(model, tools=[pay], store=store)

    task = asyncio.get_running_loop().create_task(agent(store).run("go", run_id="r"))
    await turns(30)
    task.cancel()
    await asyncio.wait([task])
    went = await agent(elsewhere(store, "r")).resume("r")
    assert world.paid == {"x": 1}
    assert went.messages[2].tool_results[0].error == "interrupted"
    assert went.stop == stops.Completed()


async def test_a_model_may_be_asked_again_where_it_was_cancelled() -> None:
    store = new_store()
    asked = asyncio.Event()

    async def slow(request: ModelRequest, ctx: object) -> ModelResponse:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    handle = Agent(slow, store=store).start("go", run_id="r")
    await asked.wait()
    await handle.cancel()
    cancelled = await handle.result()
    resumed = await Agent(ScriptedModel("done", name="slow"), store=elsewhere(store, "r")).resume("r")
    assert cancelled.stop == stops.Cancelled()
    assert [message.role for message in cancelled.messages] == ["user"]
    assert cancelled.id == resumed.id == "r"
    assert resumed.text == "done"
