"""Replays: nothing is called, or only tools, or only models; differences are shown."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.stores.records import dump_of, plant
from ziggurat import (
    Agent,
    AgentRun,
    Approve,
    ConfigurationError,
    Context,
    Event,
    Middleware,
    ModelRequest,
    Runnable,
    Toolbox,
    ToolCall,
    tool,
)
from ziggurat.agents import AgentRequest, Answer
from ziggurat.agents.as_tool import AgentTool
from ziggurat.core import Service
from ziggurat.core.event import difference
from ziggurat.core.path import is_model_call
from ziggurat.errors import JournalMismatch, ModelError
from ziggurat.events import Diverged
from ziggurat.flows import ask, flow, gather, step
from ziggurat.journal.journal import LocalJournal
from ziggurat.messages import ToolResult, tool_call
from ziggurat.observe import Metrics
from ziggurat.plans import plan_execute
from ziggurat.runs.options import Live
from ziggurat.runs.runs import runs_of
from ziggurat.stops import Cancelled
from ziggurat.stores import InMemoryStore
from ziggurat.testing import ScriptedModel


class World:
    """An agent with an agent and a counter as tools, and a list of their actions."""

    def __init__(self) -> None:
        self.store = InMemoryStore()
        self.counted = 0
        self.step = 1
        self.model = ScriptedModel(tool_call("count"), tool_call("helper", input="help"), "Counted.")
        self.inner = ScriptedModel(tool_call("count"), "Helped.")

    def agent(self, **options: object) -> Agent:
        @tool(effect="once")
        def count() -> str:
            self.counted += self.step
            return f"first line\nnow {self.counted}\nlast line"

        helper = Agent(self.inner, tools=[count], name="helper", description="Help.")
        return Agent(self.model, tools=[count, AgentTool(helper)], store=self.store, **options)  # type: ignore[call-overload, no-any-return]


def again(world: World) -> World:
    fresh = World()
    plant(fresh.store, "r", dump_of(world.store, "r"))
    return fresh


async def test_nothing_is_called() -> None:
    world = World()
    run = await world.agent().run("Count", run_id="r")
    assert world.counted == 2
    other = again(world)
    assert (await other.agent().replay("r")).messages == run.messages
    assert (other.counted, other.model.calls, other.inner.calls) == (0, [], [])


async def test_tools_live_models_recorded() -> None:
    world = World()
    run = await world.agent().run("Count", run_id="r")
    other = again(world)
    before = dump_of(other.store, "r")
    assert (await other.agent().replay("r", live="tools")).messages == run.messages
    assert (other.counted, other.model.calls, other.inner.calls) == (2, [], [])
    assert dump_of(other.store, "r") == before


async def test_a_tool_that_answers_otherwise_is_shown_where_the_model_would_see_it() -> None:
    world = World()
    await world.agent().run("Count", run_id="r")
    other = again(world)
    other.step = 5
    with pytest.raises(JournalMismatch) as raised:
        await other.agent().replay("r", live="tools")
    told = str(raised.value).splitlines()
    assert told[0] == "first divergence at agent/step-2/model: message 3 of the question (tool)"
    assert {"-now 1", "+now 5", " last line"} <= set(told)
    events: list[Event] = []
    run = await other.agent().replay("r", live="tools", strict=False, listeners=[events.append])
    assert run.text == "Counted."
    diverged = [event for event in events if isinstance(event, Diverged)]
    assert [event.path for event in diverged][:1] == ["agent/step-2/model"]
    assert "+now 10" in diverged[0].diff


async def test_models_live_tools_recorded() -> None:
    world = World()
    run = await world.agent().run("Count", run_id="r")
    other = again(world)
    assert (await other.agent().replay("r", live="models")).messages == run.messages
    assert (other.counted, len(other.model.calls), len(other.inner.calls)) == (0, 3, 2)
    different = again(world)
    different.model = ScriptedModel(tool_call("count"), tool_call("count"), "Twice.")
    with pytest.raises(JournalMismatch, match="step-2/tool-1:count"):
        await different.agent().replay("r", live="models")
    assert different.counted == 0


@pytest.mark.parametrize("depth", [0, 1])
@pytest.mark.parametrize("live", ["nothing", "tools", "models"])
async def test_a_tool_that_has_ended_its_agent_is_replayed(live: Live, depth: int) -> None:
    @tool
    async def broken() -> str:
        raise ValueError("broken")

    model = ScriptedModel(always=tool_call("broken"))
    agent = Agent(model, tools=Toolbox([broken], on_error="raise"), name="inner", store="memory:")
    if depth:
        calls = tool_call("inner", input="x")
        model = ScriptedModel(rules=[(lambda request: len(request.messages) > 1, "done")], always=calls)
        agent = Agent(model, tools=[agent], store="memory:")
    run = await agent.run("go", run_id="r")
    replayed = await agent.replay("r", live=live)
    assert (replayed.stop, replayed.messages) == (run.stop, run.messages)
    assert (replayed.usage, replayed.tool_calls) == (run.usage, run.tool_calls)


async def test_a_word_that_is_none_is_refused() -> None:
    world = World()
    await world.agent().run("Count", run_id="r")
    with pytest.raises(ConfigurationError, match="nothing"):
        await world.agent().replay("r", live="everything")  # type: ignore[arg-type]


async def test_a_resumed_run_tells_what_changed_or_refuses_to_go_on() -> None:
    @tool(approval=True)
    def pay() -> str:
        return "paid"

    @tool
    def new() -> str:
        return ""

    store = InMemoryStore()
    old = Agent(ScriptedModel(tool_call("pay"), "Paid."), tools=[pay], instructions="Be\nbrief.", store=store)
    run = await old.run("Pay", run_id="r")
    decisions = {item.id: Approve() for item in run.pending}
    changed = Agent(ScriptedModel("Paid."), tools=[pay, new], instructions="Be\nformal.", store=store)
    elsewhere = InMemoryStore()
    plant(elsewhere, "r", dump_of(store, "r"))
    strict = Agent(changed.settings.model, tools=[pay, new], instructions="Be\nformal.", store=elsewhere)
    with pytest.raises(JournalMismatch, match=r"(?s)-brief.*[+]formal"):
        await strict.resume("r", strict=True)
    events: list[Event] = []
    went = await changed.resume("r", decisions, listeners=[events.append])
    assert went.text == "Paid."
    told = {event.what: event.diff for event in events if isinstance(event, Diverged)}
    assert "+formal." in told["instructions"]
    assert "new:" in told["tools"].splitlines()[1]


def test_long_differences_are_cut() -> None:
    shown = difference("\n".join(map(str, range(500))), "\n".join(map(str, range(500, 1000))))
    assert len(shown.splitlines()) == 61
    assert shown.splitlines()[-1].endswith("lines more")


def _goal(store: InMemoryStore, *replies: Any) -> Runnable[Any]:
    return plan_execute(ScriptedModel(*replies, always="never"), store=store)


def _group(store: InMemoryStore, *replies: Any) -> Runnable[Any]:
    helper = Agent(ScriptedModel(always="Yes."), name="helper")

    @flow(store=store)
    async def group() -> str:
        first, second = await gather(helper.run("one"), helper.run("two"))
        return first.text + second.text

    return group


def _nested(
    store: InMemoryStore, *replies: Any, says: str | Exception = "Yes.", middleware: Sequence[Middleware] = ()
) -> Runnable[Any]:
    helper = Agent(ScriptedModel(always=says), name="helper", description="Helps.")
    calls = [tool_call("helper", input=each) for each in "ab"]
    return Agent(ScriptedModel(calls, "Done."), tools=[helper], name="outer", store=store, middleware=middleware)


KINDS = {"plan": _goal, "group": _group, "nested": _nested}


@pytest.mark.parametrize("kind", sorted(KINDS))
async def test_a_record_that_was_cut_off_anywhere_is_replayed_up_to_there(kind: str) -> None:
    """As after a kill: the stop is Cancelled, nothing is pending, and what is on record is there."""
    made = KINDS[kind](InMemoryStore(), "1. Do it | tool:none", "done", "ACHIEVED 0.9\nfine")
    whole = await made.run(*([] if kind == "group" else ["go"]), run_id="r")
    entries = LocalJournal.load(await made.record("r")).entries
    for cut in range(1, len(entries)):
        if not any(is_model_call(entry.path) for entry in entries[cut:]):
            break  # all that the answer is made of is on record
        there = InMemoryStore()
        await runs_of(there).plant("r", made.name, entries[:cut])
        run = await KINDS[kind](there).replay("r")
        known = min(len(run.messages), len(whole.messages))
        assert (run.stop, run.pending, run.messages[:known]) == (Cancelled(), (), whole.messages[:known]), cut


class Seen(Middleware):
    """Keeps what its hooks are called with."""

    def __init__(self) -> None:
        self.seen: list[object] = []

    async def before_agent(self, request: AgentRequest, ctx: Context) -> None:
        self.seen.append(request)

    async def after_agent(self, run: AgentRun, ctx: Context) -> None:
        self.seen.append(run)

    async def before_model(self, request: ModelRequest, ctx: Context) -> None:
        self.seen.append(request)

    async def before_tool(self, call: ToolCall, ctx: Context) -> None:
        self.seen.append(call)

    async def wrap_tool(self, call: ToolCall, ctx: Context, tool: Service[ToolCall, ToolResult]) -> ToolResult:
        self.seen.append(call)
        return await tool(call, ctx)

    async def after_tool(self, result: ToolResult, ctx: Context) -> None:
        self.seen.append(result)


@pytest.mark.parametrize("says", ["Yes.", ModelError("down")])
async def test_hooks_and_metrics_hear_nothing_of_a_replay_wherever_its_record_ends(says: str | Exception) -> None:
    made = _nested(InMemoryStore(), says=says)
    await made.run("go", run_id="r")
    entries = LocalJournal.load(await made.record("r")).entries
    for cut in range(1, len(entries) + 1):
        there, hooks, metrics = InMemoryStore(), Seen(), Metrics()
        await runs_of(there).plant("r", made.name, entries[:cut])
        await _nested(there, says=says, middleware=[hooks, metrics]).replay("r")
        assert (hooks.seen, metrics.snapshot()["tools"]) == ([], {}), cut


@pytest.mark.parametrize("hook", ["before_agent", "after_agent"])
async def test_a_hook_that_waits_is_found_by_a_replay(hook: str) -> None:
    async def asks(self: Middleware, value: object, ctx: Context) -> None:
        await ask("Go on?")

    asking: type[Middleware] = type("Asking", (Middleware,), {hook: asks})
    agent = Agent(ScriptedModel("Done."), middleware=[asking()], store="memory:")
    run = await agent.run("go", run_id="r")
    assert [item.path for item in run.pending] == [f"agent/Asking.{hook}/ask"]
    assert (await agent.run("go", run_id="r")).pending == (await agent.replay("r")).pending == run.pending


async def test_calls_of_a_hook_after_a_flow_are_no_calls_that_the_flow_has_left_out() -> None:
    class Asks(Middleware):
        async def after_agent(self, run: AgentRun, ctx: Context) -> None:
            await noted("after")
            await ask("Done?")

    @step
    async def noted(what: str) -> str:
        return what

    @flow(store=InMemoryStore(), middleware=[Asks()])
    async def order() -> str:
        return await noted("within")

    run = await order.run(run_id="r")
    assert (await order.replay("r")).pending == run.pending
    run = await order.resume("r", {run.pending[0].id: Answer("yes")})
    assert (run.output, (await order.replay("r")).output) == ("within", "within")
