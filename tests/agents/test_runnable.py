"""The front: run, run_sync, stream, start, resume, replay, layered; and what each says of wrong use."""

import asyncio
import threading
from typing import Any

import pytest

from tests.agents.support import assert_sendable, elsewhere, turns
from ziggurat.agents.agent import Agent
from ziggurat.agents.runnable import Runnable
from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError, JournalMismatch, ModelError, RunExists, RunNotFound
from ziggurat.core.event import Event
from ziggurat.core.scope import Key
from ziggurat.layers.retry import retry
from ziggurat.layers.timeout import timeout
from ziggurat.messages import stops
from ziggurat.messages.agent import AgentRequest, AgentRun, Approve, Deny, Modify
from ziggurat.messages.budget import Budget
from ziggurat.messages.conversation import Transcript
from ziggurat.messages.events import AgentEnded, ModelEnded, Warned
from ziggurat.messages.message import assistant, user
from ziggurat.messages.model import ModelRequest
from ziggurat.messages.parts import Image, Text, tool_call
from ziggurat.models.scripted import PAUSE, ScriptedModel
from ziggurat.stores.memory import MemoryStore
from ziggurat.testing.leaks import assert_no_leaks
from ziggurat.tools.function import tool

DB: Key[str] = Key("db")


def _hello(**options: Any) -> Agent:
    return Agent(ScriptedModel(always="hello"), **options)


@tool(approval=True)
async def send(to: str) -> str:
    """Send."""
    return f"sent to {to}"


def _sender(store: MemoryStore | None = None) -> Agent:
    return Agent(ScriptedModel(rules=[("go", tool_call("send", to="x"))], always="done"), tools=[send], store=store)


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
    assert list(_hello().run_sync(prompt).messages[:-1]) == expected


@pytest.mark.parametrize(
    ("prompt", "told"),
    [
        ("", "the prompt is empty"),
        ("  \n", "the prompt is empty"),
        ([], "prompt must be text"),
        (None, "prompt must be text"),
        (3, "prompt must be text"),
        (b"bytes", "text and parts|prompt must be text"),
        ([3], "text and parts"),
        ([user("a"), None], "text and parts"),
        ({"role": "user"}, "prompt must be text"),
        ([""], "empty"),
        ([Text("  ")], "empty"),
        (user(), "empty"),
        ([user("a"), user()], "empty"),
    ],
    ids=repr,
)
def test_bad_prompts_are_refused_at_every_door_and_nothing_is_written(prompt: Any, told: str) -> None:
    store = MemoryStore()
    agent = _hello(store=store)
    with pytest.raises(ConfigurationError, match=told):
        agent.run_sync(prompt, run_id="r")

    async def run() -> None:
        with pytest.raises(ConfigurationError, match=told):
            await agent.run(prompt, run_id="r")
        with pytest.raises(ConfigurationError, match=told):
            async with agent.stream(prompt, run_id="r"):
                pass
        with pytest.raises(ConfigurationError, match=told):
            agent.start(prompt, run_id="r")

    asyncio.run(run())
    assert store.runs() == ()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"run_id": ""}, "run_id"),
        ({"run_id": 7}, "run_id"),
        ({"deps": {"db": 1}}, "make one with"),
        ({"deps": [1]}, "deps maps keys"),
        ({"listeners": print}, "listeners"),
        ({"listeners": ["x"]}, "listeners"),
        ({"history": "before"}, "history"),
        ({"history": [3]}, "history"),
        ({"history": [assistant(tool_call("x", id="1"))]}, "history"),
    ],
    ids=repr,
)
def test_bad_options_are_refused_at_every_door_and_nothing_is_written(options: dict[str, Any], told: str) -> None:
    store = MemoryStore()
    agent = _hello(store=store)
    with pytest.raises(ConfigurationError, match=told):
        agent.run_sync("go", **options)

    async def run() -> None:
        with pytest.raises(ConfigurationError, match=told):
            async with agent.stream("go", **options):
                pass

    asyncio.run(run())
    assert store.runs() == ()


def test_a_misspelt_option_is_named() -> None:
    with pytest.raises(TypeError, match="run_idd"):
        _hello().run_sync("go", run_idd="x")


