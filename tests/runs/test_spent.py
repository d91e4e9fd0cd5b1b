"""What a run has used is the same live, on record, when it goes on and in a replay: failed and lost tries count."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.samples import sample
from tests.stores.places import Place, opening
from ziggurat import (
    Agent,
    AgentRun,
    Approve,
    Budget,
    ConfigurationError,
    Context,
    ModelRequest,
    ModelResponse,
    Runnable,
    Toolbox,
    Usage,
    stack,
    tool,
)
from ziggurat.agents import Environment
from ziggurat.errors import ModelError
from ziggurat.flows import flow, gather
from ziggurat.layers import CacheStore
from ziggurat.layers.cache import cache
from ziggurat.layers.retry import timeout
from ziggurat.messages import assistant, stops, tool_call
from ziggurat.messages.usage import ASSUMED_OUTPUT
from ziggurat.middleware import OutputGuardrail
from ziggurat.testing import HandClock

COST = Usage(10, 1, requests=1)


@pytest.fixture(params=sample(["by reference", "memory", "sqlite", "file"], 2))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with opening(request.param, tmp_path) as place:
        yield place


class World:
    """A model and tools that do something else once the world is mended, and count what is really called."""

    def __init__(self) -> None:
        self.mended = False
        self.models = self.tools = 0
        self.begun = asyncio.Event()
        self.clock = HandClock()
        self.handle: Any = None

    def model(self, *replies: Any, name: str = "model") -> Any:
        """Return a model that answers by the number of turns; a function of the world may wait, or return an error."""

        async def model(request: ModelRequest, ctx: Context) -> ModelResponse:
            self.models += 1
            turn = sum(message.role == "assistant" for message in request.messages)
            reply = replies[min(turn, len(replies) - 1)]
            if callable(reply):
                reply = await reply(self)
            if isinstance(reply, Exception):
                raise reply
            message = assistant(reply) if isinstance(reply, str) else assistant(*reply)
            return ModelResponse(message, "tool_calls" if message.tool_calls else "stop", COST)

        model.__name__ = model.__qualname__ = name
        return model

    def box(self, **settings: Any) -> Toolbox:
        """Return a tool that looks, one that fails, one that waits for a person, and one that redirects the run."""

        @tool
        async def look() -> str:
            self.tools += 1
            return "seen"

        @tool
        async def broken() -> str:
            """Fail until the world is mended."""
            self.tools += 1
            if not self.mended:
                raise ConnectionError("down")
            return "mended"

        @tool(approval=True)
        async def send() -> str:
            self.tools += 1
            return "sent"

        @tool
        async def redirect() -> str:
            self.tools += 1
            await self.handle.redirect("something else")
            await asyncio.Event().wait()
            raise AssertionError

        return Toolbox([look, broken, send, redirect], **settings)


LOOK = [tool_call("look")]


async def fails(world: World) -> Any:
    return "done" if world.mended else ModelError("gone", transient=False)


async def bad(world: World) -> Any:
    return "done" if world.mended else "bad"


async def hangs(world: World) -> Any:
    if not world.mended:
        world.begun.set()
        await asyncio.Event().wait()
    return "done"


async def waits_for_another(world: World) -> Any:
    if not world.mended:
        await world.begun.wait()
        return ModelError("gone", transient=False)
    return "done"


Make = Callable[[World, Any], Runnable[Any]]


def failed(world: World, store: Any) -> Runnable[Any]:
    return Agent(world.model(LOOK, fails), tools=world.box(), store=store)


def refused(world: World, store: Any) -> Runnable[Any]:
    guard = OutputGuardrail(lambda text, ctx: "no" if text == "bad" else None, retries=0)
    return Agent(world.model(LOOK, bad), tools=world.box(), middleware=[guard], store=store)


def raised(world: World, store: Any) -> Runnable[Any]:
    both = [tool_call("look"), tool_call("broken")]
    return Agent(world.model(both, "done"), tools=world.box(on_error="raise"), store=store)


def raised_within(world: World, store: Any) -> Runnable[Any]:
    """Return an agent that ends with the failure of another one, which its tool asks."""
    inner = Agent(world.model(fails), name="inner")

    @tool
    async def ask_inner() -> str:
        world.tools += 1
        return (await inner.run("go")).raise_for_stop().text

    return Agent(
        world.model([tool_call("ask_inner")], "done"), tools=Toolbox([ask_inner], on_error="raise"), store=store
    )


def timed_out(world: World, store: Any) -> Runnable[Any]:
    return Agent(world.model(LOOK, hangs), tools=world.box(), timeout=3600.0 if world.mended else 1.0, store=store)


def cut_off(world: World, store: Any) -> Runnable[Any]:
    """Return a flow of two agents, of which one is cancelled because the other fails."""
    one = Agent(world.model(hangs), name="one")
    other = Agent(world.model(waits_for_another), name="other")

    @flow(store=store)
    async def both(text: str) -> str:
        return " ".join([run.text for run in await gather(one.run(text), other.run(text))])

    return both


def nested(world: World, store: Any) -> Runnable[Any]:
    inner = Agent(world.model(LOOK, fails), tools=world.box(), name="inner")

    @flow(store=store)
    async def outer(text: str) -> str:
        return (await inner.run(text)).raise_for_stop().text

    return outer


ENDS: dict[str, tuple[Make, type[stops.Stop]]] = {
    "failed": (failed, stops.Failed),
    "refused": (refused, stops.ModelCallDenied),
    "raised": (raised, stops.Failed),
    "raised within": (raised_within, stops.Failed),
    "timed out": (timed_out, stops.TimedOut),
    "cut off": (cut_off, stops.Failed),
    "nested": (nested, stops.Failed),
}


async def broken_off(agent: Runnable[Any], make: Make, world: World) -> AgentRun:
    """Run an agent until it breaks off."""
    handle = agent.start("go", run_id="r", environment=Environment(clock=world.clock))
    if make is timed_out:
        await world.begun.wait()
        await world.clock.advance(2)
    run: AgentRun = await handle.result()
    return run


async def agree(agent: Runnable[Any], run: AgentRun, world: World) -> None:
    """Check that a run, its status and its replay state all calls that were made."""
    used = (run.usage, run.model_calls, run.tool_calls)
    assert used[1:] == (world.models, world.tools)
    status = await agent.attach("r").status()
    assert (status.usage, status.model_calls, status.tool_calls) == used
    for again in (await agent.replay("r"), await agent.attach("r").result()):
        assert (again.usage, again.model_calls, again.tool_calls) == used
        assert again.usage_by_model == run.usage_by_model


@pytest.mark.parametrize("end", ENDS)
async def test_what_ended_a_run_counts_when_it_goes_on(end: str, place: Place) -> None:
    make, kind = ENDS[end]

    world = World()
    agent = make(world, place())
    run = await broken_off(agent, make, world)
    assert isinstance(run.stop, kind), run.stop
    await agree(agent, run, world)
    world.mended = True
    agent = make(world, place())
    run = await agent.resume("r")
    assert isinstance(run.stop, stops.Completed), run.stop
    await agree(agent, run, world)


@pytest.mark.parametrize("task", [False, True], ids=["handle", "task"])
async def test_a_model_call_that_was_cancelled_counts_when_the_run_goes_on(task: bool, place: Place) -> None:
    world = World()
    agent = Agent(world.model(LOOK, hangs), tools=world.box(), store=place())
    if task:
        running = asyncio.create_task(agent.run("go", run_id="r"))
        await world.begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError) as cancelled:
            await running
        run = cancelled.value.partial  # type: ignore[attr-defined]
    else:
        handle = agent.start("go", run_id="r")
        await world.begun.wait()
        await handle.cancel()
        run = await handle.result()
    await agree(agent, run, world)
    assert run.usage.requests == 2
    world.mended = True
    again = Agent(world.model(LOOK, hangs), tools=world.box(), store=place())
    run = await again.resume("r")
    await agree(again, run, world)
    assert (run.usage.requests, run.usage.estimated) == (3, True)
    assert run.usage.total > COST.total * 2 + ASSUMED_OUTPUT  # the cancelled call, as it was reserved


@pytest.mark.parametrize("make", [failed, timed_out], ids=["failed", "timed out"])
async def test_a_budget_knows_of_what_ended_the_run(make: Make, place: Place) -> None:
    world = World()
    await broken_off(make(world, place()), make, world)
    world.mended = True
    for limit, kind in ((2, stops.BudgetExceeded), (3, stops.Completed)):
        agent = Agent(world.model(LOOK, "done"), tools=world.box(), budget=Budget(requests=limit), store=place())
        assert isinstance((await agent.resume("r")).stop, kind)
    assert world.models == 3


async def test_a_run_that_waits_in_an_agent_of_a_tool_has_used_what_that_has_used(place: Place) -> None:
    world = World()
    inner = Agent(world.model(LOOK, [tool_call("send")], "sent"), tools=world.box(), name="inner")

    @tool
    async def ask_inner() -> str:
        return (await inner.run("go")).text

    agent = Agent(world.model([tool_call("ask_inner")], "done"), tools=[ask_inner], store=place())
    run = await agent.run("go", run_id="r")
    assert run.pending
    await agree(agent, run, world)
    again = await agent.attach("r").result()
    assert again.seconds == pytest.approx(run.seconds, abs=0.5)
    world.tools += 1  # the function of the tool, which has not ended yet
    run = await agent.resume("r", {item.id: Approve() for item in run.pending})
    assert run.text == "done"
    await agree(agent, run, world)


@pytest.mark.parametrize("as_flow", [False, True], ids=["agent", "flow"])
async def test_a_run_that_waits_is_read_with_its_session_and_its_time(as_flow: bool, place: Place) -> None:
    world, clock = World(), HandClock()

    @tool
    async def work() -> str:
        await clock.advance(60)
        return "done"

    @tool(approval=True)
    async def send() -> None:
        """Send."""

    asked = Agent(world.model([tool_call("work")], [tool_call("send")], "sent"), tools=[work, send], store=place())
    agent: Runnable[Any] = asked
    if as_flow:

        async def inner(text: str) -> str:
            return (await asked.run(text)).text

        agent = flow(store=asked.store)(inner)
    run = await agent.run("go", run_id="r", session="s", environment=Environment(clock=clock))
    for read in (run, await agent.attach("r").result(), await agent.replay("r")):
        assert (read.session, read.seconds, read.pending) == ("s", 60.0, run.pending)


async def test_a_layer_that_answers_instead_of_the_agent_does_not_hide_what_the_agent_has_used(place: Place) -> None:
    world, known = World(), CacheStore(10)

    def make() -> Runnable[Any]:
        return Agent(world.model(LOOK, fails), tools=world.box(), store=place()).layered(cache(store=known))

    await make().run("go", run_id="r")
    world.mended = True
    await make().run("go", run_id="other")
    world.models, world.tools = world.models - 2, world.tools - 1  # those of the other
    run = await make().resume("r")
    assert run.text == "done"
    await agree(make(), run, world)


async def test_a_call_that_ended_as_the_run_was_redirected_counts(place: Place) -> None:
    world = World()
    both = [tool_call("redirect"), tool_call("look")]
    agent = Agent(world.model(both, [tool_call("send")], "done"), tools=world.box(), store=place())
    world.handle = agent.start("go", run_id="r")
    run = await world.handle.result()
    assert run.pending
    await agree(agent, run, world)


async def test_a_fork_of_a_failed_run_begins_at_the_step_that_failed_or_before(place: Place) -> None:
    world = World()
    agent = raised(world, place())
    await agent.run("go", run_id="r")
    world.mended = True
    agent = raised(world, place())
    with pytest.raises(ConfigurationError, match="only at step 1"):
        await agent.fork("r", 2, effects="live", new_id="f")
    await agent.resume("r")
    world.tools -= 1  # the failure that ended the run is no part of its steps
    fork = await agent.fork("r", 2, effects="live", new_id="f")
    status = await agent.attach("f").status()
    assert (status.model_calls, status.tool_calls) == (fork.model_calls, fork.tool_calls) == (2, world.tools)


async def test_a_fork_has_the_cost_of_cancelled_calls_in_its_steps_but_not_of_what_ended_the_run(place: Place) -> None:
    world = World()
    inner = stack(Agent(world.model(hangs), name="inner"), timeout(seconds=1))
    agent = Agent(world.model([tool_call("inner", input="go")], hangs, "done"), tools=[inner], store=place())
    handle = agent.start("go", run_id="r", environment=Environment(clock=world.clock))
    await world.begun.wait()
    world.begun.clear()
    await world.clock.advance(2)  # the tool has timed out, so that the next call of the model is made
    await world.begun.wait()
    await handle.cancel()
    assert isinstance((await handle.result()).stop, stops.Cancelled)
    world.mended = True
    run = await agent.resume("r")
    world.tools += 1  # the agent, which is called as a tool
    await agree(agent, run, world)
    fork = await agent.fork("r", 3, "and now?", effects="live", new_id="f")
    status = await agent.attach("f").status()
    assert (status.usage, status.model_calls) == (fork.usage, fork.model_calls)
    assert (fork.usage.requests, fork.usage.output) == (4, 3 + ASSUMED_OUTPUT)  # the cancelled call, as it was reserved
