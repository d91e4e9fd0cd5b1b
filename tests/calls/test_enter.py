"""Entering an agent: hooks, the record, what is inherited, and what a `wrap_agent` may do with the agent."""

import asyncio
from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest
from msgspec.structs import replace

from tests.agents.support import elsewhere
from tests.hard_cases.support import ByTurn
from tests.samples import rows
from tests.stores.places import new_store
from tests.stores.records import journal_of
from ziggurat import AgentRun, Approve, Image, Middleware, ModelRequest, ModelResponse, Usage, tool, user
from ziggurat.agents import Agent, AgentRequest, Answer, Environment
from ziggurat.calls.enter import enter
from ziggurat.core import Context, Service, root
from ziggurat.core.context import JOURNAL, RUN_ID, Scope
from ziggurat.errors import ConfigurationError, JournalMismatch, ModelError, Timeout
from ziggurat.events import AgentEnded, AgentStarted, Diverged, Event, MiddlewareCompleted, MiddlewareStarted
from ziggurat.flows import Flow, ask, flow
from ziggurat.journal import LocalJournal
from ziggurat.journal.entries import Entered, Result
from ziggurat.layers import retry
from ziggurat.messages import Message, Transcript, assistant, stops, tool_call
from ziggurat.messages.agent import Decisions
from ziggurat.middleware import Redaction
from ziggurat.stores import InMemoryStore
from ziggurat.testing import HandClock, ScriptedModel, run_until_idle


class Watch(Middleware):
    """Records which agent hooks are called, and where."""

    def __init__(self, name: str, seen: list[str]) -> None:
        self.title = name
        self.seen = seen

    @property
    def name(self) -> str:
        return self.title

    async def before_agent(self, request: AgentRequest, ctx: Context) -> None:
        self.seen.append(f"{self.title} before {ctx.path}")

    async def after_agent(self, run: AgentRun, ctx: Context) -> None:
        self.seen.append(f"{self.title} after {ctx.path}")

    async def wrap_agent(self, request: AgentRequest, ctx: Context, agent: Service[AgentRequest, AgentRun]) -> AgentRun:
        self.seen.append(f"{self.title} in {ctx.path}")
        try:
            return await agent(request, ctx)
        finally:
            self.seen.append(f"{self.title} out {ctx.path}")

    async def on_error(self, error: BaseException, ctx: Context) -> None:
        self.seen.append(f"{self.title} error {error}")


def test_hooks_are_inherited_by_agents_beneath_and_those_of_these_stand_inside() -> None:
    seen: list[str] = []
    inner = Agent(ScriptedModel("in"), name="inner", middleware=[Watch("b", seen)])
    outer = Agent(ScriptedModel(tool_call("inner", input="x"), "out"), tools=[inner], middleware=[Watch("a", seen)])
    outer.run_sync("go")
    path = "agent/step-1/tool-1:inner/inner"
    assert [each for each in seen if each.endswith(path)] == [
        f"a before {path}", f"b before {path}", f"a in {path}", f"b in {path}", f"b out {path}", f"a out {path}",
        f"b after {path}", f"a after {path}",
    ]  # fmt: skip
    assert not [each for each in seen if each.startswith("b") and not each.endswith(path)]


def test_hooks_may_change_what_goes_in_and_out() -> None:
    class Change(Middleware):
        async def before_agent(self, request: AgentRequest, ctx: Context) -> AgentRequest:
            return AgentRequest((user("changed"),))

        async def after_agent(self, run: AgentRun, ctx: Context) -> AgentRun:
            return replace(run, output=f"{run.output}!")

    run = Agent(ScriptedModel(always=lambda request: request.messages[0].text), middleware=[Change()]).run_sync("go")
    assert (run.output, run.text, run.messages[run.start].text) == ("changed!", "changed", "changed")


def test_an_error_is_told_once_to_each_however_far_it_flies() -> None:
    seen: list[str] = []
    inner = Agent(ScriptedModel(ModelError("down")), name="inner")
    outer = Agent(
        ScriptedModel(tool_call("inner", input="x"), "out"),
        tools=[inner],
        middleware=[Watch("a", seen), Watch("b", seen)],
    )
    assert outer.run_sync("go").text == "out"
    assert [each for each in seen if "error" in each] == ["a error down", "b error down"]


