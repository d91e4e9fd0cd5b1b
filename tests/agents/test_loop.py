"""The loop: ask the model, run its tools, and repeat until a stop."""

import asyncio
from typing import Any

import pytest

from tests.agents.support import assert_sendable, said, streamed, texts, timeless
from tests.wrong import wrong
from ziggurat import (
    Agent,
    ConfigurationError,
    Context,
    Image,
    Message,
    ModelRequest,
    ModelResponse,
    ModelSettings,
    Text,
    ToolCall,
    Usage,
    user,
)
from ziggurat.agents.reply import PAUSES, REPAIRS
from ziggurat.errors import ModelError
from ziggurat.events import AgentEnded, AgentStarted, ModelEnded, ModelStarted, StepEnded, StepStarted
from ziggurat.messages import Thinking, assistant, stops, tool_call
from ziggurat.testing import ScriptedModel


async def echo(text: str) -> str:
    """Echo."""
    return text


def test_one_answer() -> None:
    run = Agent(ScriptedModel("Hello!")).run_sync("Hi")
    assert (run.text, run.output, run.stop) == ("Hello!", "Hello!", stops.Completed())
    assert run.messages == [user("Hi"), assistant("Hello!")]
    assert (run.steps, run.model_calls, run.tool_calls, run.start, run.agent) == (1, 1, 0, 1, "agent")
    assert run.id
    assert run.raise_for_stop() is run


def test_tools_are_called_and_their_results_shown() -> None:
    model = ScriptedModel(
        [tool_call("echo", text="a"), tool_call("echo", text="b")], tool_call("echo", text="c"), "done"
    )
    run = Agent(model, tools=[echo]).run_sync("go")
    assert [message.role for message in run.messages] == [
        "user", "assistant", "tool", "tool", "assistant", "tool", "assistant",
    ]  # fmt: skip
    assert run.observations == ("a", "b", "c")
    assert (run.steps, run.model_calls, run.tool_calls) == (3, 3, 3)
    assert len(model.calls) == 3
    assert [len(request.messages) for request in model.calls] == [1, 4, 6]
    assert_sendable(run.messages)


def test_what_is_sent_is_what_was_set() -> None:
    model = ScriptedModel("done")
    settings = ModelSettings(temperature=0.5)
    Agent(model, tools=[echo], instructions="Be brief.", settings=settings).run_sync("go")
    request = model.last
    assert request.instructions == "Be brief."
    assert [spec.name for spec in request.tools] == ["echo"]
    assert request.settings == settings
    assert request.output is None


def test_a_request_holds_a_view_that_does_not_grow() -> None:
    model = ScriptedModel(tool_call("echo", text="a"), "done")
    Agent(model, tools=[echo]).run_sync("go")
    assert len(model.calls[0].messages) == 1
    assert texts(model.calls[0].messages) == ["go"]


@pytest.mark.parametrize("kind", ["text", "function", "async"])
def test_instructions_may_be_a_function_of_the_context(kind: str) -> None:
    async def waited(ctx: Context) -> str:
        await asyncio.sleep(0)
        return f"in {ctx.path}"

    given: Any = {"text": "in agent", "function": lambda ctx: f"in {ctx.path}", "async": waited}[kind]
    model = ScriptedModel(tool_call("echo", text="a"), "done")
    Agent(model, tools=[echo], instructions=given).run_sync("go")
    assert [request.instructions for request in model.calls] == ["in agent", "in agent"]


@pytest.mark.parametrize("value", [3, b"text", ["text"], None])
def test_a_function_returns_instructions_as_text(value: object) -> None:
    async def later(ctx: Context) -> object:
        return value

    for given in (later, lambda ctx: value):
        agent = Agent(ScriptedModel(always="done"), instructions=wrong(given))
        if value is None:
            assert agent.run_sync("go").text == "done"
            continue
        with pytest.raises(ConfigurationError, match="instructions"):
            agent.run_sync("go")


def test_instructions_that_fail_fail_the_run() -> None:
    def broken(ctx: Context) -> str:
        raise LookupError("no prompt")

    run = Agent(ScriptedModel("done"), instructions=broken).run_sync("go")
    assert run.stop == stops.Failed("no prompt", "LookupError")
    assert_sendable(run.messages)


