"""A call that only waits for a person leaves its slots to others, and has them again before it goes on."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.hard_cases.support import ByTurn
from tests.samples import amount, rows
from tests.turns import until
from ziggurat import Agent, Approvals, Approve, Toolbox, stack, tool
from ziggurat.agents import Decision, PendingItem
from ziggurat.flows import flow, gather, step
from ziggurat.layers import Bulkhead, concurrency_limit, timeout
from ziggurat.messages import stops, tool_call
from ziggurat.testing import ScriptedModel, assert_no_leaks, run_until_idle
from ziggurat.tools import FunctionTool, quorum_join


class World:
    """A person who decides when told to, and tools that work until told to end."""

    def __init__(self) -> None:
        self.slots = Bulkhead(1)
        self.asked: dict[str, asyncio.Future[Decision]] = {}
        self.working: dict[str, asyncio.Future[None]] = {}
        self.most = 0

    async def approver(self, item: PendingItem) -> Decision:
        self.asked[item.call.name] = asyncio.get_running_loop().create_future()
        return await self.asked[item.call.name]

    async def approve(self, name: str) -> None:
        await until(lambda: name in self.asked)
        self.asked.pop(name).set_result(Approve())

    async def end(self, name: str) -> None:
        await until(lambda: name in self.working)
        self.working[name].set_result(None)
        await until(lambda: name not in self.working)

    async def work(self, name: str) -> str:
        self.working[name] = asyncio.get_running_loop().create_future()
        self.most = max(self.most, len(self.working))
        try:
            await self.working[name]
        finally:
            del self.working[name]
        return "done"

    def tool(self, name: str) -> FunctionTool:
        @tool(name=name, approval=name.startswith("pay"))
        async def work() -> str:
            return await self.work(name)

        return work

    def agent(self, *replies: Any, tools: Any = None, name: str = "payer", **settings: Any) -> Agent:
        names = dict.fromkeys(call.name for reply in replies for call in (reply if type(reply) is list else [reply]))
        tools = [self.tool(each) for each in names] if tools is None else tools
        approvals = Approvals(approver=self.approver)
        return Agent(ByTurn(*replies, "done"), tools=tools, approvals=approvals, name=name, **settings)

    def other(self) -> "asyncio.Task[Any]":
        """Start another agent that needs the slot."""
        agent = self.agent(tool_call("other"), name="other")
        return asyncio.create_task(self.limited(agent).run("go"))

    def limited(self, agent: Any) -> Any:
        return agent.layered(concurrency_limit(bulkhead=self.slots))

    def assert_free(self) -> None:
        assert (self.slots.running, self.slots.waiting) == (0, 0)


def _called(depth: int, *, limited: bool) -> Callable[[World], Any]:
    """Return an agent so deep beneath one with a slot; those between may have the same limit."""

    def make(world: World) -> Any:
        agent: Any = world.agent(tool_call("pay"))
        for level in range(depth):
            named = stack(agent, concurrency_limit(bulkhead=world.slots)) if limited else agent
            called = tool_call(agent.name, input="x")
            agent = world.agent(called, tools=[named], name=f"level-{level}")
        return world.limited(agent)

    return make


def _in_a_function(world: World) -> Any:
    helper = world.agent(tool_call("pay"), name="helper")

    @tool
    async def ask() -> str:
        return (await helper.run("x")).text

    return world.limited(world.agent(tool_call("ask"), tools=[ask]))


WAITING: dict[str, Callable[[World], Any]] = {
    "alone": lambda world: world.limited(world.agent(tool_call("pay"))),
    "beside a call that has ended": lambda world: world.limited(world.agent([tool_call("pay"), tool_call("add")])),
    "one level below": _called(1, limited=False),
    "two levels below": _called(2, limited=False),
    "one level below within a limit": _called(1, limited=True),
    "two levels below within limits": _called(2, limited=True),
    "in a function": _in_a_function,
    "within a time limit": lambda world: _in_a_function(world).layered(timeout(seconds=60)),
}


@pytest.mark.parametrize(("where", "queue"), rows(WAITING, [10, 0]))
async def test_others_have_the_slot_while_a_person_decides(where: str, queue: int) -> None:
    world = World()
    world.slots = Bulkhead(1, queue=queue)

    async with assert_no_leaks():
        waiting = asyncio.create_task(WAITING[where](world).run("go"))
        await until(lambda: world.asked)
        if "beside" in where:
            await run_until_idle()
            assert world.slots.running == 1  # it still works
            await world.end("add")
        await until(lambda: not world.slots.running)
        other = world.other()
        await until(lambda: world.working)
        await world.approve("pay")
        await until(lambda: world.slots.waiting)
        assert list(world.working) == ["other"]
        await world.end("other")
        await world.end("pay")
        assert [run.text for run in await asyncio.gather(waiting, other)] == ["done", "done"]
    assert world.most == 1
    world.assert_free()


@pytest.mark.parametrize(("where", "decided"), rows(WAITING, [False, True]))
async def test_who_is_cancelled_while_others_have_the_slot_takes_none(where: str, decided: bool) -> None:
    world = World()

    async with assert_no_leaks():
        waiting = asyncio.create_task(WAITING[where](world).run("go"))
        await until(lambda: world.asked)
        if "beside" in where:
            await world.end("add")
        other = world.other()
        await until(lambda: "other" in world.working)
        if decided:
            await world.approve("pay")
            await until(lambda: world.slots.waiting)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert (world.slots.running, world.slots.waiting) == (1, 0)
        await world.end("other")
        assert (await other).text == "done"
    world.assert_free()


@pytest.mark.parametrize("first", ["pay_1", "pay_2"])
async def test_a_call_of_which_one_part_is_decided_on_has_its_slot(first: str) -> None:
    world = World()

    waiting = asyncio.create_task(world.limited(world.agent([tool_call("pay_1"), tool_call("pay_2")])).run("go"))
    await until(lambda: len(world.asked) == 2)
    for name in (first, *world.asked.keys() - {first}):
        await until(lambda: not world.slots.running)
        await world.approve(name)
        await until(lambda: world.working)
        assert world.slots.running == 1
        await world.end(name)
    assert (await waiting).observations == ("done", "done")
    world.assert_free()


def _cancelled_by_its_batch(world: World) -> Any:
    calls, tools = [tool_call("pay"), tool_call("add")], [world.tool("pay"), world.tool("add"), world.tool("next")]
    return world.limited(world.agent(calls, tool_call("next"), tools=Toolbox(tools, join=quorum_join(1))))


def _cancelled_by_the_program(world: World) -> Any:
    helper = world.agent(tool_call("pay"), name="helper")

    @tool
    async def ask() -> str:
        asking = asyncio.ensure_future(helper.run("x"))
        await until(lambda: "other" in world.working)
        asking.cancel()
        await asyncio.wait([asking])
        return "nobody decided"

    return world.limited(world.agent(tool_call("ask"), tool_call("next"), tools=[ask, world.tool("next")]))


@pytest.mark.parametrize("how", ["batch", "program", "redirect"])
async def test_an_agent_that_goes_on_when_a_wait_was_cancelled_has_its_slot_again(how: str) -> None:
    world = World()

    if how == "redirect":
        agent = world.limited(world.agent(tool_call("pay"), tool_call("next")))
    else:
        agent = {"batch": _cancelled_by_its_batch, "program": _cancelled_by_the_program}[how](world)
    handle = agent.start("go")
    await until(lambda: world.asked)
    other = world.other()
    if how == "batch":
        await world.end("add")
        await world.end("next")  # it did not lose its slot: the other call of the batch has worked
        await world.end("other")
    else:
        await until(lambda: "other" in world.working)
        if how == "redirect":
            await handle.redirect("something else")
        await until(lambda: world.slots.waiting)
        await world.end("other")
        await world.end("next")
    assert (await handle.result()).text == (await other).text == "done"
    assert world.most == 1
    world.assert_free()


# -- the calls of a reply, and the parts of a group -------------------------------------------------------------------


@pytest.mark.parametrize("concurrency", [1, 2])
async def test_a_call_that_waits_holds_up_no_other_of_its_reply(concurrency: int) -> None:
    world = World()
    calls = [tool_call(name) for name in ("pay", "add", "look")]
    box = Toolbox([world.tool(call.name) for call in calls], concurrency=concurrency)

    waiting = asyncio.create_task(world.limited(world.agent(calls, tools=box)).run("go"))
    await world.end("add")
    await until(lambda: "look" in world.working)
    await world.approve("pay")
    await run_until_idle()
    assert len(world.working) == concurrency
    await world.end("look")
    await world.end("pay")
    assert (await waiting).observations == ("done", "done", "done")
    assert world.most == concurrency
    world.assert_free()


async def test_a_part_that_waits_holds_up_no_other_of_its_group() -> None:
    world = World()
    payer = world.agent(tool_call("pay"))

    async def ask() -> str:
        return (await payer.run("x")).text

    @step
    async def work(name: str) -> str:
        return await world.work(name)

    @flow
    async def both() -> list[str]:
        return list(await gather(ask(), work("one"), work("two"), limit=1))

    run = asyncio.create_task(both.run())
    await world.end("one")
    await until(lambda: "two" in world.working)
    await world.approve("pay")
    await world.end("two")
    await world.end("pay")
    assert (await run).output == ["done", "done", "done"]
    assert world.most == 1


async def test_a_batch_that_fails_fast_begins_no_call_that_had_no_slot() -> None:
    world = World()

    @tool
    async def fail() -> str:
        raise ValueError("no")

    box = Toolbox([fail, world.tool("pay"), world.tool("add")], concurrency=1, join="fail_fast")
    run = await world.agent([tool_call("fail"), tool_call("pay"), tool_call("add")], tools=box).run("go")
    assert run.observations == ("ValueError: no", *["not executed: another call of the batch failed"] * 2)
    assert (world.asked, world.most) == ({}, 0)


@pytest.mark.parametrize("seed", range(amount(3, 12)))
async def test_agents_within_each_other_that_share_slots_and_wait_all_end(seed: int) -> None:
    """Trees of agents under one bulkhead, some of whose calls are decided on after a number of turns."""
    chance = random.Random(seed)
    bulkhead = Bulkhead(chance.choice((1, 1, 2)))

    async def decide(item: PendingItem) -> Decision:
        for _ in range(chance.randint(0, 12)):
            await asyncio.sleep(0)
        return Approve()

    @tool(approval=True)
    async def act() -> str:
        return "acted"

    def agent(depth: int) -> Any:
        below = [agent(depth - 1) for _ in range(chance.randint(0, 2) if depth else 0)]
        renamed = [each.as_tool(name=f"agent_{number}", description="Works.") for number, each in enumerate(below)]
        limit = concurrency_limit(bulkhead=bulkhead)
        limited = [stack(each, limit) if chance.random() < 0.7 else each for each in renamed]
        calls = [tool_call(f"agent_{number}", input="x", id=f"a{number}") for number in range(len(below))]
        calls += [tool_call("act", id=f"c{number}") for number in range(chance.randint(1, 2))]
        chance.shuffle(calls)
        tools = Toolbox([*limited, act], concurrency=chance.choice((1, 2, None)))
        return Agent(ByTurn(calls, calls[:1], "done"), tools=tools, name=f"level_{depth}")

    def root() -> Any:
        top = agent(chance.randint(1, 3))
        return Agent(
            ScriptedModel(tool_call("top", input="x"), "done"),
            tools=[stack(top.as_tool(name="top", description="Works."), concurrency_limit(bulkhead=bulkhead))],
            approvals=Approvals(approver=decide),
        )

    for _ in range(amount(4, 10)):
        started = [root().run("go") for _ in range(chance.randint(1, 3))]
        runs = await asyncio.wait_for(asyncio.gather(*started), 60)
        assert all(isinstance(run.stop, stops.Completed) for run in runs)
        assert (bulkhead.running, bulkhead.waiting) == (0, 0)