def test_a_hook_that_raises_ends_the_agent_and_is_told() -> None:
    class Broken(Middleware):
        async def after_agent(self, run: AgentRun, ctx: Context) -> None:
            raise ValueError("no")

    seen: list[str] = []
    run = Agent(ScriptedModel("x"), middleware=[Broken(), Watch("a", seen)]).run_sync("go")
    assert run.stop == stops.Failed("no", "ValueError")
    assert "a error no" in seen


def test_events_of_hooks_are_told_to_who_listens() -> None:
    heard: list[Event] = []
    Agent(ScriptedModel("x"), middleware=[Watch("a", [])]).run_sync("go", listeners=[heard.append])
    hooks = [(type(each), each.hook) for each in heard if isinstance(each, (MiddlewareStarted, MiddlewareCompleted))]
    ends = (MiddlewareStarted, MiddlewareCompleted)
    assert hooks == [(end, hook) for hook in ("before_agent", "after_agent") for end in ends]


def _nested(store: InMemoryStore, seen: list[str], **changes: Any) -> Agent:
    @tool(approval=True)
    async def sign() -> str:
        return "signed"

    async def look() -> str:
        seen.append("looked")
        return "seen"

    calls = [tool_call("done", input="x", id="1"), tool_call("waits", input="y", id="2")]
    done = Agent(ByTurn(tool_call("look"), "was done"), tools=[look], name="done")
    waits = Agent(ByTurn(tool_call("sign"), "has waited"), tools=[sign], name="waits")
    return Agent(ByTurn(calls, "all"), tools=[done, waits], store=store, middleware=[Watch("a", seen)], **changes)


async def test_an_agent_that_ended_is_answered_from_the_record_and_hooks_before_run_once() -> None:
    store, before, after = InMemoryStore(), list[str](), list[str]()
    suspended = await _nested(store, before).run("go", run_id="r")
    decisions = {item.id: Approve() for item in suspended.pending}
    went = await _nested(elsewhere(store, "r"), after).resume("r", decisions)
    assert went.text == "all"
    assert went.observations == ("was done", "has waited")
    assert before.count("looked") == 1
    assert "looked" not in after
    assert not [each for each in after if "before" in each]  # the request is recorded as changed by the hooks
    assert not [each for each in after if each.endswith("done/done")]
    assert [each for each in after if "after" in each] == ["a after agent/step-1/tool-2:waits/waits", "a after agent"]
    assert (went.model_calls, went.tool_calls, went.usage.requests) == (6, 4, 6)


async def test_one_that_was_cancelled_right_away_in_a_journal_of_ones_own_is_entered_once() -> None:
    seen: list[str] = []
    hanging = True

    async def model(request: ModelRequest, ctx: Context) -> ModelResponse:
        if hanging:
            await asyncio.Event().wait()
        return ModelResponse(assistant("done"))

    agent = Agent(model, middleware=[Watch("a", seen)])
    journal = LocalJournal()
    scope = Scope().with_values({JOURNAL: journal, RUN_ID: "r"})
    task = asyncio.create_task(enter(agent, AgentRequest((user("go"),)), root("agent", scope)))
    await run_until_idle()
    task.cancel()
    await asyncio.wait([task])
    hanging = False
    again = await enter(agent, AgentRequest((user("go"),)), root("agent", scope))
    assert again.text == "done"
    assert [entry.kind for entry in journal.entries] == ["Entered", "Unanswered", "Result", "Result"]
    assert seen.count("a before agent") == 1


async def test_what_an_agent_is_made_of_may_change_between_and_is_told() -> None:
    store, heard = InMemoryStore(), list[Event]()
    suspended = await _nested(store, []).run("go", run_id="r")
    decisions = {item.id: Approve() for item in suspended.pending}
    later = _nested(elsewhere(store, "r"), [], instructions="Now be brief.")
    assert (await later.resume("r", decisions, listeners=[heard.append])).text == "all"
    diverged = [event for event in heard if isinstance(event, Diverged)]
    assert [(event.path, event.what, event.asked) for event in diverged] == [("agent", "instructions", "Now be brief.")]


def _paying(store: InMemoryStore, prompt: str, waits: bool, middleware: Sequence[Middleware] = ()) -> Flow[Any, str]:
    """Return a flow that waits in its agent, or after that."""

    @tool(approval=True)
    async def sign() -> str:
        return "signed"

    model = ByTurn(tool_call("sign"), "paid") if waits else ScriptedModel(always="paid")
    ann = Agent(model, tools=[sign], name="ann", middleware=middleware)

    @flow(store=store)
    async def pay() -> str:
        return (await ann.run(prompt)).text + ("" if waits else await ask("Really?"))

    return pay


