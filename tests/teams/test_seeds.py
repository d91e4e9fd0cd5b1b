"""What the four seed systems say of handoffs, teams, debates, swarms, discovery and the bus, as it is decided here.

Lines that concern one pattern alone are tested with it; this file has their examples, and what is tested nowhere else.
"""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.teams.models import Answering
from tests.wrong import wrong
from ziggurat.agents.agent import Agent
from ziggurat.agents.runnable import Runnable
from ziggurat.core.errors import ConfigurationError
from ziggurat.messages import stops
from ziggurat.messages.agent import Deny
from ziggurat.messages.items import HandoffItem
from ziggurat.messages.message import Message
from ziggurat.messages.model import ModelRequest
from ziggurat.messages.parts import tool_call
from ziggurat.runtime.bus import Broadcast, Bus, BusMessage, Specific
from ziggurat.runtime.directory import Directory
from ziggurat.stores.local import LocalLogs
from ziggurat.teams.chatting import group_chat
from ziggurat.teams.debating import debate
from ziggurat.teams.desk import handoffs
from ziggurat.teams.handoff import Handoff, HandoffState, HandoffTool, explicit_handoff, sequential_handoff
from ziggurat.teams.networks import star
from ziggurat.teams.planning import ledger_team
from ziggurat.teams.result import TeamResult
from ziggurat.teams.swarming import split_task, swarm
from ziggurat.teams.voting import majority, parallel
from ziggurat.testing.clock import HandClock
from ziggurat.tools.approval import Approvals
from ziggurat.tools.function import tool


def member(name: str, reply: Any, **arguments: Any) -> Agent:
    return Agent(Answering(reply), name=name, **arguments)


def shown(agent: Runnable, number: int = -1) -> list[str]:
    return [message.text for message in wrong(agent).model.asked[number].messages]


def text_of(each: object) -> object:
    assert isinstance(each, BusMessage)
    return each.content


# -- examples of the fourth system -------------------------------------------------------------------------------------


async def test_the_example_of_the_bus() -> None:
    bus = Bus(capacity=256)
    planner, executor = bus.subscribe("planner", role="planner"), bus.subscribe("executor", role="executor")
    planner.send("Summarise Q3 results", Specific("executor"))
    assert text_of(await executor.receive()) == "Summarise Q3 results"
    executor.send("Task complete", Broadcast())
    assert text_of(await planner.receive()) == "Task complete"
    assert text_of(await executor.receive()) == "Task complete"  # whoever broadcasts receives it, too
    assert (bus.statistics.total_sent, bus.statistics.roles) == (2, ("executor", "planner"))


@pytest.mark.parametrize("pattern", [parallel, star])
async def test_the_example_of_a_team(pattern: Any) -> None:
    leader = member("leader", lambda request: "leader: severity=high")
    analysts = [member(name, f"{name}: severity=high") for name in ("analyst-1", "analyst-2")]
    run = await pattern(leader, *analysts).run("Classify these support tickets by severity")
    result = TeamResult.of(run)
    assert (run.text, run.agent) == ("leader: severity=high", "leader")
    assert {name: result.answers[name] for name in ("analyst-1", "analyst-2")} == {
        "analyst-1": "analyst-1: severity=high",
        "analyst-2": "analyst-2: severity=high",
    }
    assert (result.all_answered, result.is_unanimous, len(result.distinct_answers)) == (True, False, 3)


async def test_the_example_of_a_swarm() -> None:
    workers = [
        member(f"worker-{number}", lambda request: f"completed: {request.messages[-1].text}") for number in (1, 2, 3)
    ]
    task = "Research Rust async runtimes, compare with C++ coroutines, and summarise tradeoffs"
    run = await swarm(*workers, max_members=4, threshold=0.8).run(task)
    assert run.text == (
        "Synthesised answer from 3 agent result(s):\n"
        "1. [worker-1] completed: Research Rust async runtimes\n"
        "2. [worker-2] completed: compare with C++ coroutines\n"
        "3. [worker-3] completed: summarise tradeoffs"
    )
    assert TeamResult.of(run).failures == {}


async def test_the_example_of_a_debate() -> None:
    def reply(request: ModelRequest) -> str:
        return f"{request.messages[-1].text[:50]}"  # its prompts have no number in the first 50 characters

    alice = member("Alice", reply, instructions="Monolith for simplicity")
    bob = member("Bob", reply, instructions="Microservices for scale")
    moderator = member("moderator", reply)
    run = await debate(alice, bob, moderator=moderator, rounds=2).run("Monolith vs microservices")
    result = TeamResult.of(run)
    assert (result.winner, result.scores) == (None, {"Alice": 1.0, "Bob": 1.0})  # a tie: 0.5 in both rounds
    assert run.agent == "moderator"
    assert run.text
    assert [text for text in shown(moderator) if text.startswith("Scores: ")]


