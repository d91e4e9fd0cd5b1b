"""The root of a run: what becomes a value, what is raised, and what is recorded."""

import asyncio
import gc
import logging
import weakref
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from msgspec.structs import replace

from tests.agents.support import assert_sendable, elsewhere
from tests.stores.records import dump_of, journal_of, plant
from ziggurat import (
    Agent,
    AgentRequest,
    AgentRun,
    ConfigurationError,
    Context,
    Event,
    Middleware,
    ToolResult,
    tool,
    user,
)
from ziggurat.core.codec import as_type
from ziggurat.errors import JournalCorrupt, ModelError
from ziggurat.events import AgentEnded
from ziggurat.journal.entries import Ended, Entered, Opened
from ziggurat.messages import Transcript, assistant, stops, tool_call, tool_message
from ziggurat.messages.agent import empty_run
from ziggurat.messages.prompts import request_of
from ziggurat.runs.drive import partial_of
from ziggurat.stores import InMemoryStore
from ziggurat.testing import ScriptedModel


def test_a_request_of_parts_and_messages() -> None:
    assert request_of("x") == AgentRequest((user("x"),))
    assert request_of(["a", "b"]) == AgentRequest((user("a", "b"),))
    assert request_of("x", Transcript.of(user("a"), assistant("b"))).messages == (user("a"), assistant("b"), user("x"))


@pytest.mark.parametrize(
    ("history", "told"),
    [
        ([assistant(tool_call("x", id="1")), user("y")], "MissingTool.*: 1"),
        (
            [assistant(tool_call("x", id="1"), tool_call("y", id="2")), tool_message(ToolResult("2", "y"))],
            "MissingTool.*: 1",
        ),
        ([tool_message(ToolResult("2", "y"))], "ToolBeforeAssistant.*'2'"),
        ([user("x"), assistant("y"), tool_message(ToolResult("2", "y"))], "ToolBeforeAssistant.*'2'"),
        (
            [
                assistant(tool_call("x", id="1"), tool_call("y", id="2")),
                tool_message(ToolResult("2", "y")),
                tool_message(ToolResult("1", "x")),
            ],
            "ToolResponsesOutOfOrder",
        ),
    ],
)
def test_a_history_that_no_model_would_take_is_refused(history: Any, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        request_of("go", history)
    with pytest.raises(ConfigurationError, match=told):
        request_of([*history, user("go")])


def test_the_record_of_a_run_begins_with_what_was_asked_and_ends_with_why_it_stopped() -> None:
    store = InMemoryStore()
    Agent(ScriptedModel("done"), store=store).run_sync("go", run_id="r")
    first, second, *_, last = journal_of(store, "r").entries
    assert isinstance(first, Opened)
    assert (first.run_id, as_type(first.request, AgentRequest)) == ("r", AgentRequest((user("go"),)))
    assert isinstance(second, Entered)
    assert isinstance(last, Ended)
    assert last.stop == "Completed"


async def test_what_the_hooks_left_of_the_request_is_what_a_resume_goes_on_with() -> None:
    class Stamp(Middleware):
        def __init__(self, word: str) -> None:
            self.word = word

        async def before_agent(self, request: AgentRequest, ctx: Context) -> AgentRequest:
            return AgentRequest((*request.messages, user(self.word)))

    def agent(store: InMemoryStore, model: ScriptedModel, word: str) -> Agent:
        return Agent(model, store=store, middleware=[Stamp(word)])

    store = InMemoryStore()
    failed = await agent(store, ScriptedModel(ModelError("down")), "one").run("go", run_id="r")
    store = elsewhere(store, "r")
    later = agent(store, ScriptedModel(lambda request: request.messages[-1].text), "two")
    again = await later.run("go", run_id="r")  # the same id and request as before the hooks: it has ended
    assert again == replace(failed, replayed=True)
    resumed = await later.resume("r")
    assert isinstance(failed.stop, stops.Failed)
    assert resumed.text == "one"


async def test_wrong_use_in_the_middle_is_raised_and_the_run_can_go_on() -> None:
    async def run() -> AgentRun:
        store = InMemoryStore()
        with pytest.raises(ConfigurationError, match="run out"):
            await Agent(ScriptedModel(tool_call("echo")), tools=[echo], store=store).run("go", run_id="r")
        return await Agent(ScriptedModel("done"), tools=[echo], store=elsewhere(store, "r")).resume("r")

    async def echo() -> str:
        return "x"

    assert (await run()).text == "done"


def test_a_record_that_cannot_be_read_is_an_error_that_names_the_entry() -> None:
    store = InMemoryStore()
    Agent(ScriptedModel("done"), store=store).run_sync("go", run_id="r")
    lines = dump_of(store, "r").splitlines(keepends=True)
    with pytest.raises(JournalCorrupt, match="entry 2"):
        plant(InMemoryStore(), "r", lines[0] + b"rubbish\n" + b"".join(lines[2:]))


def test_the_last_event_says_how_it_ended_whatever_happened() -> None:
    for model, kind in (
        (ScriptedModel("done"), stops.Completed),
        (ScriptedModel(ModelError("down")), stops.Failed),
        (ScriptedModel(tool_call("ask")), stops.Suspended),
    ):
        heard: list[Event] = []

        asking = tool(name="ask", approval=True)(lambda: "x")
        run = Agent(model, tools=[asking]).run_sync("go", listeners=[heard.append])
        assert isinstance(run.stop, kind)
        last = heard[-1]
        assert isinstance(last, AgentEnded)
        assert last.run == run
        assert last.path == "agent"


def test_the_part_of_a_run_that_an_error_carries() -> None:
    run = empty_run("x", AgentRequest((user("go"),)), stops.Cancelled(), "r")
    assert (run.id, run.agent, run.start) == ("r", "x", 1)
    inner, outer = ModelError("a"), ModelError("b")
    inner.partial = run
    outer.__cause__ = inner
    assert partial_of(inner) is partial_of(outer) is run
    assert partial_of(ModelError("c")) is None
    assert_sendable(run.messages)


@pytest.mark.parametrize("store", [None, "memory:"])
@pytest.mark.parametrize("reply", ["done", ValueError, tool_call("asked")])
def test_nothing_of_a_run_outlives_its_agent(store: str | None, reply: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "ziggurat")  # what is captured for a report would hold the traceback

    @tool(approval=True)
    async def asked() -> str:
        return "yes"

    agent = Agent(ScriptedModel(reply), tools=[asked], store=store)
    run = agent.run_sync("go")
    known: list[weakref.ref[Any]] = [weakref.ref(agent), weakref.ref(run)]
    del agent, run
    gc.collect()
    assert [each() for each in known] == [None, None]


@pytest.mark.parametrize("verb", ["run", "resume", "replay", "fork"])
async def test_a_task_that_is_cancelled_before_its_first_step_leaves_nothing(verb: str) -> None:
    agent = Agent(ScriptedModel(always="done"), store=InMemoryStore())
    await agent.run("go", run_id="r")
    begin: Callable[[], Coroutine[Any, Any, object]] = {
        "run": lambda: agent.run("go", run_id="s"),
        "resume": lambda: agent.resume("r"),
        "replay": lambda: agent.replay("r"),
        "fork": lambda: agent.fork("r", at=1),
    }[verb]
    task = asyncio.get_running_loop().create_task(begin())
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    gc.collect()  # a coroutine that nobody awaited would warn
