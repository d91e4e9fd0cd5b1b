"""Loop detection notices a model that repeats itself."""

import asyncio
from typing import Any

import pytest

from tests.agents.support import assert_sendable, elsewhere
from tests.wrong import wrong
from ziggurat import Agent, AgentRun, Approve, ConfigurationError, Event, Message, ToolCall, loop_detection, tool
from ziggurat.agents import max_steps
from ziggurat.agents.stop import Policy, all_of
from ziggurat.events import LoopWarning
from ziggurat.messages import assistant, stops, tool_call
from ziggurat.stores import InMemoryStore
from ziggurat.testing import ScriptedModel, ScriptedReply

Warnings = list[tuple[str, str, int]]


def look(at: str) -> str:
    """Look at something."""
    return f"saw {at}"


def poll(at: str) -> str:
    """Ask whether it is done."""
    return "not yet"


def a(number: int) -> ToolCall:
    return tool_call("look", at="a", id=f"a{number}")


def b(number: int) -> ToolCall:
    return tool_call("look", at="b", id=f"b{number}")


def went(policy: Policy, *replies: ScriptedReply) -> tuple[AgentRun, Warnings]:
    heard: Warnings = []

    def listen(event: Event) -> None:
        if isinstance(event, LoopWarning):
            heard.append((event.path, event.tool, event.count))

    agent = Agent(ScriptedModel(*replies, "done"), tools=[look, poll], stop=policy)
    run = agent.run_sync("go", listeners=[listen])
    assert_sendable(run.messages)
    return run, heard


def said_by_runtime(run: AgentRun) -> list[tuple[int, Message]]:
    return [(at, message) for at, message in enumerate(run.messages) if message.origin == "runtime"]


def test_a_warning_comes_at_the_threshold_and_at_each_further_repeat() -> None:
    run, heard = went(loop_detection(), *map(a, range(5)))
    assert heard == [(f"agent/step-{step}", "look", step) for step in (3, 4, 5)]
    assert (run.stop, said_by_runtime(run)) == (stops.Completed(), [])


@pytest.mark.parametrize("threshold", [2, 3, 4])
def test_stop_ends_the_run_before_the_tools_run_once_more(threshold: int) -> None:
    run, heard = went(loop_detection(threshold, "stop"), *map(a, range(9)))
    assert run.stop == stops.LoopDetected("look", threshold)
    assert (run.steps, run.model_calls, heard) == (threshold, threshold, [])
    assert run.observations == (*["saw a"] * (threshold - 1), "not executed: the run ended before")


def test_inject_tells_the_model_after_complete_results_and_counts_anew() -> None:
    batches = [assistant(a(number), b(number)) for number in range(7)]
    run, heard = went(loop_detection(action="inject"), *batches)
    assert heard == [(f"agent/step-{step}", "look+look", 3) for step in (3, 6)]
    told = said_by_runtime(run)
    assert [at for at, _ in told] == [10, 20]  # a question, then three times a reply and two results
    for at, message in told:
        assert message.role == "user"
        assert "look+look" in message.text
        assert "3 times" in message.text
        assert [each.role for each in run.messages[at - 3 : at]] == ["assistant", "tool", "tool"]
        assert run.messages[at + 1].role == "assistant"


def test_nothing_is_injected_where_the_run_ends_with_that_step() -> None:
    run, heard = went(loop_detection(action="inject") | max_steps(3), *map(a, range(5)))
    assert (run.stop, len(heard), said_by_runtime(run)) == (stops.MaxSteps(3), 1, [])


def test_the_whole_batch_counts_and_spelling_and_ids_do_not() -> None:
    spelled = [
        ToolCall("1", "look", '{"at": "a"}'),
        ToolCall("2", "look", '{"at":"a"}'),
        ToolCall("3", "look", '{ "at" : "\\u0061" }'),
    ]
    assert went(loop_detection(), *spelled)[1] == [("agent/step-3", "look", 3)]
    assert went(loop_detection(), assistant(a(1), b(1)), assistant(b(2), a(2)), assistant(a(3), b(3)))[1] == []
    assert went(loop_detection(), a(1), assistant(a(2), b(2)), a(3), assistant(a(4), b(4)))[1] == []
    numbers = [ToolCall("1", "look", '{"at": 1}'), ToolCall("2", "look", '{"at": 1.0}')]
    assert went(loop_detection(2), *numbers)[1] == []


def test_arguments_that_cannot_be_read_are_compared_as_they_are() -> None:
    broken = [ToolCall(str(number), "look", '{"at": ') for number in range(3)]
    assert went(loop_detection(), *broken)[1] == [("agent/step-3", "look", 3)]


