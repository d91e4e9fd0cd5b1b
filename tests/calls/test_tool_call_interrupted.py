"""Interrupted calls of tools with ``effect="once"``, which may or may not have taken effect."""

import asyncio
from typing import Any

import pytest

from tests.agents.support import turns
from tests.hard_cases.support import ByTurn, results
from tests.stores.places import new_store, reopened
from ziggurat import Agent, AgentRun, Approvals, Approve, ConfigurationError, Context, Deny, Modify, raw_tool, tool
from ziggurat.agents import Decision, DidNotHappen, Happened
from ziggurat.events import ApprovalDecided, ApprovalRequested
from ziggurat.messages import stops, tool_call
from ziggurat.messages.model import Interrupted
from ziggurat.tools import FunctionTool

pytestmark = pytest.mark.usefixtures("place")


class World:
    """A payment that hangs while `hangs` is set."""

    def __init__(self, interrupted: Interrupted, *, approval: bool = False) -> None:
        self.hangs = True
        self.keys: list[str] = []
        self.interrupted = interrupted
        self.approval = approval
        self.store = new_store()
        self.heard: list[object] = []

    def tool(self) -> FunctionTool:
        @tool(effect="once", interrupted=self.interrupted, approval=self.approval)
        async def pay(to: str, ctx: Context) -> str:
            """Pay."""
            self.keys.append(ctx.idempotency_key)
            if self.hangs:
                await asyncio.Event().wait()
            return f"paid {to}"

        return pay

    def agent(self, **options: Any) -> Agent:
        self.store = reopened(self.store)
        model = ByTurn(tool_call("pay", to="Ada"), lambda request: request.messages[2].tool_results[0].text)
        return Agent(model, tools=[self.tool()], store=self.store, **options)

    async def cut(self, work: Any) -> None:
        """Begin a run, and end it in the middle of the payment."""
        begun = len(self.keys)
        task = asyncio.ensure_future(work)
        while len(self.keys) == begun:
            await turns(1)
        task.cancel()
        await asyncio.wait([task])

    async def resumed(self, decision: Decision | None = None, **options: Any) -> AgentRun:
        """Resume in another process, with a decision on the pending call."""
        waits = {} if decision is None else {item.id: decision for item in (await self.waiting()).pending}
        return await self.agent(**options).resume("r", waits, listeners=[self.heard.append])

    async def waiting(self) -> AgentRun:
        run = await self.agent().resume("r")
        assert run.stop == stops.Suspended()
        return run


def _asked(decision: Decision, *, hangs: bool = False) -> tuple[AgentRun, World]:
    async def run() -> tuple[AgentRun, World]:
        world = World("ask")
        await world.cut(world.agent().run("go", run_id="r"))
        world.hangs = hangs
        return await world.resumed(decision), world

    return asyncio.run(run())


def test_it_waits_for_a_person_and_what_happened_is_told_to_the_model() -> None:
    run, world = _asked(Happened("the bank says paid"))
    assert run.text == "the bank says paid"
    assert results(run)[0].error is None
    assert len(world.keys) == 1
    assert [type(event) for event in world.heard if isinstance(event, (ApprovalRequested, ApprovalDecided))] == [
        ApprovalDecided
    ]


def test_what_did_not_happen_is_run() -> None:
    run, world = _asked(DidNotHappen())
    assert run.text == "paid Ada"
    assert len(world.keys) == 2
    assert len(set(world.keys)) == 1


def test_left_at_that_the_model_is_told_that_nobody_knows() -> None:
    run, world = _asked(Deny("the bank is closed"))
    assert results(run)[0].error == "interrupted"
    assert "the bank is closed" in run.text
    assert len(world.keys) == 1


@pytest.mark.parametrize("decision", [Approve(), Modify("{}")])
async def test_a_word_of_approval_does_not_run_it_again(decision: Decision) -> None:
    async def run() -> World:
        world = World("ask")
        await world.cut(world.agent().run("go", run_id="r"))
        with pytest.raises(ConfigurationError, match="DidNotHappen"):
            await world.resumed(decision)
        assert (await world.waiting()).pending[0].interrupted
        return world

    assert len((await run()).keys) == 1


async def test_approvers_in_the_process_are_not_asked() -> None:
    asked: list[object] = []

    def approver(item: object) -> Approve:
        asked.append(item)
        return Approve()

    async def run() -> World:
        world = World("ask", approval=True)
        rules = Approvals(approver=approver)
        await world.cut(world.agent(approvals=rules).run("go", run_id="r"))
        assert len(asked) == 1
        assert (await world.resumed(approvals=rules)).stop == stops.Suspended()
        assert len(asked) == 1
        world.hangs = False
        assert (await world.resumed(DidNotHappen(), approvals=rules)).text == "paid Ada"
        return world

    assert len((await run()).keys) == 2


async def test_interrupted_again_it_is_asked_again_and_the_first_decision_counts_no_more() -> None:
    world = World("ask")
    await world.cut(world.agent().run("go", run_id="r"))
    (item,) = (await world.waiting()).pending
    await world.cut(world.agent().resume("r", {item.id: DidNotHappen()}))
    assert len(world.keys) == 2
    assert len((await world.waiting()).pending) == 1
    run = await world.resumed(Happened("paid at last"))
    assert run.text == "paid at last"
    assert len(world.keys) == 2


async def test_a_decision_on_record_is_acted_upon_once_and_again_answered_from_the_record() -> None:
    world = World("ask")
    await world.cut(world.agent().run("go", run_id="r"))
    first = await world.resumed(Happened("paid"))
    again, replayed = await world.resumed(), await world.agent().replay("r")
    assert first.messages == again.messages == replayed.messages
    assert len(world.keys) == 1


async def test_what_is_idempotent_is_made_again_under_the_same_key() -> None:
    world = World("retry_if_idempotent")
    await world.cut(world.agent().run("go", run_id="r"))
    world.hangs = False
    run = await world.resumed()
    assert run.text == "paid Ada"
    assert len(world.keys) == 2
    assert len(set(world.keys)) == 1


def test_a_policy_that_makes_no_sense_is_refused_where_it_is_made() -> None:
    def pay(to: str) -> str:
        """Pay."""
        return to

    with pytest.raises(ConfigurationError, match="takes no Context"):
        tool(effect="once", interrupted="retry_if_idempotent")(pay)
    with pytest.raises(ConfigurationError, match="for a tool with effect='once'"):
        tool(interrupted="ask")(pay)
    with pytest.raises(ConfigurationError, match="'report', 'ask' or"):
        tool(effect="once", interrupted="never")(pay)  # type: ignore[call-overload]
    assert raw_tool(pay, name="pay", description="Pay.", parameters={}).spec.interrupted == "ask"


async def test_happened_is_no_answer_to_a_request_for_approval() -> None:
    world = World("report", approval=True)
    waits = await world.agent().run("go", run_id="r")
    with pytest.raises(ConfigurationError, match="a decision is Approve"):
        await world.agent().resume("r", {waits.pending[0].id: Happened("yes")})
