"""A tool written as ``return (await helper.run(q)).text`` escapes nothing of the run it is in."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.agents.support import assert_sendable
from tests.hard_cases.support import ByTurn, entries_of, ids_in, results, results_in, through_json
from tests.stores.places import new_store
from tests.stores.records import ids_of, journal_of
from tests.turns import until
from ziggurat import (
    Agent,
    Approvals,
    Approve,
    Budget,
    ConfigurationError,
    Context,
    Deny,
    Event,
    Middleware,
    Usage,
    tool,
)
from ziggurat.agents import Environment
from ziggurat.errors import ModelError
from ziggurat.events import ToolStarted, Warned
from ziggurat.journal.entries import Entered
from ziggurat.messages import ModelRequest, ModelResponse, ToolCall, assistant, stops, tool_call
from ziggurat.stores import InMemoryStore
from ziggurat.testing import HandClock, Pause, ScriptedModel, assert_no_leaks
from ziggurat.tools import FunctionTool


def _awaited(helper: Agent) -> FunctionTool:
    @tool(name="consult")
    async def consult(q: str) -> str:
        """Ask the helper."""
        return (await helper.run(q)).text

    return consult


def _in_a_thread(helper: Agent) -> FunctionTool:
    @tool(name="consult")
    def consult(q: str) -> str:
        """Ask the helper."""
        return helper.run_sync(q).text

    return consult


def _streamed(helper: Agent) -> FunctionTool:
    @tool(name="consult")
    async def consult(q: str) -> str:
        """Ask the helper."""
        async with helper.stream(q) as events:
            async for _ in events:
                pass
        return events.response.text

    return consult


def _of_a_helper_call(helper: Agent) -> FunctionTool:
    async def deeper(q: str) -> str:
        return (await helper.run(q)).text

    @tool(name="consult")
    async def consult(q: str) -> str:
        """Ask the helper."""
        return await asyncio.create_task(deeper(q))

    return consult


FORMS: dict[str, Callable[[Agent], FunctionTool]] = {
    "awaited": _awaited,
    "in a thread": _in_a_thread,
    "streamed": _streamed,
    "in a task": _of_a_helper_call,
}
EACH_FORM = pytest.mark.parametrize("form", FORMS)


class World:
    def __init__(self) -> None:
        self.deleted: list[str] = []

    def tool(self, **options: Any) -> FunctionTool:
        @tool(effect="once", **options)
        async def delete(what: str) -> str:
            """Delete."""
            self.deleted.append(what)
            return f"deleted {what}"

        return delete


def _helper(world: World, **options: Any) -> tuple[Agent, ByTurn]:
    model = ByTurn(
        tool_call("delete", id="call_0", what="it"),
        lambda request: f"helped: {results_in(request)[0].text}",
        name="helper_model",
    )
    return Agent(model, name="helper", tools=[world.tool(**options)]), model


def _outer() -> ByTurn:
    return ByTurn(tool_call("consult", id="call_0", q="?"), "done")


@EACH_FORM
async def test_it_joins_the_run_and_its_record(form: str) -> None:
    world, store = World(), new_store()
    helper, _ = _helper(world)
    agent = Agent(_outer(), tools=[FORMS[form](helper)], store=store)
    run = await agent.run("go", run_id="r")
    assert run.text == "done"
    assert results(run)[0].text == "helped: deleted it"
    entered = [entry.path for entry in await entries_of(store, "r") if isinstance(entry, Entered)]
    assert entered == ["agent", "agent/step-1/tool-1:consult/helper"]
    assert await ids_in(store) == ["r"]
    assert isinstance(helper.store, InMemoryStore)
    assert ids_of(helper.store) == [], "it is not a run of its own"
    assert (run.usage, run.model_calls, run.tool_calls) == (Usage(40, 4, requests=4), 4, 2)
    assert (await agent.replay("r")).messages == run.messages
    assert world.deleted == ["it"]


@EACH_FORM
async def test_the_budget_holds_inside(form: str) -> None:
    world = World()
    helper, model = _helper(world)
    outer = _outer()
    run = await Agent(outer, tools=[FORMS[form](helper)], budget=Budget(requests=2)).run("go")
    assert (len(outer.asked), len(model.asked)) == (1, 1), "the third call of all is refused"
    assert isinstance(run.stop, stops.BudgetExceeded)
    assert_sendable(run.messages)


@EACH_FORM
@pytest.mark.parametrize("grants", [None, (), ("file_read",)])
async def test_the_grants_hold_inside(form: str, grants: Any) -> None:
    world = World()
    helper, model = _helper(world, permissions=["file_write"])
    run = await Agent(_outer(), tools=[FORMS[form](helper)], grants=grants).run("go")
    assert run.text == "done"
    assert world.deleted == [], "what the outer agent was not given, it cannot pass on"
    (told,) = results_in(model.asked[1])
    assert told.error == "denied"
    assert "file_write" in told.text
    await Agent(_outer(), tools=[FORMS[form](helper)], grants=["file_write"]).run("go")
    assert world.deleted == ["it"]


async def test_on_its_own_the_helper_gives_its_tools_what_they_declare() -> None:
    world = World()
    helper, _ = _helper(world, permissions=["file_write"])
    assert (await helper.run("go")).text == "helped: deleted it"
    assert world.deleted == ["it"]


@EACH_FORM
async def test_approvals_hold_inside_and_the_whole_run_waits_and_goes_on(form: str) -> None:
    world = World()

    def process(store: InMemoryStore) -> tuple[Agent, ByTurn, ByTurn]:
        helper, model = _helper(world)
        outer = _outer()
        return Agent(outer, tools=[FORMS[form](helper)], approvals=Approvals("delete*"), store=store), outer, model

    store = new_store()
    agent, _, _ = process(store)
    run = await agent.run("go", run_id="r")
    assert run.stop == stops.Suspended()
    (item,) = run.pending
    assert item.call == tool_call("delete", id="call_0", what="it")
    assert item.path == "agent/step-1/tool-1:consult/helper/step-1/tool-1:delete"
    assert world.deleted == []

    agent, outer, model = process(through_json(store, "r"))
    run = await agent.resume("r", {item.id: Approve()})
    assert run.text == "done"
    assert results(run)[0].text == "helped: deleted it"
    assert world.deleted == ["it"]
    assert (len(outer.asked), len(model.asked)) == (1, 1), "nothing is asked twice"
    assert run.usage == Usage(40, 4, requests=4)


@EACH_FORM
async def test_so_does_an_approval_that_the_inner_tool_asks_for_itself(form: str) -> None:
    world, store = World(), new_store()

    def process(store: InMemoryStore) -> Agent:
        helper, _ = _helper(world, approval=True)
        return Agent(_outer(), tools=[FORMS[form](helper)], store=store)

    (item,) = (await process(store).run("go", run_id="r")).pending
    run = await process(through_json(store, "r")).resume("r", {item.id: Deny("no")})
    assert run.text == "done"
    assert results(run)[0].text == "helped: denied: no"
    assert world.deleted == []


class Watch(Middleware):
    """Notes what it sees, at any depth, and changes what tools are called with."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def before_model(self, request: ModelRequest, ctx: Context) -> None:
        self.seen.append(f"model at {ctx.path}")

    async def before_tool(self, call: ToolCall, ctx: Context) -> ToolCall | None:
        self.seen.append(f"tool at {ctx.path}")
        return ToolCall(call.id, call.name, '{"what": "that"}') if call.name == "delete" else None