def test_max_steps_lets_the_last_tools_run() -> None:
    model = ScriptedModel(always=tool_call("echo", text="again"))
    run = Agent(model, tools=[echo], max_steps=3).run_sync("go")
    assert run.stop == stops.MaxSteps(3)
    assert run.steps == run.tool_calls == len(model.calls) == 3
    assert run.messages[-1].tool_results[0].text == "again"
    assert_sendable(run.messages)


def test_an_answer_in_the_last_step_completes() -> None:
    run = Agent(ScriptedModel(tool_call("echo", text="a"), "done"), tools=[echo], max_steps=2).run_sync("go")
    assert run.stop == stops.Completed()


def test_history_is_sent_and_kept_apart_from_what_this_run_added() -> None:
    agent = Agent(ScriptedModel("first", "second"))
    first = agent.run_sync("one")
    second = agent.run_sync("two", history=first.messages)
    assert texts(second.messages) == ["one", "first", "two", "second"]
    assert second.start == 3
    assert second.thoughts == ()
    assert len(second.trace()) == 1


def test_a_failing_model_leaves_what_is_complete() -> None:
    run = Agent(ScriptedModel(tool_call("echo", text="a"), ModelError("overloaded")), tools=[echo]).run_sync("go")
    assert run.stop == stops.Failed("overloaded", "ModelError")
    assert len(run.messages) == 3
    assert run.steps == 2
    assert run._output is None
    assert_sendable(run.messages)
    with pytest.raises(Exception, match="overloaded"):
        run.raise_for_stop()


@pytest.mark.parametrize(
    "ids", [("x", "x"), ("", ""), ("x", "", "x", "x-1"), ("call-1", "", ""), ("",)], ids=lambda ids: "|".join(ids)
)
async def test_calls_without_an_id_of_their_own_are_given_one(ids: tuple[str, ...]) -> None:
    calls = [ToolCall(each, "echo", f'{{"text": "{number}"}}') for number, each in enumerate(ids)]

    async def model(request: ModelRequest, ctx: Context) -> ModelResponse:
        if len(request.messages) > 1:
            return ModelResponse(assistant("done"))
        return ModelResponse(Message("assistant", tuple(calls)))

    agent = Agent(model, tools=[echo])
    plain = await agent.run("go")
    heard_run, heard = await streamed(agent, "go")
    assert heard.own("agent/") == said(heard_run)
    for run in (plain, heard_run):
        assert_sendable(run.messages)
        assert run.observations == tuple(str(number) for number in range(len(ids)))
        assert run.messages[1].tool_calls[0].id == (ids[0] or run.messages[1].tool_calls[0].id)
        assert all(call.id for call in run.messages[1].tool_calls)


@pytest.mark.parametrize(
    "parts",
    [
        (Text("a"), Text("b")),
        (Text(""),),
        (Text(""), Thinking("x"), Thinking("y"), Image(b"1"), Image(b"2"), Text("z"), Text("")),
        (Thinking("x", "sig"), Thinking("y"), Thinking("", redacted="r"), Text("z")),
    ],
    ids=repr,
)
async def test_a_reply_is_kept_as_its_deltas_fold(parts: tuple[Any, ...]) -> None:
    async def model(request: ModelRequest, ctx: Context) -> ModelResponse:
        return ModelResponse(Message("assistant", parts))

    plain = await Agent(model).run("go")
    run, heard = await streamed(Agent(model), "go")
    assert timeless(plain) == timeless(run)
    assert heard.own("agent/") == said(run)
    assert plain.text == "".join(part.text for part in parts if isinstance(part, Text))


