"""Runnable: run, run_sync, stream and layered, and their errors for wrong use."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from tests.agents.support import hello
from tests.stores.records import ids_of
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
    Event,
    Image,
    Key,
    ModelRequest,
    Runnable,
    Text,
    stack,
    tool,
    user,
)
from ziggurat.agents import PendingItem
from ziggurat.errors import CallerError, EmptyPrompt, RunExists
from ziggurat.events import AgentEnded, Warned
from ziggurat.flows import flow
from ziggurat.layers.pipeline import pipeline
from ziggurat.layers.retry import retry, timeout
from ziggurat.messages import Transcript, assistant, stops, tool_call
from ziggurat.stores import InMemoryStore
from ziggurat.teams import majority
from ziggurat.testing import Pause, ScriptedModel, assert_no_leaks

DB: Key[str] = Key("db")


# -- run ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("Hi", [user("Hi")]),
        (user("Hi", name="bob"), [user("Hi", name="bob")]),
        (Text("Hi"), [user("Hi")]),
        (["What is this?", Image(b"1")], [user("What is this?", Image(b"1"))]),
        (("a", user("b"), "c"), [user("a"), user("b"), user("c")]),
    ],
    ids=repr,
)
def test_prompts_of_all_forms(prompt: Any, expected: Any) -> None:
    assert list(hello().run_sync(prompt).messages[:-1]) == expected


async def _refused(told: str, prompt: Any, **options: Any) -> None:
    """Check that every verb refuses the arguments and that nothing is written."""
    store = InMemoryStore()
    agent = hello(store=store)
    for verb in (agent.run_sync, agent.start):
        with pytest.raises(CallerError, match=told):
            verb(prompt, **options)
    with pytest.raises(CallerError, match=told):
        await agent.run(prompt, **options)
    with pytest.raises(CallerError, match=told):
        async with agent.stream(prompt, **options):
            pass
    assert ids_of(store) == []


async def test_wrong_prompts_are_refused_by_every_verb() -> None:
    empty: list[Any] = ["", "  \n", [], [""], [Text("  ")], user(), [user("a"), user()]]
    for prompt in empty:
        await _refused("empty", prompt, run_id="r")
    mistakes: list[Any] = [3, b"bytes", [3], [user("a"), None], {"role": "user"}]
    for prompt in mistakes:
        await _refused("prompt", prompt, run_id="r")
    await _refused("nothing to answer", None)  # an id without a prompt continues that run


async def test_wrong_options_are_refused_by_every_verb() -> None:
    mistakes: dict[str, list[object]] = {
        "run_id": ["", 7, "r" * 501, "a\0b", "\ud800"],
        "listeners": [None, print, ["x"]],
        "deps": [{"db": 1}, [1]],
        "history": ["before", [3], [user(Image(data=wrong("x")))], [assistant(tool_call("x", id="1"))]],
    }
    for option, values in mistakes.items():
        for value in values:
            await _refused("(?i)key" if value == {"db": 1} else option, "go", **{option: value})


def test_a_misspelt_option_is_named() -> None:
    misspelt: Any = {"run_idd": "x"}
    with pytest.raises(TypeError, match="run_idd"):
        hello().run_sync("go", **misspelt)


def test_deps_reach_tools_instructions_and_nested_agents() -> None:
    async def look(ctx: Context) -> str:
        return ctx.scope[DB]

    inner = Agent(ScriptedModel(tool_call("look"), "in"), tools=[look], name="inner")
    model = ScriptedModel([tool_call("look", id="1"), tool_call("inner", input="x", id="2")], "out")
    outer = Agent(model, tools=[look, inner], instructions=lambda ctx: ctx.scope[DB])
    run = outer.run_sync("go", deps={DB: "sqlite"})
    assert run.observations == ("sqlite", "in")
    assert model.last.instructions == "sqlite"


def test_missing_deps_say_how_to_give_them() -> None:
    async def look(ctx: Context) -> str:
        return ctx.scope[DB]

    with pytest.raises(ConfigurationError, match=r"'db'.*deps="):
        Agent(ScriptedModel(tool_call("look"), "x"), tools=[look]).run_sync("go")


def test_the_same_id_and_request_give_the_same_run_and_another_request_is_refused() -> None:
    model = ScriptedModel("one", "two")
    agent = Agent(model, store="memory:")
    first = agent.run_sync("go", run_id="r")
    assert agent.run_sync("go", run_id="r") == replace(first, replayed=True)
    assert len(model.calls) == 1
    with pytest.raises(RunExists, match="'r'"):
        agent.run_sync("stop", run_id="r")
    assert agent.run_sync("go", run_id="s").text == "two"


# -- run_sync ----------------------------------------------------------------------------------------------------


async def test_run_sync_works_inside_a_running_loop() -> None:
    async def notebook() -> str:
        return hello().run_sync("go").text

    with assert_no_leaks():
        assert await notebook() == "hello"


async def test_run_sync_inside_a_running_loop_raises_what_goes_wrong() -> None:
    with pytest.raises(EmptyPrompt):
        hello().run_sync("")


def test_run_sync_in_the_thread_of_a_tool_joins_the_run() -> None:
    helper = Agent(ScriptedModel(always="helped"), name="helper")
    threads: list[str] = []

    def ask(q: str) -> str:
        threads.append(threading.current_thread().name)
        return helper.run_sync(q).text

    calls = [tool_call("ask", q=str(number), id=f"c{number}") for number in range(3)]
    heard: list[Event] = []
    run = Agent(ScriptedModel(calls, "done"), tools=[ask], budget=Budget(requests=5)).run_sync(
        "go", listeners=[heard.append]
    )
    assert run.observations == ("helped",) * 3
    assert run.model_calls == 5
    assert run.usage.requests == 5
    assert all(name.startswith("ziggurat") for name in threads)
    paths = {event.path for event in heard if isinstance(event, AgentEnded)}
    assert paths == {"agent", *(f"agent/step-1/tool-{number}:ask/helper" for number in (1, 2, 3))}


def test_many_threads_of_tools_may_wait_for_agents_that_need_threads() -> None:
    def leaf(n: int) -> int:
        return n

    inner = Agent(
        ScriptedModel(rules=[(lambda request: len(request.messages) == 1, tool_call("leaf", n=1))], always="in"),
        tools=[leaf],
        name="inner",
    )

    def ask(n: int) -> str:
        return inner.run_sync(str(n)).text

    calls = [tool_call("ask", n=n, id=f"c{n}") for n in range(100)]
    assert Agent(ScriptedModel(calls, "done"), tools=[ask]).run_sync("go").observations == ("in",) * 100


def test_run_sync_in_an_async_tool_is_an_error_that_says_what_to_do() -> None:
    async def ask(q: str) -> str:
        return hello().run_sync(q).text

    with pytest.raises(ConfigurationError, match="await"):
        Agent(ScriptedModel(tool_call("ask", q="x"), "done"), tools=[ask]).run_sync("go")


# -- within another run ------------------------------------------------------------------------------------------


def test_an_agent_called_in_a_tool_joins_the_run() -> None:
    helper = Agent(ScriptedModel(always="helped"), name="helper")

    async def ask(q: str) -> str:
        first = await helper.run(q)
        second = await helper.run(q)
        return f"{first.text} {second.text}"

    heard: list[Event] = []
    run = Agent(ScriptedModel(tool_call("ask", q="x"), "done"), tools=[ask]).run_sync("go", listeners=[heard.append])
    assert run.observations == ("helped helped",)
    assert run.model_calls == 4
    assert [event.path for event in heard if isinstance(event, AgentEnded)] == [
        "agent/step-1/tool-1:ask/helper",
        "agent/step-1/tool-1:ask/helper#2",
        "agent",
    ]


def test_a_run_within_another_cannot_have_an_id_of_its_own() -> None:
    helper = hello(name="helper")

    async def ask(how: str) -> str:
        if how == "stream":
            async with helper.stream("x", run_id="mine") as events:
                async for _ in events:
                    pass
            return "streamed"
        return (await helper.run("x", run_id="mine")).text

    for how in ("run", "stream"):
        with pytest.raises(ConfigurationError, match="detached=True"):
            Agent(ScriptedModel(tool_call("ask", how=how), "done"), tools=[ask]).run_sync("go")


def test_a_stream_within_another_run_joins_it_and_is_heard_by_its_listeners() -> None:
    helper = Agent(ScriptedModel(always=["hel", "ped"]), name="helper")
    mine: list[Event] = []
    here: list[Event] = []

    async def ask(q: str) -> str:
        async with helper.stream(q, listeners=[mine.append]) as events:
            async for event in events:
                here.append(event)
        return events.response.text

    run = Agent(ScriptedModel(tool_call("ask", q="x"), "done"), tools=[ask]).run_sync("go")
    assert run.observations == ("helped",)
    assert run.model_calls == 3
    assert mine == here != []


def test_detached_starts_a_run_of_its_own_and_is_told() -> None:
    helper = Agent(ScriptedModel(always="helped"), name="helper")
    ids: list[str] = []

    async def ask(q: str) -> str:
        run = await helper.run(q, detached=True, run_id="mine")
        ids.append(run.id)
        return run.text

    heard: list[Event] = []
    agent = Agent(ScriptedModel(tool_call("ask", q="x"), "done"), tools=[ask], budget=Budget(requests=2))
    run = agent.run_sync("go", listeners=[heard.append])
    assert ids == ["mine"]
    assert run.observations == ("helped",)
    assert run.model_calls == 2
    assert any(isinstance(event, Warned) and "detached" in event.text for event in heard)


# -- stream ------------------------------------------------------------------------------------------------------


async def test_listeners_hear_a_stream_too() -> None:
    heard: list[Event] = []

    read: list[Event] = []
    async with hello().stream("go", listeners=[heard.append]) as events:
        async for event in events:
            read.append(event)
    assert read == heard


async def test_the_response_before_the_end_is_an_error_that_says_so() -> None:
    async with hello().stream("go") as events:
        with pytest.raises(ConfigurationError, match="iterate"):
            _ = events.response


async def test_a_stream_is_read_within_its_block() -> None:
    with pytest.raises(ConfigurationError, match="block"):
        async for _ in hello().stream("go"):  # type: ignore[attr-defined]
            pass
    with pytest.raises(AttributeError, match=r"response.*block"):
        _ = hello().stream("go").response  # type: ignore[attr-defined]
    with pytest.raises(ConfigurationError, match="async for"):
        async with hello().stream("go") as events:
            for _ in events:
                pass


async def test_a_buffer_is_a_number_of_at_least_one() -> None:
    buffers: list[Any] = [0, -1, "x", 1.5, True]
    for buffer in buffers:
        with pytest.raises(ConfigurationError, match="buffer"):
            async with hello().stream("go", buffer=buffer):
                pass


async def test_a_stream_that_is_left_before_it_was_read_leaves_nothing() -> None:
    agent = hello(store="memory:")
    async with assert_no_leaks(), agent.stream("go", run_id="r"):
        pass
    assert (await agent.run("go", run_id="r")).text == "hello"


# -- layered -----------------------------------------------------------------------------------------------------


def test_layers_keep_the_front_and_the_name() -> None:
    agent = Agent(ScriptedModel(ConnectionError("gone"), "hello"), name="x", store="memory:")
    layered = agent.layered(retry(attempts=2, base=0.0), timeout(seconds=30))
    assert isinstance(layered, Runnable)
    assert layered.name == "x"
    assert repr(layered).startswith("retry(attempts=2, base=0.0) > timeout(seconds=30) > Agent(")
    run = layered.run_sync("go", run_id="r")
    assert run.text == "hello"
    assert layered.store is agent.store
    outer = Agent(
        ScriptedModel(tool_call("x", input="go"), "done"), tools=[hello(name="x").layered(timeout(seconds=9))]
    )
    assert outer.run_sync("go").observations == ("hello",)


def test_a_bad_layer_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="layers"):
        hello().layered(hello())  # type: ignore[arg-type]


def test_any_service_has_the_front() -> None:
    async def parrot(request: AgentRequest, ctx: Context) -> AgentRun:
        said = assistant(request.messages[-1].text)
        return AgentRun(Transcript.of(*request.messages, said), stops.Completed(), said.text, start=1)

    front = Runnable(parrot, store="memory:")
    assert front.name == "parrot"
    run = front.run_sync("hi", run_id="r")
    assert run.text == "hi"
    assert front.run_sync("hi", run_id="r") == replace(run, replayed=True)
    assert front.as_tool().spec.name == "parrot"
    outer = Agent(ScriptedModel(tool_call("parrot", input="x"), "done"), tools=[front])
    assert outer.run_sync("go").observations == ("x",)


def test_names_that_no_store_can_keep_and_objects_that_are_no_service_are_refused() -> None:
    names: list[Any] = ["", 3, "a\0b", "\ud800", "alt-1"]  # the last one is that of an alternative in records
    for name in names:
        with pytest.raises(ConfigurationError, match="name"):
            Runnable(Agent(ScriptedModel("x")), name=name)
    services: list[Any] = [None, 3, "agent", Agent]
    for service in services:
        with pytest.raises(ConfigurationError, match="service"):
            Runnable(service)


def test_a_model_that_looks_at_the_request_sees_the_whole_conversation() -> None:
    seen: list[int] = []

    def reply(request: ModelRequest) -> Any:
        seen.append(len(request.messages))
        return ["a", Pause(), "b"]

    Agent(ScriptedModel(always=reply)).run_sync("go", history=[user("x"), assistant("y")])
    assert seen == [3]


async def test_two_calls_with_one_id_made_before_either_is_awaited_are_one_run() -> None:
    model = ScriptedModel("first", "second")
    agent = Agent(model, store="memory:")
    both = agent.run("go", run_id="r"), agent.run("go", run_id="r")
    assert [(await each).text for each in both] == ["first", "first"]
    assert len(model.calls) == 1


def test_a_tool_that_makes_an_event_loop_for_another_agent_joins_the_run() -> None:
    helper = Agent(ScriptedModel("helped"), name="helper")

    @tool
    def ask_for_help() -> str:
        return asyncio.run(helper.run("help")).text

    agent = Agent(ScriptedModel(tool_call("ask_for_help"), "done"), tools=[ask_for_help])

    async def main() -> AgentRun:
        async with agent.stream("go", buffer=1) as events:
            async for _ in events:
                pass
        return events.response

    run = asyncio.run(main())
    assert (run.observations, run.model_calls) == (("helped",), 3)


def test_streaming_in_a_tool_that_is_not_async_is_refused_with_the_way_out() -> None:
    helper = Agent(ScriptedModel("helped"), name="helper")

    @tool
    def ask_for_help() -> str:
        helper.stream("help")
        return ""

    with pytest.raises(ConfigurationError, match="or make it async"):
        Agent(ScriptedModel(tool_call("ask_for_help"), "done"), tools=[ask_for_help]).run_sync("go")


def test_agents_that_an_approver_or_the_instructions_ask_are_part_of_the_run() -> None:
    helper = Agent(ScriptedModel(always="yes"), name="helper")

    async def judge(item: PendingItem) -> Approve:
        await helper.run("May it pay?")
        return Approve()

    async def instructed(ctx: Context) -> str:
        return (await helper.run("Who am I?")).text

    @tool(approval=True)
    async def pay() -> str:
        return "paid"

    rules = Approvals("pay", approver=judge)
    model = ScriptedModel(tool_call("pay"), "done")
    run = Agent(model, tools=[pay], approvals=rules, instructions=instructed).run_sync("go")
    assert (run.text, run.observations, run.model_calls) == ("done", ("paid",), 4)


# -- from history alone ------------------------------------------------------------------------------------------------


def test_a_history_is_answered_without_a_prompt() -> None:
    agent = Agent(ScriptedModel(always="Yes."))
    question = [user("Hi."), assistant("Hello."), user("Is it raining?")]
    for run in (agent.run_sync(history=question), asyncio.run(agent.run(history=question))):
        assert [message.text for message in run.messages] == ["Hi.", "Hello.", "Is it raining?", "Yes."]
        assert run.start == 3

    async def streamed() -> AgentRun[str]:
        async with agent.stream(history=question) as events:
            async for _ in events:
                pass
        return events.response

    assert asyncio.run(streamed()).text == "Yes."


def test_the_results_of_tools_are_answered_without_a_prompt() -> None:
    def look() -> str:
        return "rain"

    first = Agent(ScriptedModel(tool_call("look")), tools=[look], max_steps=1).run_sync("Weather?")
    assert Agent(ScriptedModel("It rains."), tools=[look]).run_sync(history=first.messages).text == "It rains."


@pytest.mark.parametrize("history", [(), (user("Hi."), assistant("Hello."))])
def test_a_history_that_ends_with_an_answer_needs_a_prompt(history: Any) -> None:
    with pytest.raises(EmptyPrompt, match="nothing to answer"):
        hello().run_sync(history=history)


def test_a_run_in_a_session_needs_a_prompt() -> None:
    with pytest.raises(ConfigurationError, match="needs a prompt"):
        Agent(ScriptedModel("x"), store="memory:").run_sync(history=[user("Hi.")], session="ada")


async def _text(request: AgentRequest, ctx: Context) -> str:
    return "hi"


@pytest.mark.parametrize(
    ("service", "returned"),
    [
        (_text, "_text returns str"),
        (stack(_text, retry()), "_text returns str"),
        (ScriptedModel("x"), "scripted returns ModelResponse"),
        (pipeline(Agent(ScriptedModel("x")), wrong(_text)), "returns str"),
    ],
)
def test_a_service_that_answers_with_something_else_is_refused_when_it_is_made(service: Any, returned: str) -> None:
    with pytest.raises(ConfigurationError, match=f"answers with an AgentRun, but .*{returned}"):
        Runnable(service)


@flow
async def double(number: int) -> int:
    return 2 * number


FRONTS = (hello(), double, hello().layered(), majority(hello(name="a"), hello(name="b")))


@pytest.mark.parametrize("front", FRONTS, ids=lambda front: type(front).__name__)
async def test_called_like_a_function_it_names_the_verbs(front: Any) -> None:
    calls: tuple[Callable[[], Any], ...] = (lambda: front(3), lambda: front(number=3), lambda: front("a", "b"), front)
    for call in calls:
        with pytest.raises(ConfigurationError, match=rf"await {front.name}\.run\("):
            await call()


@pytest.mark.parametrize("front", FRONTS, ids=lambda front: type(front).__name__)
@pytest.mark.parametrize(
    "attribute", ["name", "store", "inner", "facts", "instructions", "max_steps", "run", "nonsense"]
)
def test_an_attribute_is_not_set_later(front: Any, attribute: str) -> None:
    before = getattr(front, attribute, None)
    with pytest.raises(AttributeError, match=attribute):
        setattr(front, attribute, "other")
    assert getattr(front, attribute, None) == before


def test_a_subclass_has_attributes_of_its_own() -> None:
    class Desk(Agent[str]):
        opened = 0

        def __init__(self) -> None:  # with attributes before and after those of the agent
            self.city = "Ur"
            super().__init__(ScriptedModel("hi"), name="desk")
            self.opened = 1

    desk: Any = Desk()
    desk.opened += 1
    desk.city = "Uruk"
    assert (desk.opened, desk.city, desk.run_sync("go").text) == (2, "Uruk", "hi")
    for attribute in ("name", "settings", "model", "tools"):
        with pytest.raises(AttributeError, match=attribute):
            setattr(desk, attribute, "other")