def test_deps_reach_tools_instructions_and_nested_agents() -> None:
    async def look(ctx: Context) -> str:
        """Look."""
        return ctx.scope[DB]

    inner = Agent(ScriptedModel(tool_call("look"), "in"), tools=[look], name="inner")
    model = ScriptedModel([tool_call("look", id="1"), tool_call("inner", input="x", id="2")], "out")
    outer = Agent(model, tools=[look, inner], instructions=lambda ctx: ctx.scope[DB])
    run = outer.run_sync("go", deps={DB: "sqlite"})
    assert run.observations == ("sqlite", "in")
    assert model.last.instructions == "sqlite"


def test_missing_deps_say_how_to_give_them() -> None:
    async def look(ctx: Context) -> str:
        """Look."""
        return ctx.scope[DB]

    run = Agent(ScriptedModel(tool_call("look"), "x"), tools=[look]).run_sync("go")
    assert "deps=" in run.observations[0]
    assert "'db'" in run.observations[0]


def test_the_same_id_and_request_give_the_same_run_and_another_request_is_refused() -> None:
    model = ScriptedModel("one", "two")
    agent = Agent(model, store="memory:")
    first = agent.run_sync("go", run_id="r")
    assert agent.run_sync("go", run_id="r") == first
    assert len(model.calls) == 1
    with pytest.raises(RunExists, match="'r'"):
        agent.run_sync("stop", run_id="r")
    assert agent.run_sync("go", run_id="s").text == "two"


# -- run_sync ----------------------------------------------------------------------------------------------------


def test_run_sync_works_inside_a_running_loop() -> None:
    async def notebook() -> str:
        return _hello().run_sync("go").text

    with assert_no_leaks():
        assert asyncio.run(notebook()) == "hello"


def test_run_sync_inside_a_running_loop_raises_what_goes_wrong() -> None:
    async def notebook() -> None:
        with pytest.raises(ConfigurationError, match="empty"):
            _hello().run_sync("")

    asyncio.run(notebook())


def test_run_sync_in_the_thread_of_a_tool_joins_the_run() -> None:
    helper = Agent(ScriptedModel(always="helped"), name="helper")
    threads: list[str] = []

    def ask(q: str) -> str:
        """Ask."""
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
        """Be a leaf."""
        return n

    inner = Agent(
        ScriptedModel(rules=[(lambda request: len(request.messages) == 1, tool_call("leaf", n=1))], always="in"),
        tools=[leaf],
        name="inner",
    )

    def ask(n: int) -> str:
        """Ask."""
        return inner.run_sync(str(n)).text

    calls = [tool_call("ask", n=n, id=f"c{n}") for n in range(100)]
    assert Agent(ScriptedModel(calls, "done"), tools=[ask]).run_sync("go").observations == ("in",) * 100


def test_run_sync_in_an_async_tool_is_an_error_that_says_what_to_do() -> None:
    async def ask(q: str) -> str:
        """Ask."""
        return _hello().run_sync(q).text

    run = Agent(ScriptedModel(tool_call("ask", q="x"), "done"), tools=[ask]).run_sync("go")
    assert "await" in run.observations[0]
    assert run.text == "done"


# -- within another run ------------------------------------------------------------------------------------------


def test_an_agent_called_in_a_tool_joins_the_run() -> None:
    helper = Agent(ScriptedModel(always="helped"), name="helper")

    async def ask(q: str) -> str:
        """Ask."""
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
    helper = _hello(name="helper")

    async def ask(how: str) -> str:
        """Ask."""
        if how == "stream":
            async with helper.stream("x", run_id="mine") as events:
                async for _ in events:
                    pass
            return "streamed"
        return (await helper.run("x", run_id="mine")).text

    for how in ("run", "stream"):
        run = Agent(ScriptedModel(tool_call("ask", how=how), "done"), tools=[ask]).run_sync("go")
        assert "detached=True" in run.observations[0]


def test_a_stream_within_another_run_joins_it_and_is_heard_by_its_listeners() -> None:
    helper = Agent(ScriptedModel(always=["hel", "ped"]), name="helper")
    mine: list[Event] = []
    here: list[Event] = []

    async def ask(q: str) -> str:
        """Ask."""
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
        """Ask."""
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


def test_listeners_hear_a_stream_too() -> None:
    heard: list[Event] = []

    async def run() -> list[Event]:
        read: list[Event] = []
        async with _hello().stream("go", listeners=[heard.append]) as events:
            async for event in events:
                read.append(event)
        return read

    assert asyncio.run(run()) == heard


def test_the_response_before_the_end_is_an_error_that_says_so() -> None:
    async def run() -> None:
        async with _hello().stream("go") as events:
            with pytest.raises(ConfigurationError, match="iterate"):
                _ = events.response

    asyncio.run(run())