@EACH_FORM
@pytest.mark.parametrize("waits", [False, True])
async def test_middleware_and_listeners_see_inside(form: str, waits: bool) -> None:
    world, watch, store = World(), Watch(), new_store()
    helper, _ = _helper(world, approval=waits)
    heard: list[Event] = []
    agent = Agent(_outer(), tools=[FORMS[form](helper)], middleware=[watch], store=store)
    run = await agent.run("go", run_id="r", listeners=[heard.append])
    if waits:
        (item,) = run.pending
        assert item.call.arguments == '{"what":"that"}'
        run = await agent.resume("r", {item.id: Approve()}, listeners=[heard.append])
    assert run.text == "done"
    assert world.deleted == ["that"]
    inside = "agent/step-1/tool-1:consult"
    assert watch.seen == [
        "model at agent/step-1/model",
        f"tool at {inside}",
        f"model at {inside}/helper/step-1/model",
        f"tool at {inside}/helper/step-1/tool-1:delete",
        f"model at {inside}/helper/step-2/model",
        "model at agent/step-2/model",
    ]
    assert f"{inside}/helper/step-1/tool-1:delete" in {event.path for event in heard if isinstance(event, ToolStarted)}


@EACH_FORM
async def test_the_deadline_holds_inside(form: str) -> None:
    if form == "in a thread":
        pytest.skip("a clock by hand cannot tell that a thread is still at work")
    clock = HandClock(auto=True)
    helper = Agent(ScriptedModel([Pause(100), "late"]), name="helper")
    agent = Agent(_outer(), tools=[FORMS[form](helper)], timeout=5)
    run = await agent.run("go", environment=Environment(clock=clock))
    assert run.stop == stops.TimedOut(5)
    assert clock.monotonic() <= 7


