"""What users of other frameworks for several agents complain of most, and what happens here."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.teams.models import Answering, asynchronous
from tests.wrong import wrong
from ziggurat.agents.agent import Agent
from ziggurat.core.context import Context
from ziggurat.core.event import Event
from ziggurat.messages import stops
from ziggurat.messages.delta import Fold
from ziggurat.messages.events import Delta
from ziggurat.messages.middleware import Middleware
from ziggurat.messages.model import ModelRequest
from ziggurat.messages.parts import tool_call
from ziggurat.models.scripted import PAUSE, ScriptedModel
from ziggurat.teams.desk import handoffs
from ziggurat.teams.handoff import Handoff, HandoffState, HandoffTool
from ziggurat.teams.voting import majority, parallel


def member(name: str, reply: Any) -> Agent:
    return Agent(Answering(reply), name=name)


@asynchronous
async def test_the_texts_of_members_that_speak_at_the_same_time_are_not_mixed_up() -> None:
    texts = {"ann": "one two three", "ben": "four five six", "cem": "seven eight"}
    members = [
        Agent(ScriptedModel([piece for word in text.split(" ") for piece in (f"{word} ", PAUSE)]), name=name)
        for name, text in texts.items()
    ]
    folds: dict[str, Fold] = {}

    def note(event: Event) -> None:
        if isinstance(event, Delta):
            folds.setdefault(event.path, Fold()).push(event.delta)

    run = await majority(*members).run("?", listeners=[note])
    said = {path.split("/")[4]: fold.message().text.strip() for path, fold in folds.items()}
    assert said == texts
    assert [message.text.strip() for message in run.messages[1:4]] == list(texts.values())


@pytest.mark.parametrize("streamed", [False, True])
@asynchronous
async def test_the_error_of_a_member_reaches_its_leader_streamed_or_not(streamed: bool) -> None:
    leader = member("leader", "so")
    team = parallel(leader, member("ann", ValueError("lost")), member("ben", "yes"))
    if streamed:
        async with team.stream("?") as events:
            async for _ in events:
                pass
    else:
        await team.run("?")
    assert "ann could not answer: ValueError: lost" in wrong(leader.model).shown


@asynchronous
async def test_the_middleware_of_a_member_is_its_own_in_a_team_too() -> None:
    class Note(Middleware):
        def __init__(self) -> None:
            self.paths: list[str] = []

        async def before_model(self, request: ModelRequest, ctx: Context) -> None:
            self.paths.append(ctx.path)

    own = Note()
    ann = Agent(Answering("a"), name="ann", middleware=[own])
    await parallel(member("leader", "so"), ann, member("ben", "b")).run("?")
    assert own.paths == ["parallel/round-1/settled/1/ann/step-1/model"]


@asynchronous
async def test_nobody_hands_over_to_itself_without_end() -> None:
    class Again:
        def tools(self, member: str, members: Mapping[str, str]) -> Sequence[HandoffTool]:
            return ()

        def after(self, state: HandoffState) -> Handoff | None:
            return Handoff(state.member)

    run = await handoffs(member("ann", "a"), policy=Again(), max_handoffs=3).run("?")
    assert (run.stop, run.steps) == (stops.BudgetExceeded("handoffs", 3.0, 3.0), 4)
    calling = member("ann", lambda request: "a" if len(request.messages) > 1 else tool_call("handoff_to_ann"))
    refused = await handoffs(calling, member("ben", "b")).run("?")
    assert (refused.agent, refused.messages[2].tool_results[0].error) == ("ann", "not_found")


@asynchronous
async def test_a_handoff_as_the_answer_of_a_nested_team_belongs_to_that_team() -> None:
    inner = handoffs(member("c", tool_call("handoff_to_d")), member("d", "from d"), name="inner")
    leader = member("leader", "so")
    run = await parallel(leader, inner, member("ben", "b")).run("?")
    assert "[inner/d] from d" in wrong(leader.model).shown
    assert run.agent == "leader"
