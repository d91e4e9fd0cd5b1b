"""A session shows what waits: the next run sees the call, and an equal one is not queued a second time."""

import asyncio
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.agents.support import assert_sendable
from tests.hard_cases.support import ByTurn
from tests.samples import sample
from tests.stores.places import Place, opening
from ziggurat import Agent, Approvals, Approve, Deny, Modify, Runnable, tool
from ziggurat.agents import Answer, Decision, Environment
from ziggurat.flows import ask, flow
from ziggurat.messages import tool_call
from ziggurat.stores import Session
from ziggurat.teams import handoffs
from ziggurat.testing import HandClock, ScriptedModel


@pytest.fixture(params=sample(["sqlite", "memory", "file"], 1))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with opening(request.param, tmp_path) as place:
        yield place


class Desk:
    """Refunds what a person approves, perhaps through an agent that is nested."""

    def __init__(self, place: Place, nested: bool) -> None:
        self.place, self.nested = place, nested
        self.paid: list[str] = []

    def agent(self, *replies: Any) -> Agent:
        """Return an agent, as another process would make it."""

        @tool(approval=True, effect="once")
        def refund(order: str) -> str:
            self.paid.append(order)
            return "refunded"

        def look() -> str:
            return "seen"

        model = ScriptedModel(*replies, always="Done.")
        if not self.nested:
            return Agent(model, tools=[refund, look], store=self.place())
        clerk = Agent(ByTurn(tool_call("refund", order="881"), "Asked."), tools=[refund], name="clerk")
        return Agent(model, tools=[clerk, look], store=self.place())

    @property
    def call(self) -> Any:
        """The call that leads to a refund."""
        return tool_call("clerk", input="refund 881") if self.nested else tool_call("refund", order="881")


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("decision", [Approve(), Deny("no")])
async def test_the_next_run_sees_what_waits_and_does_not_ask_twice(
    nested: bool, decision: Decision, place: Place
) -> None:
    desk = Desk(place, nested)
    first = desk.agent(["I will ask a colleague.", tool_call("look", id="l"), desk.call])
    run = await first.run("refund 881 please", session="ada", run_id="a")
    (item,) = run.pending
    agent = desk.agent(desk.call, "It waits.")
    second = await agent.run("and?", session="ada", run_id="b")
    asked = agent.settings.model.calls[0].messages  # type: ignore[attr-defined]
    assert_sendable(asked)
    assert [message.text for message in asked if message.text] == [
        "refund 881 please",
        "I will ask a colleague.",
        "and?",
    ]
    told = [result.text for message in asked for result in message.tool_results]
    assert told[0] == "seen"
    assert "has not decided" in told[1]
    assert (second.text, second.pending, desk.paid) == ("It waits.", (), [])
    done = await desk.agent("Done.").resume("a", {item.id: decision})
    assert (done.text, desk.paid) == ("Done.", ["881"] if decision == Approve() else [])
    last = desk.agent("Yes.")
    await last.run("so?", session="ada")
    history = last.settings.model.calls[0].messages  # type: ignore[attr-defined]
    assert_sendable(history)
    results = [(result.name, result.text) for each in history for result in each.tool_results]
    calls = [call.name for each in history for call in each.tool_calls]
    assert sorted(calls) == sorted(name for name, _ in results)
    assert not any("has not decided" in text or "no result" in text for _, text in results)


async def test_after_the_decision_the_same_may_be_asked_again(place: Place) -> None:
    desk = Desk(place, nested=False)
    (item,) = (await desk.agent(desk.call).run("refund", session="ada", run_id="a")).pending
    await desk.agent("Done.").resume("a", {item.id: Approve()})
    assert len((await desk.agent(desk.call).run("once more", session="ada")).pending) == 1


@pytest.mark.parametrize("answer", [Answer(True), Deny("no")])
async def test_a_call_that_waits_for_the_answer_to_its_question_is_not_made_again(
    answer: Decision, place: Place
) -> None:
    begun: list[str] = []
    done: list[str] = []

    @tool
    async def refund(order: str, reason: str = "") -> str:
        begun.append(order)
        if not await ask("Refund?", bool):
            return "left"
        done.append(order)
        return "refunded"

    def agent(*replies: Any) -> Agent:
        return Agent(ScriptedModel(*replies), tools=[refund], store=place())

    call = tool_call("refund", order="881")
    (item,) = (await agent(call).run("refund 881", session="ada", run_id="a")).pending
    second = await agent(tool_call("refund", reason="", order="881"), "It waits.").run("and?", session="ada")
    assert (second.text, second.pending, begun) == ("It waits.", (), ["881"])
    await agent("Done.").resume("a", {item.id: answer})
    assert done == (["881"] if answer == Answer(True) else [])
    assert (await agent(call).run("once more", session="ada")).pending


async def test_what_a_person_has_changed_waits_as_it_was_asked_too(place: Place) -> None:
    begun: list[str] = []

    @tool(approval=True, effect="once", interrupted="ask")
    async def refund(order: str) -> str:
        begun.append(order)
        raise ConnectionError("lost")

    def agent(*replies: Any) -> Agent:
        return Agent(ScriptedModel(*replies), tools=[refund], store=place())

    call = tool_call("refund", order="881")
    (item,) = (await agent(call).run("refund 881", session="ada", run_id="a")).pending
    (lost,) = (await agent("Done.").resume("a", {item.id: Modify({"order": "882"})})).pending
    assert lost.interrupted
    for asked in (call, tool_call("refund", order="882")):
        second = await agent(asked, "It waits.").run("and?", session="ada")
        assert (second.text, second.pending, begun) == ("It waits.", (), ["882"])


