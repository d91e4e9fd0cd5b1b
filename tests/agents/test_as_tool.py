"""Agents as tools, and limits on their depth."""

from typing import Any

import pytest

from tests.agents.support import assert_sendable, streamed
from ziggurat import (
    Agent,
    AgentRun,
    Approve,
    ConfigurationError,
    Context,
    Middleware,
    ModelRequest,
    stack,
    stop_when,
    tool,
    until_tool_called,
    user,
)
from ziggurat.agents import Environment
from ziggurat.calls.enter import MAX_DEPTH
from ziggurat.errors import ModelError
from ziggurat.events import AgentEnded, AgentStarted
from ziggurat.layers.retry import timeout
from ziggurat.messages import stops, tool_call
from ziggurat.models import FunctionModel
from ziggurat.testing import HandClock, Pause, ScriptedModel, ScriptedReply


def _outer(inner: Any, call: ScriptedReply | None = None, **options: Any) -> AgentRun:
    model = ScriptedModel(call or tool_call("helper", input="help me"), "done")
    run = Agent(model, tools=[inner]).run_sync("go", **options)
    assert_sendable(run.messages)
    return run


def test_it_is_called_with_a_text_and_answers_with_one() -> None:
    model = ScriptedModel("helped")
    run = _outer(Agent(model, name="helper", description="Helps."))
    assert run.observations == ("helped",)
    assert list(model.last.messages) == [user("help me")]
    assert (run.steps, run.model_calls, run.tool_calls) == (2, 3, 1)


def test_its_spec() -> None:
    spec = Agent(ScriptedModel("x"), name="helper", description="Helps.").as_tool().spec
    assert (spec.name, spec.description) == ("helper", "Helps.")
    assert spec.parameters["required"] == ["input"]
    named = Agent(ScriptedModel("x"), name="helper").as_tool(name="aid", description="Aids.").spec
    assert (named.name, named.description) == ("aid", "Aids.")


def test_as_tool_under_another_name() -> None:
    run = _outer(Agent(ScriptedModel("helped"), name="helper").as_tool(name="aid"), tool_call("aid", input="x"))
    assert run.observations == ("helped",)


def test_layers_stand_around_it() -> None:
    inner = stack(Agent(ScriptedModel([Pause(60), "late"]), name="helper"), timeout(seconds=5))
    run = _outer(inner, environment=Environment(clock=HandClock(auto=True)))
    assert run.messages[2].tool_results[0].error == "timeout"


@pytest.mark.parametrize("arguments", ["{}", '{"input": 3}', '{"input": "x", "y": 1}', "[]", "no", '{"input": ""}'])
def test_bad_arguments_are_told_to_the_model(arguments: str) -> None:
    from ziggurat.messages.message import ToolCall

    model = ScriptedModel(always="never")
    run = _outer(Agent(model, name="helper"), ToolCall("c", "helper", arguments))
    assert run.messages[2].tool_results[0].error == "invalid_arguments"
    assert "input" in run.observations[0]
    assert model.calls == []


def test_what_stops_it_is_told_to_the_model() -> None:
    async def echo() -> str:
        return "x"

    looping = Agent(ScriptedModel(always=["so far", tool_call("echo")]), tools=[echo], name="helper", max_steps=2)
    run = _outer(looping)
    assert run.messages[2].tool_results[0].error == "permanent"
    assert "MaxSteps" in run.observations[0]
    assert "so far" in run.observations[0]
    failing = Agent(ScriptedModel(ModelError("down", transient=True)), name="helper")
    run = _outer(failing)
    assert run.messages[2].tool_results[0].error == "transient"
    assert "down" in run.observations[0]
    stop = until_tool_called("echo")
    called = Agent(ScriptedModel(["here", tool_call("echo")]), tools=[echo], name="helper", stop=stop)
    assert _outer(called).messages[2].tool_results[0].error is None
    stopped = Agent(ScriptedModel("enough"), name="helper", stop=stop_when(lambda progress: True))
    assert _outer(stopped).observations == ("enough",)


@pytest.mark.parametrize("again", [False, True])
async def test_one_that_stops_tells_what_it_has_done_once(again: bool) -> None:
    @tool(effect="once")
    def pay() -> str:
        """Pay."""
        return "paid 5"

    helper = Agent(ScriptedModel(tool_call("pay"), "done"), tools=[pay], name="helper", max_steps=1)
    model = ScriptedModel(tool_call("helper", input="go"), *([ConnectionError("gone")] * again), "done")
    outer = Agent(model, tools=[helper], store="memory:")
    run = await outer.run("go", run_id="r")
    if again:
        run = await outer.resume("r")
    (told,) = run.observations
    assert "MaxSteps" in told
    assert "pay: paid 5" in told
    assert (await outer.replay("r")).observations == (told,)