@pytest.mark.parametrize("buffer", [0, -1, "x", 1.5, True])
def test_a_bad_buffer_is_refused(buffer: Any) -> None:
    async def run() -> None:
        with pytest.raises(ConfigurationError, match="buffer"):
            async with _hello().stream("go", buffer=buffer):
                pass

    asyncio.run(run())


def test_a_stream_that_is_left_before_it_was_read_leaves_nothing() -> None:
    async def run() -> None:
        agent = _hello(store="memory:")
        async with assert_no_leaks(), agent.stream("go", run_id="r"):
            pass
        assert (await agent.run("go", run_id="r")).text == "hello"

    asyncio.run(run())


# -- resume ------------------------------------------------------------------------------------------------------


def test_resume_with_each_decision() -> None:
    async def run() -> None:
        for decision, told in (
            (Approve(), "sent to x"),
            (Deny("too late"), "denied: too late"),
            (Modify('{"to": "y"}'), "sent to y"),
        ):
            store = MemoryStore()
            suspended = await _sender(store).run("go", run_id="r")
            assert suspended.stop == stops.Suspended()
            (item,) = suspended.pending
            went = await _sender(elsewhere(store, "r")).resume("r", {item.id: decision})
            assert went.observations == (told,)
            assert went.text == "done"
            assert_sendable(went.messages)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("decisions", "told"),
    [
        ({"nothing": Approve()}, "waiting: "),
        ("all", "decisions"),
        (["x"], "decisions"),
        (True, r"Approve\(\)"),
        ("approve", r"Approve\(\)"),
        ('{"to": 3', "decision"),
    ],
    ids=str,
)
def test_a_bad_decision_is_refused_and_nothing_is_written(decisions: Any, told: str) -> None:
    async def run() -> None:
        store = MemoryStore()
        agent = _sender(store)
        suspended = await agent.run("go", run_id="r")
        (item,) = suspended.pending
        given = decisions
        if decisions is True or decisions == "approve":
            given = {item.id: decisions}
        before = store.dump("r")
        with pytest.raises(ConfigurationError, match=told):
            await agent.resume("r", given)
        with pytest.raises(ConfigurationError):
            await agent.resume("r", {item.id: Approve(), "nothing": Approve()})
        with pytest.raises(ConfigurationError):
            await agent.resume("r", {item.id: Approve()}, deps={"x": 1})  # type: ignore[dict-item]
        with pytest.raises(ConfigurationError):
            await agent.resume("r", {item.id: Approve()}, listeners=[3])  # type: ignore[list-item]
        assert store.dump("r") == before
        assert (await agent.resume("r", {item.id: Approve()})).text == "done"
        with pytest.raises(ConfigurationError, match="waiting: nothing"):
            await agent.resume("r", {item.id: Approve()})

    asyncio.run(run())


def test_modified_arguments_that_do_not_fit_are_told_to_the_model() -> None:
    async def run() -> AgentRun:
        agent = _sender()
        suspended = await agent.run("go")
        return await agent.resume(suspended.id, {suspended.pending[0].id: Modify('{"to": 3, "cc": 1}')})

    went = asyncio.run(run())
    assert went.messages[2].tool_results[0].error == "invalid_arguments"


def test_a_resume_without_a_decision_waits_on() -> None:
    async def run() -> None:
        agent = _sender()
        suspended = await agent.run("go")
        again = await agent.resume(suspended.id)
        assert (again.stop, again.pending, again.messages) == (suspended.stop, suspended.pending, suspended.messages)

    asyncio.run(run())


@pytest.mark.parametrize("run_id", ["nothing", "", None, 3])
def test_an_unknown_run_says_which_are_known(run_id: Any) -> None:
    agent = _hello(store="memory:")
    agent.run_sync("go", run_id="known")
    for door in (agent.resume, agent.replay):
        with pytest.raises(RunNotFound, match="known"):
            asyncio.run(door(run_id))


def test_a_run_of_another_agent_is_refused() -> None:
    store = MemoryStore()
    _hello(store=store, name="one").run_sync("go", run_id="r")
    for door in (_hello(store=store, name="two").resume, _hello(store=store, name="two").replay):
        with pytest.raises(RunNotFound, match="'two'"):
            asyncio.run(door("r"))


def test_finished_runs_without_a_store_are_not_kept() -> None:
    agent = _hello()
    run = agent.run_sync("go")
    with pytest.raises(RunNotFound, match="memory:"):
        asyncio.run(agent.resume(run.id))


