"""What members do wrong, how deep teams are nested, and how many answers a team needs."""

import logging
from collections.abc import Sequence
from typing import Any

import pytest

from tests.teams.models import Answering
from tests.teams.patterns import PATTERNS, member
from tests.wrong import wrong
from ziggurat import (
    Agent,
    Approvals,
    ConfigurationError,
    Context,
    Deny,
    Message,
    ModelRequest,
    ModelResponse,
    Runnable,
    tool,
)
from ziggurat.messages import stops, tool_call
from ziggurat.stores import InMemoryStore
from ziggurat.teams import (
    Handoff,
    HandoffState,
    HandoffTool,
    TeamResult,
    debate,
    explicit_handoff,
    group_chat,
    handoffs,
    ledger_team,
    majority,
    parallel,
    swarm,
)


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


async def test_a_member_that_would_end_the_program_has_failed_like_others() -> None:
    class Ends(Answering):
        async def __call__(self, request: ModelRequest, ctx: Any, /) -> Any:
            raise SystemExit(3)

    run = await majority(Agent(Ends(""), name="bad"), member("ann", "yes")).run("?")
    assert run.text == "yes"
    assert list(TeamResult.of(run).failures) == ["bad"]


GOES_ON = ("in_parallel", "by_majority", "in_debate", "in_swarm", "in_star", "in_mesh", "in_ring", "in_chat")


@pytest.mark.parametrize("pattern", [*GOES_ON, "with_a_manager", "in_background"])
@pytest.mark.parametrize("error", [KeyError, SystemExit])
async def test_the_error_of_a_member_without_which_a_team_goes_on_is_logged_once(
    pattern: str, error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(request: ModelRequest, ctx: Context) -> ModelResponse:
        calls.append(ctx.path)
        raise error("why")

    calls: list[str] = []
    team = PATTERNS[pattern](Agent(broken, name="bad"), store=InMemoryStore(), name="team")
    run = await team.run("go", run_id="r")
    assert run.stop == stops.Completed()
    lines = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(lines) == len(calls) >= 1
    assert all("member bad" in each.getMessage() and error.__name__ in each.getMessage() for each in lines)
    assert all("in broken" in (each.exc_text or "") for each in lines)
    caplog.clear()
    await team.replay("r")
    assert not caplog.records


async def test_the_error_with_which_a_team_ends_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    run = await majority(member("ann", KeyError("key")), member("ben", KeyError("key"))).run("?")
    assert isinstance(run.stop, stops.Failed)
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


@pytest.mark.parametrize(("threshold", "needed"), [(1.0, 3), (0.67, 3), (0.66, 2), (0.5, 2), (0.34, 2), (0.01, 1)])
async def test_as_many_are_needed_as_the_threshold_says_rounded_up(threshold: float, needed: int) -> None:
    ann = member("ann", lambda request: request.messages[-1].text)
    run = await swarm(ann, threshold=threshold, concurrency=1).run("one, two, three")
    assert len(wrong(ann.model).asked) == needed
    assert run.text == "one" if needed == 1 else run.text.startswith(f"Answers to {needed} ")


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