async def test_the_example_of_discovery() -> None:
    clock = HandClock()
    directory = Directory(ttl=60, clock=clock)
    directory.register("summariser-1", ["nlp", "summarise", "text"], latency=0.25, cost=0.002)
    (match,) = directory.query(["nlp"], preferred=["summarise"], max_latency=0.5, max_cost=0.01)
    assert (match.name, round(match.score, 2)) == ("summariser-1", 0.67)
    await clock.advance(59)
    directory.heartbeat("summariser-1", "healthy")
    await clock.advance(59)
    assert directory.evict() == ()
    await clock.advance(1)
    assert directory.evict() == ("summariser-1",)


# -- handoffs ----------------------------------------------------------------------------------------------------------


async def test_a_tool_of_handing_over_takes_an_optional_reason_and_context() -> None:
    a = member("a", "A")
    await handoffs(a, member("b", "B"), policy=explicit_handoff("b")).run("go")
    (spec,) = wrong(a.model).asked[0].tools
    assert (spec.name, spec.description) == ("handoff_to_b", "Hand off the conversation to b")
    assert set(spec.parameters["properties"]) == {"reason", "context"}
    assert not spec.parameters.get("required")


async def test_a_handoff_of_an_earlier_turn_is_not_taken_again() -> None:
    asked: list[str] = []

    def reply(request: ModelRequest) -> Any:
        asked.append(request.messages[-1].text)
        return tool_call("handoff_to_b", reason="first") if len(asked) == 1 else "A stays"

    desk = handoffs(member("a", reply), member("b", "B"), next_turn="first")
    first = await desk.run("one")
    run = await desk.run("two", history=first.messages)
    assert (run.agent, run.text, run.steps) == ("a", "A stays", 1)


async def test_a_sequence_records_why_each_goes_on() -> None:
    store = LocalLogs()
    desk = handoffs(member("a", "A"), member("b", "B"), policy=sequential_handoff(), store=store)
    await desk.run("go", run_id="r-1")
    entries = [item.what async for item in desk.subscribe("r-1")]
    (item,) = [wrong(each).value for each in entries if getattr(each, "path", "") == "handoffs/b/handoff"]
    assert item["reason"] == "the step before is complete"
    assert set(item) == {*HandoffItem.__struct_fields__, "type"}


class Unknown:
    """A policy that hands over to an agent that is not there."""

    def tools(self, member: str, members: object) -> Sequence[HandoffTool]:
        return ()

    def after(self, state: HandoffState) -> Handoff | None:
        return Handoff("nobody")


async def test_what_a_policy_or_a_view_does_wrong_ends_the_run() -> None:
    with pytest.raises(ConfigurationError, match="unknown agent 'nobody'"):
        await handoffs(member("a", "A"), policy=Unknown()).run("go")

    def broken(messages: Sequence[Message], name: str) -> Sequence[Message]:
        if name == "b":
            raise ValueError("no view")
        return messages

    run = await handoffs(member("a", tool_call("handoff_to_b")), member("b", "B"), visibility=broken).run("go")
    assert run.stop == stops.Failed("no view", "ValueError")
    assert [message.name for message in run.messages if message.role == "assistant"] == ["a"]


async def test_a_handoff_may_shorten_the_conversation_and_goes_on_whole_if_that_fails() -> None:
    async def shortened(messages: Sequence[Message], name: str) -> Sequence[Message]:
        if name == "a":
            return messages
        try:
            return [
                Message("user", (await member("scribe", ValueError("no summary")).run("shorten")).messages[-1].parts)
            ]
        except ValueError:
            return messages

    b = member("b", "B")
    run = await handoffs(member("a", tool_call("handoff_to_b")), b, visibility=shortened).run("go")
    assert (run.text, len(wrong(b.model).asked[0].messages)) == ("B", 4)


# -- teams, debates and swarms -----------------------------------------------------------------------------------------


async def test_a_member_that_would_end_the_program_has_failed_like_others() -> None:
    class Ends(Answering):
        async def __call__(self, request: ModelRequest, ctx: Any, /) -> Any:
            raise SystemExit(3)

    run = await majority(Agent(Ends(""), name="bad"), member("ann", "yes")).run("?")
    assert run.text == "yes"
    assert list(TeamResult.of(run).failures) == ["bad"]


