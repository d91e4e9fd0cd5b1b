"""Agent: its parts, the arguments it refuses, and what agents below inherit."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.wrong import wrong
from ziggurat import (
    Agent,
    AgentRequest,
    AgentRun,
    Approvals,
    Approve,
    Budget,
    ConfigurationError,
    Context,
    Deny,
    Middleware,
    ModelResponse,
    ModelSettings,
    Rule,
    Toolbox,
    ToolCall,
    ToolResult,
    stack,
    stop_when,
    tool,
    user,
)
from ziggurat.core.service import COMPOSITE, NAME, fact
from ziggurat.events import ThinkingDelta
from ziggurat.layers.retry import retry
from ziggurat.messages import Thinking, Transcript, assistant, stops, tool_call, tool_message
from ziggurat.messages.agent import AgentStep
from ziggurat.stores import InMemoryStore
from ziggurat.testing import ScriptedModel

MODEL = ScriptedModel(always="hello")


async def echo(text: str) -> str:
    """Echo."""
    return text


def _no_hint(text) -> str:  # type: ignore[no-untyped-def]
    return str(text)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Agent("nobody:nothing"), "nobody"),
        (lambda: Agent(""), "model"),
        (lambda: Agent(wrong(None)), "model"),
        (lambda: Agent(wrong(3)), "model"),
        (lambda: Agent(MODEL, tools=wrong("text")), "tools"),
        (lambda: Agent(MODEL, tools=wrong(echo)), "tools"),
        (lambda: Agent(MODEL, tools=[wrong(3)]), "got 3 among them"),
        (lambda: Agent(MODEL, tools=[int]), "typed function"),
        (lambda: Agent(MODEL, tools=[_no_hint]), "parameter 'text'"),
        (lambda: Agent(MODEL, tools=[echo, tool(name="echo")(lambda: "x")]), "two tools are named 'echo'"),
        (lambda: Agent(MODEL, tools=[Agent(MODEL), Agent(MODEL)]), "two tools are named 'agent'"),
        (lambda: Agent(MODEL, tools=[Agent(MODEL, name="has space")]), "name"),
        (lambda: Agent(MODEL, max_steps=0), "at least 1"),
        (lambda: Agent(MODEL, max_steps=-1), "at least 1"),
        (lambda: Agent(MODEL, max_steps=1.5), "whole number"),  # type: ignore[call-overload]
        (lambda: Agent(MODEL, max_steps=True), "whole number"),
        (lambda: Agent(MODEL, grants=wrong(3)), "grants"),
        (lambda: Agent(MODEL, settings=ModelSettings(temperature="hot")), "temperature"),  # type: ignore[arg-type]
        (lambda: Agent(MODEL, settings=ModelSettings(stop="x")), "stop"),
        (
            lambda: Agent(MODEL, tools=[echo], settings=ModelSettings(tool_choice="any")),
            "no tool 'any'.*required.*echo",
        ),
        (lambda: Agent(MODEL, settings=ModelSettings(tool_choice="echo")), "no tool 'echo'"),
        (lambda: Agent(MODEL, timeout=0), "timeout"),
        (lambda: Agent(MODEL, timeout="3"), "timeout"),  # type: ignore[call-overload]
        (lambda: Agent(MODEL, timeout=float("nan")), "timeout"),
        (lambda: Agent(MODEL, timeout=float("inf")), "timeout"),
        (lambda: Agent(MODEL, name=""), "name"),
        (lambda: Agent(MODEL, name=3), "name"),  # type: ignore[call-overload]
        (lambda: Agent(MODEL, description=3), "description"),  # type: ignore[call-overload]
        (lambda: Agent(MODEL, instructions=3), "instructions"),  # type: ignore[call-overload]
        (lambda: Agent(MODEL, instructions=lambda: "Hi."), r"instructions.*\(ctx\)"),  # type: ignore[arg-type, misc]
        (lambda: Agent(MODEL, output_validator=lambda answer: answer), "answer, ctx"),  # type: ignore[arg-type, misc]
        (lambda: Approvals("pay", approver=lambda: None), "approver"),  # type: ignore[arg-type, misc]
        (lambda: Rule("pay", when=lambda: True), "when"),  # type: ignore[arg-type, misc]
        (lambda: stop_when(lambda progress, ctx: True), "condition"),  # type: ignore[arg-type, misc]
        (lambda: Agent(MODEL).run_sync("go", listeners=[lambda: None]), "listeners"),  # type: ignore[list-item, misc]
        (lambda: Agent(MODEL, tools=[[echo]]), r"write \*"),  # type: ignore[list-item]
        (lambda: Agent(MODEL, budget=100), "Budget"),  # type: ignore[call-overload]
        (lambda: Agent(MODEL, approvals="*"), "Approvals"),  # type: ignore[call-overload]
        (lambda: Agent(MODEL, settings={"temperature": 1}), "ModelSettings"),  # type: ignore[call-overload]
        (lambda: Agent(MODEL, middleware=[3]), "Middleware"),  # type: ignore[list-item]
        (lambda: Agent(MODEL, middleware=[Middleware]), "Middleware"),  # type: ignore[list-item]
        (lambda: Agent(MODEL, middleware=Middleware()), "a list"),  # type: ignore[call-overload]
        (lambda: Agent(MODEL, stop=3), "stop"),  # type: ignore[call-overload]
        (lambda: Agent(MODEL, stop=lambda progress: True), "stop_when"),  # type: ignore[call-overload]
        (lambda: Agent(MODEL, store="nowhere://x"), "nowhere"),
        (lambda: Agent(MODEL, store=3), "store"),  # type: ignore[call-overload]
        (lambda: Agent(MODEL, output=complex), "complex"),
        (lambda: Agent(MODEL, grants=["fly"]), "fly"),
        (lambda: Agent(MODEL, grants="network"), "grants"),
        (lambda: Budget(), "limits nothing"),
        (lambda: Budget(tokens=0), "at least 1"),
        (lambda: Approvals(""), "such as 'delete_"),
    ],
)
def test_mistakes_are_named_where_they_are_made(make: Callable[[], object], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        make()


@pytest.mark.parametrize("choice", [None, "auto", "required", "none", "echo"])
def test_a_tool_that_must_be_called_is_one_of_the_agent(choice: str | None) -> None:
    settings = ModelSettings(tool_choice=choice, stop=["END"])
    agent = Agent(ScriptedModel(always="x"), tools=[echo], settings=settings)
    assert agent.settings.settings == ModelSettings(tool_choice=choice, stop=("END",))
    own = ModelSettings(tool_choice="web_search", extra={"tools": [{"type": "web_search"}]})
    assert Agent(MODEL, settings=own).settings.settings is own  # a tool of the provider


def test_a_model_may_be_any_service() -> None:
    async def model(request: Any, ctx: Context) -> ModelResponse:
        return ModelResponse(assistant("hi"))

    assert Agent(model).run_sync("go").text == "hi"
    assert Agent(stack(model, retry())).run_sync("go").text == "hi"


def test_a_model_that_answers_rubbish_is_an_error_that_names_it() -> None:
    async def model(request: Any, ctx: Context) -> Any:
        return "just text"

    store = InMemoryStore()
    for run in (Agent(model, store=store).run_sync, Agent(model, store=store, middleware=[Middleware()]).run_sync):
        with pytest.raises(ConfigurationError, match="ModelResponse"):
            run("go", run_id="r")


def test_it_says_what_it_is() -> None:
    agent = Agent(MODEL, tools=[echo], name="x")
    assert repr(agent) == "Agent(scripted('scripted', always), tools=[echo])"
    assert fact(agent, NAME) == "x"
    assert fact(agent, COMPOSITE)
    assert list(agent.tools) == ["echo"]


def test_a_toolbox_is_taken_as_it_is_and_keeps_statistics() -> None:
    box = Toolbox([echo], concurrency=1)
    agent = Agent(ScriptedModel(tool_call("echo", text="a"), tool_call("echo"), "x"), tools=box)
    agent.run_sync("go")
    assert agent.tools is box
    figures = box.statistics["echo"]
    assert (figures.calls, figures.errors) == (2, 1)


def test_approvals_may_be_given_by_a_function() -> None:
    asked: list[str] = []

    def approver(item: Any) -> Any:
        asked.append(item.call.name)
        return Approve() if item.call.parsed() == {"text": "a"} else Deny("only a")

    model = ScriptedModel([tool_call("echo", text="a", id="1"), tool_call("echo", text="b", id="2")], "done")
    run = Agent(model, tools=[echo], approvals=Approvals("e*", approver=approver)).run_sync("go")
    assert asked == ["echo", "echo"]
    assert run.observations == ("a", "denied: only a")


def test_what_it_brings_holds_for_all_beneath() -> None:
    seen: list[str] = []

    class Watch(Middleware):
        async def before_model(self, request: Any, ctx: Context) -> None:
            seen.append(ctx.path)

    inner = Agent(ScriptedModel(tool_call("echo", text="a"), "in"), tools=[echo], name="inner")
    outer = Agent(
        ScriptedModel(tool_call("inner", input="x"), "out"),
        tools=[inner],
        middleware=[Watch()],
        approvals=Approvals("echo"),
        budget=Budget(requests=2),
    )
    run = outer.run_sync("go")
    assert seen == ["agent/step-1/model", "agent/step-1/tool-1:inner/inner/step-1/model"]
    assert [item.path for item in run.pending] == ["agent/step-1/tool-1:inner/inner/step-1/tool-1:echo"]


def test_permissions_are_granted_by_declaration_and_narrowed_beneath() -> None:
    @tool(permissions=["network"])
    async def fetch() -> str:
        return "fetched"

    def inner() -> Agent:
        return Agent(ScriptedModel(tool_call("fetch"), "in"), tools=[fetch], name="inner")

    assert Agent(ScriptedModel(tool_call("fetch"), "x"), tools=[fetch]).run_sync("go").observations == ("fetched",)
    refused = Agent(ScriptedModel(tool_call("fetch"), "x"), tools=[fetch], grants=[]).run_sync("go")
    assert refused.messages[2].tool_results[0].error == "denied"
    assert "network" in refused.observations[0]
    outer = Agent(ScriptedModel(tool_call("inner", input="x"), "out"), tools=[inner()], grants=["file_read"])
    run = outer.run_sync("go")
    assert run.stop == stops.Completed()
    assert outer.tools.statistics["inner"].calls == 1


# -- the views of a run ------------------------------------------------------------------------------------------


def _views() -> AgentRun:
    calls = [tool_call("echo", text="a", id="1"), tool_call("fail", id="2")]
    model = ScriptedModel(
        [ThinkingDelta("first I look"), *calls],
        ["said beside", tool_call("fail", id="3")],
        tool_call("echo", text="b", id="4"),
        "answer",
    )

    async def fail() -> str:
        raise RuntimeError("broken")

    return Agent(model, tools=[echo, fail]).run_sync("go", history=[user("before"), assistant("yes")])


def test_views() -> None:
    run = _views()
    assert run.thoughts == ("first I look", "said beside")
    assert run.actions == ('echo {"text":"a"}', "fail {}", "fail {}", 'echo {"text":"b"}')
    assert run.observations == ("a", "RuntimeError: broken", "RuntimeError: broken", "b")
    assert run.failed_tool_calls == 2
    assert run.most_common_action == "fail {}"
    assert run.has_final_answer
    assert run.text == run.output == "answer"
    assert run.history == run.messages


def test_steps_by_index() -> None:
    run = _views()
    assert len(run.trace()) == run.steps == 4
    step = run.step_at(1)
    assert step == AgentStep(
        2,
        "said beside",
        (ToolCall("3", "fail", "{}"),),
        (ToolResult("3", "fail", "RuntimeError: broken", "permanent", "fail"),),
    )
    assert step.action == "fail {}"
    assert step.observation == "RuntimeError: broken"
    first, last = run.step_at(0), run.step_at(3)
    assert first is not None
    assert first.action == 'echo {"text":"a"}; fail {}'
    assert first.observation == "a; RuntimeError: broken"
    assert last is not None
    assert (last.calls, last.thought, last.action) == ((), "", "")
    assert run.step_at(4) is None
    assert run.step_at(-1) is None


def test_views_of_a_run_in_which_nothing_was_done() -> None:
    run = AgentRun(Transcript.of(user("x")), stops.Cancelled(), start=1)
    assert run.text == ""
    assert (run.thoughts, run.actions, run.observations, run.trace()) == ((), (), (), ())
    assert run.failed_tool_calls == 0
    assert run.most_common_action is None
    assert run.step_at(0) is None
    assert not run.has_final_answer


def test_views_leave_out_what_was_said_before() -> None:
    log = [user("a"), assistant(Thinking("old"), tool_call("x", id="1")), tool_message(ToolResult("1", "x", "r"))]
    run = AgentRun(Transcript.of(*log, user("b"), assistant("new")), stops.Completed(), start=4)
    assert run.thoughts == ()
    assert run.actions == ()
    assert run.text == "new"


async def test_a_request_that_is_made_by_hand_works_too() -> None:

    from ziggurat.core.context import JOURNAL, root
    from ziggurat.journal.journal import LocalJournal

    ctx = root("agent").within(JOURNAL, LocalJournal())
    run = await Agent(MODEL)(AgentRequest((user("x"),)), ctx)
    assert run.text == "hello"


def test_a_name_that_no_store_can_keep_is_refused() -> None:
    for name in ("", 3, "\ud800", "a\0b", "a" * 501):
        with pytest.raises(ConfigurationError, match="name"):
            Agent(ScriptedModel("x"), name=wrong(name))