@pytest.mark.parametrize("waits", [False, True])
async def test_another_prompt_of_an_agent_in_a_flow_is_told_or_refused(waits: bool) -> None:
    store, heard = InMemoryStore(), list[Event]()
    run = await _paying(store, "Pay Ada 5", waits).run(run_id="r")
    decisions: Decisions = {item.id: Approve() if waits else Answer("") for item in run.pending}
    changed = _paying(elsewhere(store, "r"), "Pay Bob 5000", waits)
    with pytest.raises(JournalMismatch, match=r"(?s)pay/ann.*Ada 5.*Bob 5000"):
        await changed.resume("r", decisions, strict=True)
    with pytest.raises(JournalMismatch, match=r"(?s)pay/ann.*Ada 5.*Bob 5000"):
        await changed.replay("r")
    run = await changed.resume("r", decisions, listeners=[heard.append])
    told = [(event.path, event.recorded, event.asked) for event in heard if isinstance(event, Diverged)]
    assert (run.text, told) == ("paid", [("pay/ann", "Pay Ada 5", "Pay Bob 5000")])


class Numbered(Middleware):
    """Gives each request a number that no other one has."""

    numbers = count()

    async def before_agent(self, request: AgentRequest, ctx: Context) -> AgentRequest:
        return AgentRequest((user(f"{next(self.numbers)}: {request.messages[0].text}"),))


@pytest.mark.parametrize("middleware", [Redaction(), Numbered()])
@pytest.mark.parametrize("waits", [False, True])
async def test_a_request_that_hooks_have_changed_is_no_other_one(waits: bool, middleware: Middleware) -> None:
    store = InMemoryStore()
    run = await _paying(store, "Pay ada@example.org", waits, [middleware]).run(run_id="r")
    decisions: Decisions = {item.id: Approve() if waits else Answer("") for item in run.pending}
    again = _paying(elsewhere(store, "r"), "Pay ada@example.org", waits, [middleware])
    assert (await again.resume("r", decisions, strict=True)).text == "paid"
    assert (await again.replay("r")).text == "paid"


async def test_a_picture_in_a_prompt_is_compared() -> None:
    def shows(picture: bytes) -> Flow[Any, str]:
        ann = Agent(ScriptedModel(always="seen"), name="ann")

        @flow(store=store)
        async def show() -> str:
            return (await ann.run([Image(picture, "image/png")])).text

        return show

    store = InMemoryStore()
    await shows(b"one").run(run_id="r")
    assert (await shows(b"one").replay("r")).text == "seen"
    with pytest.raises(JournalMismatch, match="show/ann"):
        await shows(b"two").replay("r")


def test_entries_of_agents() -> None:
    store = InMemoryStore()
    Agent(ScriptedModel("x"), store=store, name="a/b").run_sync("go", run_id="r")
    entered = [entry for entry in journal_of(store, "r").entries if isinstance(entry, Entered)]
    results = [entry for entry in journal_of(store, "r").entries if isinstance(entry, Result)]
    assert [(entry.path, entry.name) for entry in entered] == [("a%2Fb", "a/b")]
    assert [entry.path for entry in results] == ["a%2Fb/step-1/model", "a%2Fb"]


def test_a_finished_run_that_is_asked_for_again_tells_how_it_ended() -> None:
    heard: list[Event] = []
    agent = Agent(ScriptedModel("x"), store="memory:")
    first = agent.run_sync("go", run_id="r")
    assert agent.run_sync("go", run_id="r", listeners=[heard.append]) == replace(first, replayed=True)
    assert [type(event) for event in heard if isinstance(event, (AgentStarted, AgentEnded))] == [AgentEnded]


async def test_a_layer_that_tries_an_agent_again_has_no_call_made_twice() -> None:
    asked, added = list[int](), list[int]()

    @tool
    async def add(number: int) -> int:
        added.append(number)
        return sum(added)

    async def model(request: ModelRequest, ctx: Context) -> ModelResponse:
        asked.append(len(request.messages))
        if len(request.messages) == 1:
            return ModelResponse(assistant(tool_call("add", number=7)), "tool_calls")
        if asked.count(3) == 1:
            raise ModelError("busy", transient=True)
        return ModelResponse(assistant("done"))

    agent = Agent(model, tools=[add]).layered(retry(attempts=2))
    run = await agent.run("go", environment=Environment(clock=HandClock(auto=True)))
    assert run.text == "done"
    assert (asked, added) == ([1, 3, 3], [7])
    assert (run.model_calls, run.tool_calls) == (3, 1)  # the failed try counts