@EACH_FORM
async def test_cancelled_outside_nothing_goes_on_inside(form: str) -> None:
    log: list[str] = []

    @tool
    async def slow() -> str:
        """Hang."""
        log.append("begun")
        try:
            await asyncio.Event().wait()
        finally:
            log.append("ended")
        return "never"

    async with assert_no_leaks():
        helper = Agent(ByTurn(tool_call("slow"), "never"), name="helper", tools=[slow])
        task = asyncio.ensure_future(Agent(_outer(), tools=[FORMS[form](helper)]).run("go"))
        await until(lambda: log)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert log == ["begun", "ended"]


@EACH_FORM
async def test_a_failure_inside_is_the_tools_failure(form: str) -> None:
    helper = Agent(ScriptedModel(ModelError("the provider is down", transient=True)), name="helper")
    outer = ScriptedModel(tool_call("consult", q="?"), "done without")
    run = await Agent(outer, tools=[FORMS[form](helper)]).run("go")
    assert run.text == "done without"
    (result,) = results(run)
    assert result.error == "transient"
    assert "the provider is down" in result.text


def deleting_what_it_is_asked(world: World) -> Agent:
    """A helper that deletes what its prompt names when it may, and says what came of it."""
    model = ByTurn(
        lambda request: tool_call("delete", id="call_0", what=request.messages[0].text),
        lambda request: results_in(request)[0].text,
    )
    return Agent(model, name="helper", tools=[world.tool(approval=True)])


async def test_calls_side_by_side_and_one_after_the_other_do_not_mix() -> None:
    """Two calls of one tool, each of which asks the same helper twice, all four waiting for a person."""
    world = World()

    def process(store: InMemoryStore) -> Agent:
        helper = deleting_what_it_is_asked(world)

        @tool
        async def twice(q: str) -> str:
            """Ask the helper twice."""
            first = (await helper.run(f"{q}-1")).text
            return f"{first}, {(await helper.run(f'{q}-2')).text}"

        calls = [tool_call("twice", id="call_0", q="a"), tool_call("twice", id="call_1", q="b")]
        return Agent(ByTurn(calls, "done"), tools=[twice], store=store)

    store = new_store()
    run = await process(store).run("go", run_id="r")
    for round_number in (1, 2):
        assert [item.call.parsed()["what"] for item in run.pending] == [f"a-{round_number}", f"b-{round_number}"]
        store = through_json(store, "r")
        run = await process(store).resume("r", {item.id: Approve() for item in run.pending})
    assert run.text == "done"
    assert [result.text for result in results(run)] == ["deleted a-1, deleted a-2", "deleted b-1, deleted b-2"]
    assert sorted(world.deleted) == ["a-1", "a-2", "b-1", "b-2"]