@pytest.mark.parametrize(
    ("text", "by", "parts"),
    [
        ("1. a 8. b 9. c", "breadth", ["a", "b 9. c"]),
        ("1) a 5) b 6) c", "breadth", ["a", "b 6) c"]),
        ("a And b", "breadth", ["a And b"]),
        ("a and b", "breadth", ["a", "b"]),
        *((f"a {word} b", "depth", ["a", "b"]) for word in ("then", "next", "finally", "after that", "subsequently")),
        ("a Then b", "depth", ["a Then b"]),
    ],
)
def test_a_task_is_split_as_in_the_seed(text: str, by: Any, parts: list[str]) -> None:
    assert [each.text for each in split_task(text, by)] == parts


@pytest.mark.parametrize(("threshold", "needed"), [(1.0, 3), (0.67, 3), (0.66, 2), (0.5, 2), (0.34, 2), (0.01, 1)])
async def test_as_many_are_needed_as_the_threshold_says_rounded_up(threshold: float, needed: int) -> None:
    ann = member("ann", lambda request: request.messages[-1].text)
    run = await swarm(ann, threshold=threshold, concurrency=1).run("one, two, three")
    assert len(wrong(ann.model).asked) == needed
    assert run.text == "one" if needed == 1 else run.text.startswith(f"Synthesised answer from {needed} ")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda a: swarm(a, threshold=0), "threshold"),
        (lambda a: swarm(a, threshold=1.1), "threshold"),
        (lambda a: swarm(a, max_members=0), "max_members"),
        (lambda a: swarm(), "at least 1"),
        (lambda a: debate(a, member("b", "B"), rounds=0), "rounds"),
        (lambda a: debate(a, member("b", "B"), max_argument_chars=0), "max_argument_chars"),
        (lambda a: handoffs(a, max_handoffs=0), "max_handoffs"),
    ],
)
def test_numbers_out_of_range_are_refused(make: Any, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        make(member("a", "A"))


async def test_every_debater_scores_every_other_once_a_round() -> None:
    names = ["a", "b", "c", "d"]
    members = [member(name, f"argument of {name}") for name in names]
    run = await debate(*members).run("?")
    assert run.model_calls == 2 * (4 + 4 * 3)  # two rounds, and scores, by default
    for each in members:
        scored = [
            text for texts in wrong(each.model).asked for text in [texts.messages[-1].text] if "How convincing" in text
        ]
        others = [f"argument of {name}" for name in names if name != each.name]
        assert sorted(text.rpartition("\n")[2] for text in scored) == sorted(others * 2)


# -- what all have in common -------------------------------------------------------------------------------------------


async def test_teams_are_nested_as_deep_as_agents_may_be() -> None:
    team: Runnable = member("worker", "done")
    for depth in range(8):
        team = majority(team, name=f"team{depth}")
    assert (await team.run("go")).text == "done"
    failed = await majority(team, name="one too many").run("go")
    assert isinstance(failed.stop, (stops.BudgetExceeded, stops.Failed))
    assert "depth limit of 8" in str(failed.error)


async def test_a_denied_call_of_a_member_is_a_result_and_a_denied_model_call_its_failure() -> None:
    def reply(request: ModelRequest) -> Any:
        return request.messages[-1].tool_results[0].text if request.messages[-1].role == "tool" else tool_call("act")

    @tool
    def act() -> str:
        """Act."""
        return "acted"

    team = majority(member("ann", reply, tools=[act]), approvals=Approvals("act"), store="memory:")
    waiting = await team.run("go", run_id="r-1")
    run = await team.resume("r-1", {item.id: Deny("not now") for item in waiting.pending})
    assert run.text == "denied: not now"


async def test_what_was_said_before_anything_fails_is_in_the_run() -> None:
    def choose(messages: Sequence[Message]) -> str:
        if len(messages) > 2:
            raise ValueError("no choice")
        return "ann" if len(messages) == 1 else "ben"

    def manage(request: ModelRequest) -> Any:
        return ValueError("no ledger") if "JSON object" in request.messages[-1].text else "the plan"

    members = [member("ann", "A"), member("ben", "B")]
    for team, said in (
        (group_chat(*members, speaker=choose), ["A", "B"]),
        (group_chat(*members, until=lambda messages: wrong(1 / 0)), ["A"]),
        (ledger_team(member("manager", manage), *members), ["the plan"]),
        (parallel(member("leader", ValueError("no answer")), *members), ["A", "B"]),
    ):
        run = await team.run("go")
        assert isinstance(run.stop, stops.Failed)
        assert [message.text for message in run.messages if message.role == "assistant"] == said