def test_two_that_alternate_are_counted_by_pairs() -> None:
    swing = [a(1), b(1), a(2), b(2), a(3), b(3), a(4), b(4)]
    assert went(loop_detection(2), *swing)[1] == [
        ("agent/step-4", "look, look", 2),
        ("agent/step-6", "look, look", 3),
        ("agent/step-8", "look, look", 4),
    ]
    run, _ = went(loop_detection(3, "stop"), *swing)
    assert (run.stop, run.steps) == (stops.LoopDetected("look, look", 3), 6)
    assert went(loop_detection(2, modes=["identical"]), *swing)[1] == []
    assert went(loop_detection(2), a(1), b(1), poll_call(1), a(2), b(2), poll_call(2))[1] == []


def poll_call(number: int, at: str = "x") -> ToolCall:
    return tool_call("poll", at=at, id=f"poll{number}")


def test_tools_that_answer_the_same_are_noticed_where_that_is_asked_for() -> None:
    polls = [poll_call(number, at=str(number)) for number in range(5)]
    assert went(loop_detection(), *polls)[1] == []
    assert went(loop_detection(modes=["same_result"]), *polls)[1] == [
        (f"agent/step-{step}", "poll", step) for step in (3, 4, 5)
    ]
    run, _ = went(loop_detection(modes=["same_result"], action="stop"), *polls)
    assert (run.stop, run.steps) == (stops.LoopDetected("poll", 3), 3)
    assert run.observations == ("not yet",) * 3  # noticed after they had run
    both = loop_detection(modes=["identical", "same_result"])
    assert len(went(both, *[poll_call(number) for number in range(4)])[1]) == 2  # reported only once in one step


def test_tools_that_may_be_repeated_are_left_out() -> None:
    polls = [poll_call(number) for number in range(6)]
    assert went(loop_detection(exempt=["poll"]), *polls)[1] == []
    assert went(loop_detection(exempt=["poll"], modes=["same_result"]), *polls)[1] == []
    mixed = [assistant(a(number), poll_call(number, str(number))) for number in range(3)]
    assert went(loop_detection(exempt=["poll"]), *mixed)[1] == [("agent/step-3", "look", 3)]
    assert went(loop_detection(exempt=["poll"]), a(1), a(2), poll_call(1), a(3))[1] == []


async def test_no_state_outlives_a_run_also_when_runs_share_the_policy_at_once() -> None:
    policy = loop_detection(action="stop")

    agents = [Agent(ScriptedModel(a(1), a(2), "done"), tools=[look], stop=policy) for _ in range(5)]
    runs = [await agent.run("go") for agent in agents[:2]]
    runs += await asyncio.gather(*[agent.run("go") for agent in agents[2:]])
    assert [run.stop for run in runs] == [stops.Completed()] * 5


def test_it_can_be_one_of_several_conditions() -> None:
    run, _ = went(all_of(loop_detection(action="stop"), max_steps(4)), *map(a, range(9)))
    assert (run.stop, run.steps) == (stops.MaxSteps(4), 4)
    run, _ = went(all_of(loop_detection(threshold=4, action="stop"), max_steps(2)), *map(a, range(9)))
    assert (run.stop, run.steps) == (stops.LoopDetected("look", 4), 4)


@pytest.mark.parametrize("action", ["inject", "stop"])
async def test_what_was_counted_before_a_suspension_counts_after_it_and_in_a_replay(action: Any) -> None:
    @tool(approval=True)
    async def look(at: str) -> str:
        return f"saw {at}"

    def agent(store: InMemoryStore) -> Agent:
        model = ScriptedModel(rules=[(lambda request: _asked(request.messages) < 4, a(0))], always="done")
        return Agent(model, tools=[look], stop=loop_detection(action=action), store=store)

    store = InMemoryStore()
    run = await agent(store).run("go", run_id="r")
    while run.pending:
        store = elsewhere(store, "r")
        run = await agent(store).resume("r", {item.id: Approve() for item in run.pending})
    replayed = await agent(elsewhere(store, "r")).replay("r")
    assert_sendable(run.messages)
    assert (replayed.messages, replayed.stop) == (run.messages, run.stop)
    if action == "stop":
        assert run.stop == stops.LoopDetected("look", 3)
    else:
        assert [at for at, _ in said_by_runtime(run)] == [7]


def _asked(messages: Any) -> int:
    return sum(message.role == "assistant" for message in messages)


def test_settings_of_wrong_types_are_refused() -> None:
    mistakes: dict[str, list[object]] = {
        "threshold": [1, True],
        "action": ["scold"],
        "modes": ["identical", None, ["odd"], [], [[]]],
        "exempt": ["poll", 3, [3], [["poll"]]],
    }
    for setting, values in mistakes.items():
        for value in values:
            with pytest.raises(ConfigurationError, match=setting):
                loop_detection(**{setting: wrong(value)})


def test_it_shows_what_it_is() -> None:
    assert repr(loop_detection() | max_steps(3)) == "loop_detection(threshold=3, action='warn') | max_steps(3)"