class Race(Middleware):
    """Asks an agent twice at the same time, and takes the first answer."""

    async def wrap_agent(self, request: AgentRequest, ctx: Context, agent: Any) -> AgentRun:
        tasks = [asyncio.ensure_future(agent(request, ctx.under(f"alt-{number}"))) for number in (1, 2)]
        done, lost = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in lost:
            task.cancel()
        await asyncio.gather(*lost, return_exceptions=True)
        first, *_ = [task.result() for task in tasks if task in done]
        run: AgentRun = first
        return run


class Impatient(Middleware):
    """Asks an agent again that does not answer in time."""

    async def wrap_agent(self, request: AgentRequest, ctx: Context, agent: Any) -> AgentRun:
        try:
            async with ctx.limit(0.01) as limited:
                run: AgentRun = await agent(request, limited)
        except Timeout:
            run = await agent(request, ctx.under("alt-2"))
        return run


async def slow_at_first(request: ModelRequest, ctx: Context) -> ModelResponse:
    await asyncio.sleep(0)
    if "alt-2" not in ctx.path:
        await asyncio.Event().wait()
    return ModelResponse(assistant("the second"), usage=Usage(1, 1, requests=1))


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("middleware", [Race(), Impatient()])
async def test_alternatives_that_were_given_up_are_replayed_as_they_ended(middleware: Middleware) -> None:
    run = await Agent(slow_at_first, middleware=[middleware], store=new_store()).run("go", run_id="r")
    assert run.text == "the second"
    replayed = await Agent(slow_at_first, middleware=[middleware], store=new_store()).replay("r")
    assert replace(replayed, seconds=run.seconds) == run


@pytest.mark.usefixtures("place")
async def test_a_replay_of_a_race_finds_what_has_changed() -> None:
    await Agent(slow_at_first, middleware=[Race()], store=new_store()).run("go", run_id="r")
    with pytest.raises(JournalMismatch, match="instructions"):
        await Agent(slow_at_first, instructions="Be brief.", middleware=[Race()], store=new_store()).replay("r")


def test_an_agent_is_awaited_once_at_a_time_with_one_context() -> None:
    class Both(Middleware):
        async def wrap_agent(self, request: AgentRequest, ctx: Context, agent: Any) -> AgentRun:
            runs: list[AgentRun] = await asyncio.gather(agent(request, ctx), agent(request, ctx))
            return runs[0]

    with pytest.raises(ConfigurationError, match="twice"):
        Agent(slow_at_first, middleware=[Both()]).run_sync("go")


def _cut(run: AgentRun, how: str) -> AgentRun:
    messages: list[Message] = list(run.messages)
    if how == "the earlier":
        messages = messages[run.start - 1 :]
    elif how == "the calls":
        messages = [*messages[: run.start], messages[-1]]
    elif how == "all but the answer":
        messages = [user("in short"), messages[-1]]
    elif how == "more before":
        messages = [user("a note"), assistant("noted"), *messages]
    elif how == "each":
        messages = [replace(message, parts=message.parts) for message in messages]
    return replace(run, messages=Transcript.of(*messages))


STARTS = {"nothing": 3, "the earlier": 1, "the calls": 3, "all but the answer": 0, "more before": 5, "each": 3}


@pytest.mark.parametrize(("how", "hook"), rows(STARTS, ["after_agent", "wrap_agent"]))
def test_a_run_whose_messages_a_hook_has_changed_begins_where_its_own_begin(how: str, hook: str) -> None:
    @tool
    def look() -> str:
        return "seen"

    class Cut(Middleware):
        async def after_agent(self, run: AgentRun, ctx: Context) -> AgentRun | None:
            return _cut(run, how) if hook == "after_agent" else None

        async def wrap_agent(self, request: AgentRequest, ctx: Context, agent: Any) -> AgentRun:
            run: AgentRun = await agent(request, ctx)
            return _cut(run, how) if hook == "wrap_agent" else run

    agent = Agent(ScriptedModel(tool_call("look"), "the answer"), tools=[look], middleware=[Cut()])
    run = agent.run_sync("and now?", history=[user("before"), assistant("earlier")])
    assert (run.start, run.text) == (STARTS[how], "the answer")
    assert len(run.actions) == (how not in ("the calls", "all but the answer"))