@pytest.mark.parametrize("kind", ["team", "team in a team", "flow"])
@pytest.mark.parametrize("decision", [Approve(), Deny("no")])
async def test_what_waits_in_an_agent_that_is_no_tool_is_seen_too(
    kind: Literal["team", "team in a team", "flow"], decision: Decision, place: Place
) -> None:
    paid: list[str] = []

    @tool(approval=True, effect="once")
    def refund(order: str) -> str:
        paid.append(order)
        return "refunded"

    call: Any = ["I will ask.", tool_call("refund", order="881")]

    def runnable(billing: ScriptedModel) -> Runnable:
        clerk = Agent(billing, tools=[refund], name="billing")
        if kind == "flow":

            @flow(name="desk", store=place())
            async def desk(order: str) -> str:
                return (await clerk.run(order)).text

            return desk
        triage = Agent(ScriptedModel(always=tool_call("handoff_to_billing")), name="triage")
        team = handoffs(triage, clerk, name="desk", store=place() if kind == "team" else None)
        return team if kind == "team" else handoffs(team, name="office", store=place())

    (item,) = (await runnable(ScriptedModel(call)).run("refund 881", session="ada", run_id="a")).pending
    model = ScriptedModel(call, "It waits.")
    team = runnable(model)
    second = await team.run("and?", session="ada")
    assert (second.pending, paid) == ((), [])
    asked = second.messages[: second.start]
    assert_sendable(asked)
    assert [message.text for message in asked if message.text][-2:] == ["I will ask.", "and?"]
    assert "has not decided" in [result.text for each in asked for result in each.tool_results][-1]
    if kind != "flow":
        assert second.text == "It waits."
        assert len(model.calls) == 2  # who waits has the next turn, too
    await runnable(ScriptedModel("Done.")).resume("a", {item.id: decision})
    assert paid == (["881"] if decision == Approve() else [])
    history = (await runnable(ScriptedModel("Yes.")).run("so?", session="ada")).messages
    assert_sendable(history)
    assert not any("has not decided" in result.text for each in history for result in each.tool_results)


@pytest.mark.parametrize("end", ["expired", "denied elsewhere", "cancelled elsewhere"])
async def test_a_call_whose_time_is_over_or_that_was_decided_beside_a_branch_waits_no_more(
    end: str, place: Place
) -> None:
    clock = HandClock()
    working, release = asyncio.Event(), asyncio.Event()

    @tool(approval=True, effect="once")
    def refund(order: str) -> str:
        return "refunded"

    @tool
    async def look() -> str:
        working.set()
        await release.wait()
        return "seen"

    def agent(*replies: Any) -> Agent:
        rules = Approvals(expires=3600)
        return Agent(ScriptedModel(*replies), tools=[refund, look], approvals=rules, store=place())

    settings: dict[str, Any] = {"environment": Environment(clock=clock)}
    call = tool_call("refund", order="881")
    (item,) = (await agent(call).run("refund 881", session="ada", run_id="a", **settings)).pending
    busy = asyncio.create_task(agent(tool_call("look"), "Seen.").run("look", session="ada", **settings))
    await working.wait()
    one = agent("Hello.")
    branch = (await one.run("hi", session=Session("ada", one.store, conflict="branch"), **settings)).session
    release.set()
    await busy
    assert (await agent(call, "It waits.").run("and?", session=branch, **settings)).text == "It waits."
    if end == "expired":
        await clock.advance(3601)
    elif end == "denied elsewhere":
        await agent("Done.").resume("a", {item.id: Deny("no")}, **settings)
    else:
        await agent("Done.").attach("a").cancel()
        assert (await agent("Done.").resume("a", **settings)).stop.__class__.__name__ == "Cancelled"
    for session in (branch, "ada"):
        assert (await agent(call).run("once more", session=session, **settings)).pending


async def test_a_call_that_waits_is_not_made_again_after_its_tool_has_changed(place: Place) -> None:
    @tool(approval=True, name="refund")
    def before(order: str) -> str:
        raise AssertionError

    @tool(approval=True, name="refund")
    def after(order: str, reason: str = "", day: date = date(2026, 1, 1)) -> str:
        raise AssertionError

    @tool(approval=True, name="refund")
    def other(number: int) -> str:
        raise AssertionError

    def agent(refund: Any, *replies: Any) -> Agent:
        return Agent(ScriptedModel(*replies), tools=[refund], store=place())

    await agent(before, tool_call("refund", order="881")).run("refund 881", session="ada", run_id="a")
    again = tool_call("refund", reason="", order="881")
    assert (await agent(after, again, "It waits.").run("and?", session="ada")).text == "It waits."
    for refund, call in (
        (after, tool_call("refund", order="881", reason="late")),
        (after, tool_call("refund", order="882")),
        (other, tool_call("refund", number=881)),
    ):
        assert (await agent(refund, call).run("and?", session="ada")).pending