def test_a_failed_run_goes_on_where_it_failed() -> None:
    model = ScriptedModel(tool_call("echo"), ModelError("overloaded"), "done")
    called: list[str] = []

    async def echo() -> str:
        """Echo."""
        called.append("x")
        return "x"

    async def run() -> tuple[AgentRun, AgentRun]:
        agent = Agent(model, tools=[echo])
        failed = await agent.run("go")
        return failed, await agent.resume(failed.id)

    failed, resumed = asyncio.run(run())
    assert isinstance(failed.stop, stops.Failed)
    assert resumed.text == "done"
    assert called == ["x"]
    assert len(model.calls) == 3


def test_two_resumes_at_once_do_not_both_run() -> None:
    did: list[str] = []

    @tool(approval=True, effect="once")
    async def pay() -> str:
        """Pay."""
        did.append("paid")
        await turns(3)
        return "paid"

    async def run() -> list[Any]:
        agent = Agent(ScriptedModel(rules=[("go", tool_call("pay"))], always="done"), tools=[pay], store="memory:")
        suspended = await agent.run("go", run_id="r")
        decisions = {item.id: Approve() for item in suspended.pending}
        return await asyncio.gather(
            agent.resume("r", decisions), agent.resume("r", decisions), agent.resume("r"), return_exceptions=True
        )

    first, second, third = asyncio.run(run())
    assert did == ["paid"]
    assert first.text == "done"
    assert isinstance(second, ConfigurationError)
    assert isinstance(third, ConfigurationError)


# -- replay ------------------------------------------------------------------------------------------------------


def test_replay_calls_nothing_and_gives_the_same_run() -> None:
    async def echo(text: str) -> str:
        """Echo."""
        return text

    def agent(model: ScriptedModel, store: MemoryStore) -> Agent:
        return Agent(model, tools=[echo], store=store)

    store = MemoryStore()
    run = agent(ScriptedModel(tool_call("echo", text="a"), "done"), store).run_sync("go", run_id="r")
    unused = ScriptedModel("never")
    again = asyncio.run(agent(unused, elsewhere(store, "r")).replay("r"))
    assert again == run
    assert unused.calls == []


def test_replay_shows_the_first_difference() -> None:
    store = MemoryStore()
    Agent(ScriptedModel("done"), store=store).run_sync("go", run_id="r")
    other = Agent(ScriptedModel("x", name="other"), store=store)
    with pytest.raises(JournalMismatch, match="agent"):
        asyncio.run(other.replay("r"))


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
        ScriptedModel(tool_call("x", input="go"), "done"), tools=[_hello(name="x").layered(timeout(seconds=9))]
    )
    assert outer.run_sync("go").observations == ("hello",)


def test_a_bad_layer_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="layers"):
        _hello().layered(_hello())  # type: ignore[arg-type]


def test_any_service_has_the_front() -> None:
    async def parrot(request: AgentRequest, ctx: Context) -> AgentRun:
        said = assistant(request.messages[-1].text)
        return AgentRun(Transcript.of(*request.messages, said), stops.Completed(), said.text, start=1)

    front = Runnable(parrot, store="memory:")
    assert front.name == "parrot"
    run = front.run_sync("hi", run_id="r")
    assert run.text == "hi"
    assert front.run_sync("hi", run_id="r") == run
    assert front.as_tool().spec.name == "parrot"
    outer = Agent(ScriptedModel(tool_call("parrot", input="x"), "done"), tools=[front])
    assert outer.run_sync("go").observations == ("x",)


@pytest.mark.parametrize("service", [None, 3, "agent"])
def test_what_is_no_service_is_refused(service: Any) -> None:
    with pytest.raises(ConfigurationError, match="service"):
        Runnable(service)


def test_listeners_hear_a_replayed_answer_on_resume() -> None:
    async def run() -> list[Event]:
        heard: list[Event] = []
        agent = _sender()
        suspended = await agent.run("go")
        await agent.resume(suspended.id, {suspended.pending[0].id: Approve()}, listeners=[heard.append])
        return heard

    replayed = [event.replayed for event in asyncio.run(run()) if isinstance(event, ModelEnded)]
    assert replayed == [True, False]


def test_a_model_that_looks_at_the_request_sees_the_whole_conversation() -> None:
    seen: list[int] = []

    def reply(request: ModelRequest) -> Any:
        seen.append(len(request.messages))
        return ["a", PAUSE, "b"]

    Agent(ScriptedModel(always=reply)).run_sync("go", history=[user("x"), assistant("y")])
    assert seen == [3]