@pytest.mark.parametrize("how", ["group", "gather"])
async def test_two_helpers_at_once_in_one_tool_both_wait(how: str) -> None:
    world = World()

    def process(store: InMemoryStore) -> Agent:
        helper = deleting_what_it_is_asked(world)

        @tool
        async def both(q: str) -> str:
            """Ask two helpers at once."""
            if how == "gather":
                runs = await asyncio.gather(helper.run("a"), helper.run("b"))
                return ", ".join(run.text for run in runs)
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(helper.run(what)) for what in "ab"]
            return ", ".join(task.result().text for task in tasks)

        return Agent(ByTurn(tool_call("both", q="?"), "done"), tools=[both], store=store)

    store = new_store()
    run = await process(store).run("go", run_id="r")
    assert run.stop == stops.Suspended()
    assert [item.call.parsed()["what"] for item in run.pending] == ["a", "b"]
    first, second = run.pending
    store = through_json(store, "r")
    run = await process(store).resume("r", {second.id: Approve()})
    assert world.deleted == ["b"], "the other comes to its end before the first waits again"
    assert run.pending == (first,)
    run = await process(through_json(store, "r")).resume("r", {first.id: Approve()})
    assert run.text == "done"
    assert results(run)[0].text == "deleted a, deleted b"
    assert sorted(world.deleted) == ["a", "b"]


async def test_a_tool_around_an_agent_cannot_act_once_only() -> None:
    """It is made of other calls, so it is entered again on resume: only the tools below can act once."""
    world = World()
    helper, model = _helper(world)

    @tool(effect="once")
    async def consult(q: str) -> str:
        """Ask the helper."""
        return (await helper.run(q)).text

    with pytest.raises(ConfigurationError, match="effect='once'"):
        await Agent(_outer(), tools=[consult]).run("go")
    assert model.asked == []


async def test_it_may_not_recurse_for_ever() -> None:
    depth = 0

    @tool
    async def consult(q: str) -> str:
        """Ask oneself."""
        nonlocal depth
        depth += 1
        return (await agent.run(q)).text

    async def model(request: ModelRequest, ctx: Context) -> ModelResponse:
        if request.messages[-1].role == "user":
            return ModelResponse(assistant(tool_call("consult", q="deeper")), "tool_calls")
        return ModelResponse(assistant(request.messages[-1].tool_results[0].text))

    agent = Agent(model, tools=[consult], name="recursive")
    run = await agent.run("go")
    assert run.stop == stops.Completed()
    assert "8 levels" in run.text
    assert depth == 9


async def test_detached_it_is_a_run_of_its_own_and_that_is_told() -> None:
    world = World()
    helper, _ = _helper(world)
    heard: list[Event] = []

    @tool
    async def consult(q: str) -> str:
        """Ask the helper, on its own."""
        return (await helper.run(q, detached=True)).text

    agent = Agent(_outer(), tools=[consult], approvals=Approvals("delete"))
    run = await agent.run("go", listeners=[heard.append])
    assert results(run)[0].text == "helped: deleted it"
    assert run.usage == Usage(20, 2, requests=2)
    (warning,) = [event for event in heard if isinstance(event, Warned)]
    assert "helper" in warning.text


async def test_two_runs_at_once_do_not_hear_each_other() -> None:
    """The one context variable is set around a user's function only, and each run has its own."""
    world = World()
    helper, _ = _helper(world)

    agents = [Agent(_outer(), name=name, tools=[_awaited(helper)], store="memory:") for name in ("one", "two")]
    runs = await asyncio.gather(*(agent.run("go", run_id=agent.name) for agent in agents))
    for agent in agents:
        assert isinstance(agent.store, InMemoryStore)
        paths = {entry.path.partition("/")[0] for entry in journal_of(agent.store, agent.name).entries}
        assert paths == {"", agent.name}
    one, two = list(runs)
    assert one.usage == two.usage == Usage(40, 4, requests=4)
    assert world.deleted == ["it", "it"]
