"""Until it is known what came of a call that acts once only, no equal call of the run is made, wherever it is asked."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.agents.support import turns
from tests.samples import pairs
from tests.stores import places
from tests.stores.places import new_store, reopened
from ziggurat import (
    Agent,
    AgentRun,
    Context,
    Deny,
    Middleware,
    Runnable,
    Service,
    Toolbox,
    ToolCall,
    ToolError,
    ToolResult,
    layer,
    stack,
    tool,
)
from ziggurat.agents import Decision, DidNotHappen, Environment, Happened
from ziggurat.flows import flow
from ziggurat.messages import stops, tool_call
from ziggurat.messages.model import Interrupted
from ziggurat.teams import handoffs
from ziggurat.testing import HandClock, ScriptedModel
from ziggurat.tools import FunctionTool

PAY = tool_call("pay", to="Ada", amount=5)
AGAIN = tool_call("pay", amount=5, to="Ada")


class World:
    """A payment to Ada that is made and then lost, as long as `lost` is set; the models are those of one process."""

    def __init__(self, interrupted: Interrupted | None, *, cut: bool) -> None:
        self.paid: list[str] = []
        self.lost, self.cut = True, cut
        self.interrupted = interrupted
        self.store = new_store()
        self.models: dict[str, ScriptedModel] = {}

    def pay(self) -> FunctionTool:
        @tool(effect="once", interrupted=self.interrupted)
        async def pay(to: str, amount: int, ctx: Context) -> str:
            """Pay."""
            self.paid.append(to)
            if self.lost and self.cut:
                await asyncio.Event().wait()
            if self.lost:
                raise ConnectionError("lost")
            return "paid"

        return pay

    def model(self, name: str, *replies: Any) -> ScriptedModel:
        return self.models.setdefault(name, ScriptedModel(*replies, always="end"))

    def agent(self, name: str, *replies: Any, tools: tuple[Any, ...] = (), **settings: Any) -> Agent:
        box = Toolbox([self.pay(), *tools], concurrency=1)
        return Agent(self.model(name, *replies), name=name, tools=box, **settings)

    async def begun(self, make: "Callable[[World], Runnable]") -> AgentRun:
        """Return the run after the first payment was lost, or cut off and continued."""
        work = asyncio.ensure_future(make(self).run("go", run_id="r"))
        while not self.paid:
            await turns(1)
        if self.cut:
            work.cancel()
            await asyncio.wait([work])
            self.lost = False
            return await self.resumed(make)
        self.lost = False
        return await work

    async def resumed(self, make: "Callable[[World], Runnable]", *decisions: Any) -> AgentRun:
        self.store = reopened(self.store)
        waits = {} if not decisions else {item.id: decisions[0] for item in (await self.resumed(make)).pending}
        return await make(self).resume("r", waits)


def _later_step(world: World) -> Runnable:
    return world.agent("lead", PAY, AGAIN, store=world.store)


def _same_batch(world: World) -> Runnable:
    return world.agent("lead", [PAY, AGAIN], store=world.store)


def _agent_below(world: World) -> Runnable:
    helper = world.agent("helper", AGAIN)
    return world.agent("lead", PAY, tool_call("helper", input="x"), tools=(helper,), store=world.store)


def _agent_above(world: World) -> Runnable:
    helper = world.agent("helper", PAY)
    return world.agent("lead", tool_call("helper", input="x"), AGAIN, tools=(helper,), store=world.store)


def _member(world: World) -> Runnable:
    one = world.agent("one", PAY, tool_call("handoff_to_two"))
    return handoffs(one, world.agent("two", AGAIN), store=world.store)


def _part_of_a_flow(world: World) -> Runnable:
    one, two = world.agent("one", PAY), world.agent("two", AGAIN)

    @flow(name="both", store=world.store)
    async def both(task: str) -> str:
        await one.run(task)
        return (await two.run(task)).text

    return both


SHAPES = (_later_step, _same_batch, _agent_below, _agent_above, _member, _part_of_a_flow)
TABLE: dict[tuple[Any, type[Any]], tuple[int, int]] = {
    (None, Happened): (2, 0),  # the first is known, so the second is a call of its own
    (None, DidNotHappen): (3, 0),
    (None, Deny): (1, 1),  # nobody knows, so a person is asked once more when it is asked for again
    ("report", Happened): (1, 0),
    ("report", DidNotHappen): (2, 0),
    ("report", Deny): (1, 0),
}
DECISIONS: dict[type[Any], Decision] = {
    Happened: Happened("the bank says paid"),
    DidNotHappen: DidNotHappen(),
    Deny: Deny("the bank is closed"),
}
ROWS = pairs(SHAPES, [None, "report"], DECISIONS, [True, False], ["memory", "sqlite", "file"])


@pytest.fixture
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    """Keep runs in a store of this kind."""
    with places.used(request.param, tmp_path):
        yield


@pytest.mark.usefixtures("kind")
@pytest.mark.parametrize(("make", "interrupted", "decided", "cut", "kind"), ROWS, indirect=["kind"])
async def test_a_call_is_not_made_while_it_is_unknown_what_came_of_an_equal_one(
    make: Callable[[World], Runnable], interrupted: Any, decided: type[Any], cut: bool
) -> None:
    times, waits = TABLE[interrupted, decided]
    world = World(interrupted, cut=cut)
    run = await world.begun(make)
    for _ in range(2):
        assert (run.stop, [item.interrupted for item in run.pending]) == (stops.Suspended(), [True])
        assert world.paid == ["Ada"]
        run = await world.resumed(make)
    run = await world.resumed(make, DECISIONS[decided])
    assert (len(world.paid), len(run.pending)) == (times, waits)
    if waits:
        run = await world.resumed(make, Happened("the bank says paid"))
        assert len(world.paid) == times
    assert run.stop == stops.Completed()
    assert (await make(world).replay("r")).messages == run.messages


@pytest.mark.usefixtures("kind")
@pytest.mark.parametrize("kind", ["memory"], indirect=True)
@pytest.mark.parametrize("later", [[AGAIN, PAY], [[AGAIN, PAY]]], ids=["one by one", "at once"])
@pytest.mark.parametrize("interrupted", ["report", "retry_if_idempotent"])
async def test_what_a_person_has_decided_is_not_asked_again(interrupted: Interrupted, later: list[Any]) -> None:
    world = World(interrupted, cut=False)

    def make(world: World) -> Runnable:
        return world.agent("lead", PAY, *later, store=world.store)

    assert len((await world.begun(make)).pending) == 1
    run = await world.resumed(make, Happened("the bank says paid"))
    assert (run.stop, world.paid, run.observations[1:]) == (
        stops.Completed(), ["Ada", "Ada"], ("the bank says paid", "paid"),
    )  # fmt: skip


class Staggered(Middleware):
    """Has calls begin one after the other, and needs time for their results and errors."""

    async def before_tool(self, call: ToolCall, ctx: Context) -> None:
        await turns(2 * int(call.id))

    async def after_tool(self, result: ToolResult, ctx: Context) -> None:
        await turns(5)

    async def on_error(self, error: BaseException, ctx: Context) -> None:
        await turns(5)


@pytest.mark.parametrize("fails", [False, True])
async def test_equal_calls_that_overlap_are_all_made(fails: bool) -> None:
    paid: list[str] = []

    @tool(effect="once")
    async def pay(to: str, amount: int) -> str:
        """Pay."""
        paid.append(to)
        await turns(2)
        if fails:
            raise ToolError("the account is closed")
        return "paid"

    calls = [tool_call("pay", id=str(number), to="Ada", amount=5) for number in range(6)]
    run = await Agent(ScriptedModel(calls, "end"), tools=[pay], middleware=[Staggered()]).run("go")
    assert (run.stop, len(paid)) == (stops.Completed(), 6)


@pytest.mark.parametrize("nested", [True, False])
async def test_a_call_that_was_given_up_is_unknown_although_it_still_runs(nested: bool) -> None:
    paid: list[str] = []
    released = asyncio.Event()

    @tool(effect="once", interrupted="report")
    async def pay(to: str, amount: int) -> str:
        """Pay, and do not stop."""
        paid.append(to)
        while not released.is_set():
            with suppress(asyncio.CancelledError):
                await released.wait()
        return "paid"

    @tool
    async def fails() -> str:
        """Fail, once the payment has begun."""
        while not paid:
            await turns(1)
        raise ValueError("no")

    helper = Agent(ScriptedModel(PAY, "end"), name="helper", tools=[pay])
    first = tool_call("helper", input="x") if nested else PAY
    box = Toolbox([pay, fails, helper], join="fail_fast")
    agent = Agent(ScriptedModel([first, tool_call("fails")], AGAIN, "end"), tools=box)
    run = await agent.run("go", environment=Environment(clock=HandClock(auto=True)))
    assert (run.stop, paid) == (stops.Suspended(), ["Ada"])
    released.set()
    await turns(20)


@layer
async def held_back(call: ToolCall, ctx: Context, inner: Service[ToolCall, ToolResult], *, held: asyncio.Event) -> Any:
    if not held.is_set():
        held.set()
        await asyncio.Event().wait()
    return await inner(call, ctx)


async def test_a_call_that_was_cancelled_before_it_began_may_be_asked_for_again() -> None:
    held = asyncio.Event()

    @tool(effect="once")
    async def pay(to: str, amount: int) -> str:
        """Pay."""
        return "paid"

    @tool
    async def fails() -> str:
        """Fail, once the payment is held back."""
        await held.wait()
        raise ValueError("no")

    box = Toolbox([stack(pay, held_back(held=held)), fails], join="fail_fast")
    run = await Agent(ScriptedModel([PAY, tool_call("fails")], AGAIN, "end"), tools=box).run("go")
    assert (run.stop, run.observations[-1]) == (stops.Completed(), "paid")


@pytest.mark.usefixtures("kind")
@pytest.mark.parametrize("kind", ["memory"], indirect=True)
async def test_a_call_whose_failure_is_known_may_be_asked_for_again() -> None:
    paid: list[str] = []
    store = new_store()

    def agent(*replies: Any) -> Agent:
        @tool(effect="once")
        async def pay(to: str, amount: int) -> str:
            """Pay."""
            paid.append(to)
            if len(paid) == 1:
                raise ValueError("no such account")
            return "paid"

        return Agent(ScriptedModel(*replies), tools=Toolbox([pay], on_error="raise"), store=store)

    assert isinstance((await agent(PAY).run("go", run_id="r")).stop, stops.Failed)
    run = await agent(AGAIN, "end").resume("r")
    assert (run.stop, run.observations[-1], len(paid)) == (stops.Completed(), "paid", 2)


@pytest.mark.usefixtures("kind")
@pytest.mark.parametrize("kind", ["memory"], indirect=True)
@pytest.mark.parametrize("other", [None, Happened("paid"), Deny("nobody knows")])
async def test_of_equal_calls_that_were_lost_none_is_made_before_all_are_decided(other: Decision | None) -> None:
    paid: list[str] = []
    store = new_store()

    @tool(effect="once")
    async def pay(to: str, amount: int) -> str:
        """Pay."""
        paid.append(to)
        if len(paid) <= 2:
            raise ConnectionError("lost")
        return "paid"

    agent = Agent(ScriptedModel([PAY, AGAIN], "end"), tools=[pay], store=store)
    one, two = (await agent.run("go", run_id="r")).pending
    run = await agent.resume("r", {one.id: DidNotHappen()} | ({} if other is None else {two.id: other}))
    assert (len(paid), len(run.pending)) == ((2, 1) if other is None else (3, 0))
    run = await agent.resume("r", {two.id: DidNotHappen()} if other is None else {})
    assert (run.stop, len(paid)) == (stops.Completed(), 4 if other is None else 3)


async def test_what_came_of_one_of_two_calls_does_not_tell_of_the_other() -> None:
    paid: list[str] = []

    @tool(effect="once", interrupted="report")
    async def pay(to: str, amount: int) -> str:
        """Pay."""
        paid.append(to)
        if len(paid) == 1:
            await turns(5)
            raise ConnectionError("lost")
        return "paid"

    run = await Agent(ScriptedModel([PAY, AGAIN], AGAIN, "end"), tools=[pay]).run("go")
    assert (run.stop, len(paid)) == (stops.Suspended(), 2)


@pytest.mark.usefixtures("kind")
@pytest.mark.parametrize("kind", ["memory"], indirect=True)
async def test_a_call_that_was_held_back_beside_one_that_is_lost_is_asked_about() -> None:
    paid: list[str] = []
    held = asyncio.Event()
    store = new_store()

    def agent(*replies: Any, hangs: bool) -> Agent:
        @tool(effect="once", interrupted="report")
        async def pay(to: str, amount: int) -> str:
            """Pay."""
            paid.append(to)
            if hangs:
                await asyncio.Event().wait()
            return "paid"

        tools = [stack(pay, held_back(held=held)) if hangs else pay]
        return Agent(ScriptedModel(*replies, name="payer"), tools=tools, store=store)

    handle = agent([PAY, AGAIN], hangs=True).start("go", run_id="r")
    while not paid:
        await turns(1)
    await handle.cancel()
    await handle.result()
    run = await agent("end", hangs=False).resume("r")
    assert (len(run.pending), len(paid)) == (1, 1)
    run = await agent("end", hangs=False).resume("r", {run.pending[0].id: DidNotHappen()})
    assert (run.stop, len(paid)) == (stops.Completed(), 2)
