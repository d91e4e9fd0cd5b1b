"""What users of other frameworks for several agents complain of most, and what happens here.

Beside a test is where it was complained of. What is complained of most is tested elsewhere for all patterns: a plain
run equals a streamed one, and middleware and budgets hold for all below (`test_everywhere`); who answers the next turn
(`test_handoffs`).
"""

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.samples import sample
from tests.teams.models import Answering, after_tools
from tests.teams.patterns import ALONE, CASES, built, member
from tests.wrong import wrong
from ziggurat import Agent, Budget, ConfigurationError, Context, Event, Key, Middleware, ModelRequest, Runnable, tool
from ziggurat.events import AgentStarted, Delta, Fold
from ziggurat.messages import stops, tool_call
from ziggurat.stores import InMemoryStore
from ziggurat.teams import (
    Handoff,
    HandoffState,
    HandoffTool,
    group_chat,
    handoffs,
    ledger_team,
    majority,
    parallel,
    swarm,
)
from ziggurat.testing import ScriptedModel


class Requests(Middleware):
    """Middleware that notes what every model is asked."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, ModelRequest]] = []

    async def before_model(self, request: ModelRequest, ctx: Context) -> None:
        self.requests.append((ctx.path, request))


def passing_on(count: int) -> Runnable:
    """Return a desk whose agents hand over in a row, each after a tool of its own; the last one answers."""

    @tool
    def look() -> str:
        """Look."""
        return "seen"

    def reply(number: int) -> Any:
        if number == count - 1:
            return f"answer {number}"
        over = tool_call(f"handoff_to_m{number + 1}", reason=f"reason {number}", id=f"over-{number}")
        return lambda request: over if request.messages[-1].role == "tool" else tool_call("look", id=f"look-{number}")

    members = [member(f"m{number}", reply(number), tools=[look]) for number in range(count)]
    return handoffs(*members, next_turn="first", max_handoffs=20, store="memory:")


@pytest.mark.parametrize("count", [2, 5, 9])
async def test_a_history_does_not_grow_with_the_hops(count: int) -> None:
    # openai-agents 2171 and 3791, agent-framework 4695 and 2867: it doubles at each hop, or when a run is resumed
    desk = passing_on(count)
    first = await desk.run("the question", session="s")
    hop = 5  # a call, its result, a handoff, its result, a note
    assert len(first.messages) == 1 + hop * (count - 1) + 1
    second = await desk.run("the question again", session="s")
    assert list(second.messages)[: len(first.messages)] == list(first.messages)
    assert len(second.messages) == 2 * len(first.messages)
    assert (await desk.resume(second.id)).messages == second.messages


@pytest.mark.parametrize("seed", sample(range(20), 6))
async def test_each_call_of_a_reply_is_answered_once_whatever_is_mixed_in_it(seed: int) -> None:
    # langgraph-swarm 26, 30, 69 and 82, agent-framework 2711: handoffs beside tools lose results, or double them
    chance = random.Random(seed)

    @tool
    def note(text: str) -> str:
        """Take a note."""
        if text == "bad":
            raise ValueError("broken")
        return f"noted {text}"

    calls = [
        chance.choice(
            [
                tool_call("note", text=chance.choice(["x", "bad"]), id=str(number)),
                tool_call(f"handoff_to_{chance.choice('bc')}", id=str(number)),
                tool_call("handoff_to_nobody", id=str(number)),
            ]
        )
        for number in range(chance.randrange(1, 7))
    ]
    a = member("a", lambda request: "a" if request.messages[-1].role == "tool" else calls, tools=[note])
    run = await handoffs(a, member("b", "b"), member("c", "c")).run("go")
    assert [result.id for message in run.messages for result in message.tool_results] == [call.id for call in calls]
    over = [call.name[-1] for call in calls if call.name in ("handoff_to_b", "handoff_to_c")]
    assert run.text == (over[0] if over else "a")
    results = [result for message in run.messages for result in message.tool_results]
    assert sum(result.error is None and result.name.startswith("handoff") for result in results) == bool(over)


@pytest.mark.parametrize("case", CASES, ids=">".join)
async def test_nobody_is_asked_with_nothing_or_sees_the_instructions_of_another(case: Sequence[str]) -> None:
    # agent-framework 7456: a member chosen again gets no message; 6223: others' instructions instead of their replies
    seen = Requests()
    done = after_tools("sent", tool_call("act"))

    @tool
    def act() -> str:
        """Act."""
        return "ok"

    worker = member("worker", done, tools=[act], instructions="SECRET of the worker")
    await built(case, worker, middleware=[seen]).run("the question")
    assert seen.requests
    for path, request in seen.requests:
        assert request.messages[-1].role in ("user", "tool"), path
        assert request.messages[-1].text or request.messages[-1].tool_results, path
        own = "/worker" in path
        assert (request.instructions == "SECRET of the worker") == own
        assert not any("SECRET" in message.text for message in request.messages)


async def test_who_is_not_to_see_what_was_said_before_does_not() -> None:
    # openai-agents: the filter of a handoff's history is no redaction
    later = member("later", "done")
    first = member("first", tool_call("handoff_to_later", reason="yours"))
    seen = Requests()
    desk = handoffs(first, later, visibility="question", middleware=[seen], next_turn="first", store=InMemoryStore())
    await desk.run("the code is 1234", session="s")
    await desk.run("what is the time", session="s")
    assert "1234" not in str(seen.requests[-1][1])
    assert seen.requests[-1][0].endswith("later/step-1/model")


async def test_tools_of_handing_over_stand_beside_those_of_the_agent() -> None:
    # agent-framework 1850: they replace its own; adk 3736: an unknown target ends the run; adk 5462: the last one wins
    @tool
    def look() -> str:
        """Look."""
        return "seen"

    calling = after_tools("a", tool_call("handoff_to_nobody"))
    a, b = member("a", calling, tools=[look]), member("b", "b")
    run = await handoffs(a, b).run("go")
    assert {spec.name for spec in wrong(a.model).asked[0].tools} == {"look", "handoff_to_b"}
    assert (run.text, run.messages[2].tool_results[0].error) == ("a", "not_found")
    with pytest.raises(ConfigurationError, match="look"):
        Agent(Answering("x"), name="x", tools=[look, tool(name="look")(lambda: "other")])
    with pytest.raises(ConfigurationError, match="two members"):
        majority(member("a", "1"), member("a", "2"))


NAME: Key[str] = Key("the name of a tenant")


@pytest.mark.parametrize("case", CASES, ids=">".join)
async def test_what_a_run_passes_to_tools_reaches_the_innermost_member(case: Sequence[str]) -> None:
    # deepagents 569, 2362 and 2744: context and middleware do not reach agents below
    seen: list[str] = []

    @tool
    def act(ctx: Context) -> str:
        """Act."""
        seen.append(ctx.scope[NAME])
        return "ok"

    worker = member("worker", after_tools("sent", tool_call("act")), tools=[act])
    await built(case, worker).run("go", deps={NAME: "blue"})
    assert set(seen) == {"blue"}


async def test_every_team_ends_by_default() -> None:
    # agent-framework: no limit of turns in group chats, none of rounds in magentic; strands 3461: no ping-pong is found
    a, b = member("a", "a"), member("b", "b")
    chat = await group_chat(a, b, speaker=member("moderator", "a")).run("go")
    assert (chat.stop, chat.steps) == (stops.Completed(), 10)
    manager = member("manager", '{"done":false,"progress":true,"next":"a","instruction":"go on"}')
    assert (await ledger_team(manager, a, b).run("go")).stop == stops.BudgetExceeded("turns", 20.0, 20.0)
    stuck = member("manager", '{"done":false,"progress":false,"next":"a","instruction":"go on"}')
    assert (await ledger_team(stuck, a, b).run("go")).stop == stops.LoopDetected("plan", 3)
    ping, pong = member("ping", tool_call("handoff_to_pong")), member("pong", tool_call("handoff_to_ping"))
    assert isinstance((await handoffs(ping, pong).run("go")).stop, stops.LoopDetected)
    many = await swarm(a, split=lambda text: ["x"] * 101).run("go")
    assert many.stop == stops.BudgetExceeded("subtasks", 100.0, 101.0)


@pytest.mark.parametrize("case", CASES, ids=">".join)
async def test_a_limit_of_a_member_holds_for_it_in_any_team(case: Sequence[str]) -> None:
    # pydantic-ai-harness 589: limits are not passed on
    used: list[str] = []

    @tool
    def act() -> str:
        """Act."""
        used.append("x")
        return "ok"

    turns: list[str] = []

    class Turns(Middleware):
        async def before_agent(self, request: object, ctx: Context) -> None:
            turns.append(ctx.path)

    worker = member("worker", tool_call("act"), tools=[act], budget=Budget(tool_calls=3), middleware=[Turns()])
    run = await built(case, worker).run("go")
    assert 0 < len(used) <= 3 * len(turns)
    assert not isinstance(run.stop, stops.Failed) or "tool_calls" in str(run.stop)


@pytest.mark.parametrize("seed", sample(range(10), 3))
async def test_a_leader_is_asked_once_after_all_have_ended(seed: int) -> None:
    # adk 5903: what joins branches goes on too early
    chance = random.Random(seed)
    ended: list[str] = []

    class Slow(Answering):
        async def __call__(self, request: ModelRequest, ctx: Context, /) -> Any:
            for _ in range(chance.randrange(20)):
                await asyncio.sleep(0)
            ended.append(request.messages[0].text)
            if chance.random() < 0.3:
                raise ValueError("lost")
            return await super().__call__(request, ctx)

    leader = Agent(Answering(lambda request: str(len(ended))), name="leader")
    members = [Agent(Slow("x"), name=f"m{number}") for number in range(6)]
    inner = parallel(member("inner", "i"), *members[3:], name="team")
    run = await parallel(leader, *members[:3], inner).run("?")
    assert run.text == "6"
    assert len(wrong(leader.model).asked) == 1


async def test_one_team_serves_many_runs_at_the_same_time() -> None:
    # antigravity 67: a second use of an agent crashes, or gets the answer of the first
    class Echo(Answering):
        async def __call__(self, request: ModelRequest, ctx: Context, /) -> Any:
            await asyncio.sleep(0)
            return await super().__call__(request, ctx)

    def echo(request: ModelRequest) -> str:
        return request.messages[0].text

    for case in sample(ALONE, 4):
        team = built(case, Agent(Echo(echo), name="worker"))
        runs = await asyncio.gather(*(team.run(f"question {number}") for number in range(8)))
        for number, run in enumerate(runs):
            assert f"question {number}" in str(run.messages)
            assert not any(f"question {other}" in str(run.messages) for other in range(8) if other != number)


@pytest.mark.parametrize("case", CASES, ids=">".join)
async def test_who_speaks_is_known_from_the_events_alone(case: Sequence[str]) -> None:
    # agno 9090: who speaks is lost on the way to the browser
    started: dict[str, str] = {}
    texts: dict[str, Fold] = {}

    def note(event: Event) -> None:
        if isinstance(event, AgentStarted):
            started[event.path] = event.agent
        elif isinstance(event, Delta):
            texts.setdefault(event.path, Fold()).push(event.delta)

    worker = Agent(ScriptedModel(always="from the worker"), name="worker")
    run = await built(case, worker).run("go", listeners=[note])
    spoken = {(started[path.partition("/step-")[0]], fold.message().text) for path, fold in texts.items()}
    assert ("worker", "from the worker") in spoken
    assert {who for who, text in spoken if text == "from the worker"} == {"worker"}
    signed = {(message.name or "").split("/")[-1] for message in run.messages if message.text == "from the worker"}
    assert signed <= {"worker", *(f"team{depth}" for depth in range(3))}


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


async def test_a_handoff_as_the_answer_of_a_nested_team_belongs_to_that_team() -> None:
    inner = handoffs(member("c", tool_call("handoff_to_d")), member("d", "from d"), name="inner")
    leader = member("leader", "so")
    run = await parallel(leader, inner, member("ben", "b")).run("?")
    assert "[inner/d] from d" in wrong(leader.model).shown
    assert run.agent == "leader"
