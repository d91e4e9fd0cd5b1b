"""Waiting for a person costs no time: of no limit around the call that waits; no call beside it gets more time."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.hard_cases.support import ByTurn
from tests.samples import pairs, rows
from tests.stores.places import STORES, new_store
from ziggurat import Agent, AgentRun, Approvals, Approve, Context, Deny, Runnable, ToolCall, stack, tool
from ziggurat.agents import Decision, Environment, PendingItem
from ziggurat.journal.entries import Decided
from ziggurat.layers import hedge, timeout
from ziggurat.messages import stops, tool_call
from ziggurat.messages.agent import decision_of
from ziggurat.stores.records import read_record
from ziggurat.testing import HandClock, ScriptedModel
from ziggurat.tools import FunctionTool
from ziggurat.tools.approval import Approver

pytestmark = pytest.mark.usefixtures("place")

HOURS = 10_000.0
LIMIT = 10.0


class World:
    """A clock, a tool that needs approval, one that works for some seconds, and a person who takes hours."""

    def __init__(self, person: str = "async") -> None:
        self.clock = HandClock(auto=True)
        self.approver: Approver = {"async": self._decide, "sync": self._decide_at_once}[person]

    async def _decide(self, item: PendingItem) -> Decision:
        await self.clock.sleep(HOURS)
        return Approve()

    def _decide_at_once(self, item: PendingItem) -> Decision:
        self.clock.skip(HOURS)  # as reading a line from the terminal, which blocks the event loop
        return Approve()

    def pay(self, seconds: float = 1.0, **settings: Any) -> FunctionTool:
        @tool(approval=True, **settings)
        async def pay() -> str:
            await self.clock.sleep(seconds)
            return "paid"

        return pay

    def work(self, seconds: float, **settings: Any) -> FunctionTool:
        @tool(**settings)
        async def work() -> str:
            await self.clock.sleep(seconds)
            return "worked"

        return work

    def helper(self, seconds: float, **settings: Any) -> Agent:
        return Agent(ScriptedModel(tool_call("pay"), "done"), name="helper", tools=[self.pay(seconds)], **settings)

    async def run(self, agent: Agent | Any) -> AgentRun:
        run: AgentRun = await agent.run("go", environment=Environment(clock=self.clock))
        return run

    def agent(self, *said: Any, tools: list[Any], **settings: Any) -> Agent:
        approvals = Approvals(approver=self.approver)
        return Agent(ScriptedModel(*said), tools=tools, approvals=approvals, store=new_store(), **settings)


def _agents_own(world: World, seconds: float) -> Any:
    return world.agent(tool_call("pay"), "done", tools=[world.pay(seconds)], timeout=LIMIT)


def _layer_on_the_agent(world: World, seconds: float) -> Any:
    return world.agent(tool_call("pay"), "done", tools=[world.pay(seconds)]).layered(timeout(seconds=LIMIT))


def _layer_on_a_nested_agent(world: World, seconds: float) -> Any:
    limited = stack(world.helper(seconds), timeout(seconds=LIMIT))
    return world.agent(tool_call("helper", input="x"), "done", tools=[limited])


def _nested_agents_own(world: World, seconds: float) -> Any:
    helper = world.helper(seconds, timeout=LIMIT)
    return world.agent(tool_call("helper", input="x"), "done", tools=[helper], timeout=2 * LIMIT)


def _function_that_runs_an_agent(world: World, seconds: float) -> Any:
    @tool(timeout=LIMIT)
    async def ask() -> str:
        return (await world.helper(seconds).run("x")).raise_for_stop().text

    return world.agent(tool_call("ask"), "done", tools=[ask])


def _limit_in_a_function(world: World, seconds: float) -> Any:
    @tool
    async def ask(ctx: Context) -> str:
        async with ctx.limit(LIMIT) as limited:
            service = world.helper(seconds).as_tool()
            return (await service(ToolCall("1", "helper", '{"input":"x"}'), limited)).text

    return world.agent(tool_call("ask"), "done", tools=[ask])


LIMITS = (
    _agents_own, _layer_on_the_agent, _layer_on_a_nested_agent, _nested_agents_own, _function_that_runs_an_agent,
    _limit_in_a_function,
)  # fmt: skip


@pytest.mark.parametrize(("limit", "person", "place"), rows(LIMITS, ["async", "sync"], STORES), indirect=["place"])
async def test_a_limit_counts_work_and_not_waits(limit: Callable[[World, float], Any], person: str) -> None:
    quick, slow = World(person), World(person)
    run = await quick.run(limit(quick, LIMIT - 1))
    assert (run.stop, run.text) == (stops.Completed(), "done")
    assert not _late(run)
    assert run.seconds < LIMIT
    run = await slow.run(limit(slow, LIMIT + 1))
    assert isinstance(run.stop, stops.TimedOut) or _late(run), (run.stop, run.observations)


def _late(run: AgentRun) -> bool:
    return any("timed out" in text for text in run.observations)


async def _together(world: World, *tools: FunctionTool, **settings: Any) -> AgentRun:
    calls = [tool_call(each.spec.name) for each in tools]
    return await world.run(world.agent(calls, "done", tools=[*tools], **settings))


async def test_a_call_beside_one_that_waits_gets_no_more_time() -> None:
    world = World()
    run = await _together(world, world.pay(), world.work(LIMIT + 1, timeout=LIMIT))
    assert run.observations == ("paid", "the tool work timed out after 10 s")


@pytest.mark.parametrize(("seconds", "stop"), [(LIMIT - 2, stops.Completed()), (LIMIT + 1, stops.TimedOut(LIMIT))])
async def test_work_beside_a_wait_counts_for_the_agent_around_both(seconds: float, stop: stops.Stop) -> None:
    world = World()
    run = await _together(world, world.pay(), world.work(seconds), timeout=LIMIT)
    assert run.stop == stop
    assert run.seconds == pytest.approx(min(seconds + 1, LIMIT))


async def test_several_waits_at_the_same_time_are_free_together() -> None:
    world = World()

    @tool(approval=True)
    async def refund() -> str:
        return "refunded"

    run = await _together(world, world.pay(), refund, timeout=LIMIT)
    assert run.stop == stops.Completed()
    assert run.seconds == pytest.approx(1)


@pytest.mark.parametrize("begins", [LIMIT - 3, LIMIT + 3])
async def test_agents_that_a_tool_runs_at_the_same_time_have_their_own_time(begins: float) -> None:
    world = World()
    payer = Agent(ScriptedModel(tool_call("pay"), "paid it"), name="payer", tools=[world.pay()], timeout=LIMIT)
    worker = Agent(
        ScriptedModel(tool_call("work"), "worked it"), name="worker", tools=[world.work(begins)], timeout=LIMIT
    )

    @tool
    async def both() -> list[str]:
        runs = await asyncio.gather(payer.run("x"), worker.run("x"), return_exceptions=True)
        return [str(run.stop) for run in runs if isinstance(run, AgentRun)]

    run = await world.run(world.agent(tool_call("both"), "done", tools=[both]))
    assert run.observations[0].count("Completed") == (2 if begins < LIMIT else 1)


async def test_the_approvers_own_time_is_limited_by_its_own_limit_alone() -> None:
    world = World()
    approvals = Approvals(approver=world.approver, timeout=60)
    model = ScriptedModel(tool_call("pay"), "done")
    agent = Agent(model, tools=[world.pay()], approvals=approvals, timeout=LIMIT, store=new_store())
    run = await world.run(agent)
    assert run.stop == stops.Completed()
    assert "nobody decided within 60 s" in run.observations[0]


async def test_an_agent_that_decides_has_the_time_of_its_own_limit() -> None:
    world = World()

    async def slow(request: Any, ctx: Context) -> Any:
        await ctx.clock.sleep(LIMIT / 2)
        return await ScriptedModel("yes")(request, ctx)

    judge = Agent(slow, name="judge", timeout=LIMIT)

    async def decide(item: PendingItem) -> Decision:
        await world.clock.sleep(HOURS)
        (await judge.run("May it?")).raise_for_stop()
        return Approve()

    world.approver = decide
    assert (await world.run(_agents_own(world, 1))).stop == stops.Completed()


@pytest.mark.parametrize(("seconds", "stop"), [(4, stops.Completed()), (6, stops.TimedOut(LIMIT))])
async def test_a_resumed_run_has_the_rest_of_its_time(seconds: float, stop: stops.Stop) -> None:
    world = World()
    environment = Environment(clock=world.clock)
    store = new_store()

    def agent() -> Agent:
        model = ScriptedModel(tool_call("pay"), tool_call("work"), "done")
        approvals = Approvals(approver=world.approver)
        tools = [world.pay(seconds), world.work(4)]
        return Agent(model, tools=tools, approvals=approvals, timeout=LIMIT, store=store)

    handle = agent().start("go", run_id="r", environment=environment)
    await world.clock.sleep(HOURS + seconds + 1)  # 1 s of the second tool
    await handle.cancel()
    await handle.result()
    other = Agent(ScriptedModel("done"), tools=agent().tools, timeout=LIMIT, store=store)
    run = await other.resume("r", environment=environment)
    assert run.stop == stop
    assert run.seconds == pytest.approx(min(seconds + 1 + 4, LIMIT))


async def test_a_second_try_does_not_come_because_a_person_is_slow() -> None:
    world = World()
    asked: list[str] = []

    @tool(approval=True, effect="none")
    async def read() -> str:
        asked.append("read")
        return "text"

    def reader() -> Agent:
        return Agent(ScriptedModel(tool_call("read"), "read it"), name="reader", tools=[read])

    both = hedge(reader(), reader(), delay=LIMIT)

    agent = Runnable(both, name="both", store=new_store())
    run = await agent.run(
        "go", approvals=Approvals(approver=world.approver), environment=Environment(clock=world.clock)
    )
    assert run.text == "read it"
    assert asked == ["read"]


def _beside(world: World, store: Any, depth: int, seconds: float, *, waits: int = 1, rounds: int = 1) -> Agent:
    """Return an agent that works for hours beside one that waits, within as many agents with limits."""
    said: list[Any] = [tool_call("work"), *[tool_call("pay")] * waits, tool_call("work"), "done"]
    tools: list[Any] = [world.pay(seconds), world.work(1)]
    for level in range(depth, 0, -1):
        tools = [Agent(ByTurn(*said), name=f"level-{level}", tools=tools, timeout=LIMIT)]
        said = [tool_call(f"level-{level}", input="x"), "done"]

    @tool
    async def beside() -> str:
        await world.clock.sleep(2 * HOURS)
        return "worked"

    calls = [tool_call("level-1", input="x"), tool_call("beside")]
    return Agent(ByTurn(*[calls] * rounds, "done"), tools=[*tools, beside], store=store, name="outer")


@pytest.mark.parametrize(
    ("depth", "waits", "seconds", "place"), pairs([1, 2, 3], [1, 2], [1.0, LIMIT], STORES), indirect=["place"]
)
async def test_an_agent_that_waits_beside_work_keeps_its_time(depth: int, waits: int, seconds: float) -> None:
    world, store = World(), new_store()
    environment = Environment(clock=world.clock)
    run = await _beside(world, store, depth, seconds, waits=waits, rounds=2).run(
        "go", run_id="r", environment=environment
    )
    while run.pending:
        decisions = {item.id: Approve() for item in run.pending}
        run = await _beside(world, store, depth, seconds, waits=waits, rounds=2).resume(
            "r", decisions, environment=environment
        )
    assert run.stop == stops.Completed()
    assert _late(run) == (seconds == LIMIT), run.observations


@pytest.mark.parametrize(("depth", "seconds"), [(1, 1.0), (2, 1.0), (3, 1.0), (1, LIMIT)])
async def test_an_agent_that_waited_beside_work_keeps_its_time_in_the_next_process(depth: int, seconds: float) -> None:
    world, store = World(), new_store()
    settings: dict[str, Any] = {"environment": Environment(clock=world.clock)}
    settings["approvals"] = Approvals(approver=world.approver)
    handle = _beside(world, store, depth, seconds).start("go", run_id="r", **settings)
    await world.clock.sleep(1 + HOURS + seconds + 0.5)  # half of the second work
    await handle.cancel()
    await handle.result()
    run = await _beside(world, store, depth, seconds).resume("r", **settings)
    assert run.stop == stops.Completed()
    assert _late(run) == (seconds == LIMIT), run.observations


@pytest.mark.parametrize("end", ["approved", "denied", "late", "given up"])
async def test_however_a_wait_ends_in_this_process_its_end_is_recorded(end: str) -> None:
    world = World()

    async def approver(item: PendingItem) -> Decision:
        await world.clock.sleep(HOURS)
        if end == "given up":
            raise asyncio.CancelledError
        return Approve() if end == "approved" else Deny("no")

    helper = Agent(ScriptedModel(tool_call("pay"), "done"), name="helper", tools=[world.pay(1)])
    model = ScriptedModel([tool_call("helper", input="x"), tool_call("work")], "done")
    approvals = Approvals(approver=approver, timeout=60 if end == "late" else None)
    agent = Agent(model, tools=[helper, world.work(LIMIT)], approvals=approvals, store=new_store())

    run = await world.run(agent)
    assert run.stop == stops.Completed()
    journal = await read_record(agent.store, run.id, world.clock)
    (decided,) = [entry for entry in journal.entries if isinstance(entry, Decided)]
    assert isinstance(decision_of(decided.decision), Approve if end == "approved" else Deny)
    assert journal.durations.of("agent/step-1/tool-1:helper/helper") == (1 if end == "approved" else 0), (
        "not what was beside it"
    )
