"""Parts of a group whose results are not used leave their events in the inbox, for later waits."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.samples import pairs, rows
from tests.stores.places import PLACES, STORES, Place, new_store
from ziggurat import Agent, AgentRun, Runnable, tool
from ziggurat.agents import Environment
from ziggurat.flows import Flow, ask, event, first, flow, gather, quorum, sleep, step
from ziggurat.layers import fallback, hedge
from ziggurat.messages import stops, tool_call
from ziggurat.stores import InMemoryStore
from ziggurat.testing import HandClock, Pause, ScriptedModel, run_until_idle
from ziggurat.tools import FunctionTool


@step
async def _note(what: str) -> str:
    return what


async def _noted(name: str) -> str:
    return await _note(await event(name, str))


async def _both(one: str, two: str) -> str:
    return "+".join(await gather(event(one, str), event(two, str)))


async def _inner(one: str, two: str) -> str:
    return await first(event(one, str), event(two, str))


GROUPS: dict[str, Any] = {
    "first": lambda: first(event("a", str), event("b", str)),
    "first of works": lambda: first(event("a", str), _noted("b")),
    "quorum": lambda: quorum(1, event("a", str), event("b", str)),
    "quorum of three": lambda: quorum(2, event("a", str), event("a", str), event("b", str)),
    "nested": lambda: first(event("a", str), _inner("b", "b")),
    "nested gather": lambda: first(event("a", str), _both("b", "b")),
}


def _order(group: str) -> Flow[None, list[Any]]:
    @flow(name="order", store=new_store())
    async def order() -> list[Any]:
        won = await GROUPS[group]()
        return [
            list(won) if isinstance(won, tuple) else won,
            [await event(name, str, timeout=0.01, default="lost") for name in "bb"],
        ]

    return order


async def _outcome(group: str, sent: Sequence[str]) -> Any:
    await _order(group).run(run_id="r")
    for number, name in enumerate(sent):
        await _order(group).attach("r").send(name, f"{name}{number}")
    run = await _order(group).resume("r")
    assert (await _order(group).resume("r")).output == run.output, "the same from the record"
    return run.output


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(("group", "place"), rows(GROUPS, PLACES), indirect=["place"])
async def test_a_later_wait_gets_the_events_of_those_that_have_lost(group: str) -> None:
    sent = "aabb"
    won, later = await _outcome(group, sent)
    used = [each for each in (won if isinstance(won, list) else won.split("+")) if each]
    events = [f"{name}{number}" for number, name in enumerate(sent) if name == "b"]
    assert later == [each for each in events if each not in used][:2] + ["lost"] * sum(each in events for each in used)


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("place", ["memory", "sqlite"], indirect=True)
async def test_a_wait_beside_the_group_gets_what_is_given_back(place: Place) -> None:
    def order() -> Flow[None, list[str]]:
        @flow(name="order", store=new_store())
        async def order() -> list[str]:
            return list(await gather(first(event("a", str), event("b", str)), event("b", str)))

        return order

    await order().run(run_id="r")
    await order().attach("r").send("a", "for a")
    await order().attach("r").send("b", "for b")
    outputs = [run.output for _ in range(3) for run in (await order().recover()).runs.values()]
    assert outputs[-1] == ["for a", "for b"]


async def test_a_flow_with_the_name_of_a_group_has_taken_its_events() -> None:
    store = new_store()

    @flow(name="first")
    async def inner() -> dict[str, list[int]]:
        return {"parts": [int(await event("a", str))]}

    @flow(name="order", store=store)
    async def order() -> list[Any]:
        return [(await inner.run()).output, await event("a", str, timeout=0.01, default="none")]

    clock = HandClock()
    environment = Environment(clock=clock)
    await order.run(run_id="r", environment=environment)
    await order.attach("r").send("a", "7")
    await order.resume("r", environment=environment)
    await clock.advance(1)
    assert (await order.resume("r", environment=environment)).output == [{"parts": [7]}, "none"]


async def _deep(name: str, depth: int = 4) -> str:
    """Wait for an event that others, which are not as deep, look for first."""
    return (await gather(_deep(name, depth - 1)))[0] if depth else await event(name, str)


async def _recovered(order: Flow[None, Any], clock: HandClock) -> AgentRun[Any]:
    """Drive a run for as long as it is due, as workers do, and return it."""
    runs = {}
    while recovered := (await order.recover(environment=Environment(clock=clock))).runs:
        runs = recovered
    return runs["r"]


async def test_an_event_is_given_back_once() -> None:
    async def longer() -> str:
        await first(event("b", str), event("c", str))
        return await event("never", str)

    clock = HandClock()

    @flow(name="order", store=InMemoryStore(clock=clock))
    async def order() -> list[str]:
        got = await gather(first(event("a", str), longer()), _deep("c"))
        return [*got, *[await event(name, str, timeout=1, default="none") for name in "bc"]]

    await order.submit(run_id="r")
    for names in ("", "bc", "a"):
        for name in names:
            await order.attach("r").send(name, f"for {name}")
        await _recovered(order, clock)
    await clock.advance(1)
    assert (await _recovered(order, clock)).output == ["for a", "for c", "for b", "none"]


class Raced:
    """A flow with two services in a race, of which the first takes an event, and the second answers."""

    def __init__(self, kind: str) -> None:
        self.kind, self.clock, self.store = kind, HandClock(), new_store()

    def tool(self, waits: bool) -> FunctionTool:
        @tool(effect="none")
        async def look() -> str:
            """Look."""
            await self.clock.sleep(2 if waits else 10)
            if not waits:
                return "quick"
            said = await event("go", str)
            await self.clock.sleep(100)
            return said

        return look

    def agent(self, waits: bool) -> Agent[str]:
        return Agent(ScriptedModel(tool_call("look"), always="quick"), name=f"agent{waits}", tools=[self.tool(waits)])

    async def race(self) -> str:
        if self.kind == "tools":
            both = hedge(self.tool(True), self.tool(False), delay=1)
            agent: Runnable[Any] = Agent(ScriptedModel(tool_call("look"), always="quick"), name="desk", tools=[both])
        else:
            raced = hedge(self.agent(True), self.agent(False), delay=1)
            agent = Runnable(fallback(raced, self.agent(False)) if self.kind == "nested" else raced, name="desk")
        return (await agent.run("Look")).text

    async def late(self) -> str:
        @step
        async def rest() -> None:
            await self.clock.sleep(5)

        await rest()
        return await event("go", str)

    def order(self, beside: bool) -> Flow[None, list[str]]:
        @flow(name="order", store=self.store)
        async def order() -> list[str]:
            if beside:
                return list(await gather(self.race(), self.late()))
            return [await self.race(), await event("go", str)]

        return order


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    ("kind", "beside", "place"), pairs(["agents", "tools", "nested"], [True, False], STORES), indirect=["place"]
)
async def test_a_later_wait_gets_the_event_of_an_alternative_that_has_lost(kind: str, beside: bool) -> None:
    raced = Raced(kind)
    order, settings = raced.order(beside), Environment(clock=raced.clock)
    handle = order.start(run_id="r", environment=settings)
    for seconds in (1, 1, 1):
        await raced.clock.advance(seconds)
        await run_until_idle()
    await handle.send("go", "here")
    await raced.clock.advance(1)
    taken = [line for line in (await order.record("r")).splitlines() if b'"Decided"' in line]
    assert ["alt-1" in str(line) for line in taken] == [True]
    for seconds in (7, 1, 1, 1):
        await raced.clock.advance(seconds)
        await run_until_idle()
    assert (await handle.result()).output == ["quick", "here"]
    again: AgentRun[Any] = await order.resume("r", environment=settings)
    assert (again.output, (await order.replay("r")).output) == (["quick", "here"], ["quick", "here"])


@pytest.mark.parametrize("wait", [lambda: ask("Sure?"), lambda: event("sure"), lambda: sleep(days=1)])
async def test_an_alternative_that_waits_loses_against_one_that_answers(wait: Callable[[], Any]) -> None:
    clock = HandClock(auto=True)

    @tool(effect="none")
    async def waits() -> str:
        """Wait."""
        await clock.sleep(2)
        return str(await wait())

    one = Agent(ScriptedModel(tool_call("waits"), always="waited"), name="one", tools=[waits])
    other = Agent(ScriptedModel([Pause(10.0), "here"]), name="other")
    desk = Runnable(hedge(one, other, delay=1), name="desk", store=InMemoryStore())
    run = await desk.run("?", environment=Environment(clock=clock))
    assert (run.stop, run.text, run.pending) == (stops.Completed(), "here", ())
    assert await desk.pending() == {}