async def test_events_tell_how_it_went_in_order() -> None:
    _, heard = await streamed(Agent(ScriptedModel(tool_call("echo", text="a"), "b"), tools=[echo]), "go")
    assert [f"{type(event).__name__} {event.path}" for event in heard.events] == [
        "AgentStarted agent",
        "StepStarted agent/step-1",
        "ModelStarted agent/step-1/model",
        "Delta agent/step-1/model",
        "Delta agent/step-1/model",
        "ModelEnded agent/step-1/model",
        "ToolStarted agent/step-1/tool-1:echo",
        "ToolEnded agent/step-1/tool-1:echo",
        "StepEnded agent/step-1",
        "StepStarted agent/step-2",
        "ModelStarted agent/step-2/model",
        "Delta agent/step-2/model",
        "ModelEnded agent/step-2/model",
        "StepEnded agent/step-2",
        "AgentEnded agent",
    ]


async def test_events_carry_their_facts() -> None:
    _, heard = await streamed(Agent(ScriptedModel("b", name="m"), name="x"), "go", run_id="r")
    kinds = {type(event): event for event in heard.events}
    assert kinds[AgentStarted] == AgentStarted("x", "x", "r")
    assert kinds[ModelStarted] == ModelStarted("x/step-1/model", "m", 1)
    assert kinds[StepStarted] == StepStarted("x/step-1", 1)
    assert kinds[StepEnded] == StepEnded("x/step-1", 1)
    ended, answered = kinds[AgentEnded], kinds[ModelEnded]
    assert isinstance(ended, AgentEnded)
    assert ended.run.text == "b"
    assert isinstance(answered, ModelEnded)
    assert not answered.replayed


def test_usage_is_summed() -> None:
    replies = [
        ModelResponse(assistant(tool_call("echo", text="a")), usage=Usage(10, 5, requests=1)),
        ModelResponse(assistant("done"), usage=Usage(20, 2, cache_read=7, requests=1)),
    ]
    run = Agent(ScriptedModel(*replies), tools=[echo]).run_sync("go")
    assert run.usage == Usage(30, 7, cache_read=7, requests=2)


def test_a_malformed_reply_is_asked_for_again_within_a_bound() -> None:
    bad = ModelResponse(assistant("?"), "malformed", raw={"malformed": "close your brackets"})
    run = Agent(ScriptedModel(bad, bad, "fine")).run_sync("go")
    assert run.text == "fine"
    assert (run.steps, run.model_calls) == (1, 3)
    assert [message.origin for message in run.messages] == [None, None, "runtime", None, "runtime", None]
    assert "close your brackets" in run.messages[2].text
    failed = Agent(ScriptedModel(always=bad)).run_sync("go")
    assert isinstance(failed.stop, stops.Failed)
    assert failed.model_calls == REPAIRS + 1
    assert_sendable(failed.messages)


async def test_a_step_that_failed_half_way_is_not_kept_and_not_shown() -> None:
    bad = ModelResponse(assistant("half"), "malformed")

    def make() -> Agent:
        return Agent(ScriptedModel(tool_call("echo", text="a"), bad, ModelError("gone")), tools=[echo])

    run, heard = await streamed(make(), "go")
    assert timeless(await make().run("go")) == timeless(run)
    assert heard.own("agent/") == said(run)
    assert_sendable(run.messages)


async def test_an_agent_serves_many_runs_at_once() -> None:
    model = ScriptedModel(always=lambda request: f"re: {request.messages[-1].text}")
    agent = Agent(model)

    assert [run.text for run in await asyncio.gather(*[agent.run(str(number)) for number in range(200)])] == [
        f"re: {number}" for number in range(200)
    ]


async def test_a_model_that_pauses_is_let_go_on_with_the_conversation_as_it_is() -> None:
    paused = ModelResponse(assistant("Searching ..."), "paused")
    model = ScriptedModel(paused, paused, "Found it.")
    run = await Agent(model).run("Find it.")
    assert run.text == "Found it."
    assert [message.role for message in model.last.messages] == ["user", "assistant", "assistant"]
    assert (run.steps, run.model_calls) == (1, 3)


async def test_a_model_that_pauses_for_ever_is_not_asked_for_ever() -> None:
    model = ScriptedModel(always=ModelResponse(assistant("Searching ..."), "paused"))
    run = await Agent(model).run("Find it.")
    assert run.stop == stops.Incomplete("paused")
    assert run.model_calls == PAUSES + 1
