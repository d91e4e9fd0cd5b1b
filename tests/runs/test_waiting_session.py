"""A session shows what waits: the next run sees the call, and an equal one is not queued a second time."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agents.support import assert_sendable
from tests.hard_cases.support import ByTurn
from tests.stores.places import Place, opening
from ziggurat import Agent, Approve, Deny, tool
from ziggurat.messages.agent import AgentRun, Decision
from ziggurat.messages.parts import tool_call
from ziggurat.models.scripted import ScriptedModel


@pytest.fixture(params=["memory", "sqlite", "file"])
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
            """Refund."""
            self.paid.append(order)
            return "refunded"

        def look() -> str:
            """Look."""
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
def test_the_next_run_sees_what_waits_and_does_not_ask_twice(nested: bool, decision: Decision, place: Place) -> None:
    async def main() -> None:
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

    asyncio.run(main())


def test_after_the_decision_the_same_may_be_asked_again(place: Place) -> None:
    async def main() -> AgentRun:
        desk = Desk(place, nested=False)
        (item,) = (await desk.agent(desk.call).run("refund", session="ada", run_id="a")).pending
        await desk.agent("Done.").resume("a", {item.id: Approve()})
        return await desk.agent(desk.call).run("once more", session="ada")

    assert len(asyncio.run(main()).pending) == 1