async def test_its_events_stand_beneath_the_call() -> None:
    outer = Agent(
        ScriptedModel(tool_call("helper", input="x"), "done"), tools=[Agent(ScriptedModel("in"), name="helper")]
    )
    _, heard = await streamed(outer, "go")
    told = [event for event in heard.events if isinstance(event, (AgentStarted, AgentEnded))]
    assert [(type(event).__name__, event.path) for event in told] == [
        ("AgentStarted", "agent"),
        ("AgentStarted", "agent/step-1/tool-1:helper/helper"),
        ("AgentEnded", "agent/step-1/tool-1:helper/helper"),
        ("AgentEnded", "agent"),
    ]


def _deep(levels: int) -> Agent:
    """Return an agent with `levels` agents below it, each a tool of the one above."""
    agent = Agent(ScriptedModel(always="bottom"), name="level-0")
    for level in range(1, levels + 1):
        below = agent.name
        model = ScriptedModel(
            rules=[(lambda request: request.messages[-1].role == "user", tool_call(below, input="down"))],
            always=lambda request: f"{request.messages[-1].tool_results[0].text}!",
        )
        agent = Agent(model, tools=[agent], name=f"level-{level}")
    return agent


def test_agents_stand_within_each_other_to_the_depth_allowed() -> None:
    run = _deep(MAX_DEPTH).run_sync("go")
    assert run.text == "bottom" + "!" * MAX_DEPTH
    assert run.model_calls == 2 * MAX_DEPTH + 1
    assert run.tool_calls == MAX_DEPTH
    run = _deep(MAX_DEPTH + 1).run_sync("go")
    assert "too deep" in run.text
    assert run.stop == stops.Completed()
    assert _deep(20).run_sync("go", environment=Environment(max_depth=20)).text == "bottom" + "!" * 20
    assert "too deep" in _deep(2).run_sync("go", environment=Environment(max_depth=1)).text


def test_an_agent_that_calls_itself_is_stopped_by_depth() -> None:
    async def again(ctx: Context) -> str:
        return (await agent.run("again")).text

    model = ScriptedModel(
        rules=[(lambda request: request.messages[-1].role == "user", tool_call("again"))],
        always=lambda request: request.messages[-1].tool_results[0].text,
    )
    agent = Agent(model, tools=[again])
    run = agent.run_sync("go")
    assert "too deep" in run.text
    assert run.model_calls == 2 * (MAX_DEPTH + 1)


async def test_an_approval_at_the_bottom_suspends_the_whole_and_resumes() -> None:
    did: list[str] = []

    @tool(approval=True)
    async def act() -> str:
        did.append("x")
        return "acted"

    inner = Agent(ScriptedModel(tool_call("act"), "in"), tools=[act], name="inner")
    middle = Agent(ScriptedModel(tool_call("inner", input="x"), "mid"), tools=[inner], name="middle")
    outer = Agent(ScriptedModel(tool_call("middle", input="x"), "out"), tools=[middle])
    suspended = await outer.run("go")
    assert suspended.stop == stops.Suspended()
    assert did == []
    went = await outer.resume(suspended.id, {suspended.pending[0].id: Approve()})
    assert went.text == "out"
    assert went.observations == ("mid",)
    assert did == ["x"]
    assert went.model_calls == 6


def test_a_tool_that_acts_once_cannot_be_made_of_agents() -> None:
    helper = Agent(ScriptedModel(always="x"), name="helper")

    @tool(effect="once")
    async def pay() -> str:
        return (await helper.run("x")).text

    with pytest.raises(ConfigurationError, match="effect='once'"):
        Agent(ScriptedModel(tool_call("pay"), "done"), tools=[pay]).run_sync("go")


@pytest.mark.parametrize("name", ["has space", "", "x" * 65, "a/b"])
def test_names_that_models_do_not_take_are_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="name"):
        Agent(ScriptedModel("x"), name="helper").as_tool(name=name or " ")


def test_a_run_within_another_tells_its_own_seconds() -> None:
    clock = HandClock(auto=True)
    seen: list[float] = []

    async def late(request: ModelRequest) -> str:
        await clock.sleep(5)
        return "done"

    class Look(Middleware):
        async def after_agent(self, run: AgentRun, ctx: Context) -> None:
            seen.append(run.seconds)

    inner = Agent(FunctionModel(late), name="inner")

    @tool
    async def helped() -> str:
        await clock.sleep(10)
        return (await inner.run("help")).text

    agent = Agent(ScriptedModel(tool_call("helped"), "done"), tools=[helped], middleware=[Look()])
    agent.run_sync("go", environment=Environment(clock=clock))
    assert seen == [5, 15]
