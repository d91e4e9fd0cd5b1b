"""Refused calls never count against a budget, calls that were begun always do, and the same after a resume."""

from typing import Any, get_args

import pytest

from tests.agents.support import assert_sendable
from tests.hard_cases.support import ByTurn
from tests.samples import rows, sample
from tests.stores.places import STORES, new_store
from ziggurat import Agent, Approvals, Budget, Context, Middleware, ModelRequest, Runnable, ToolError, tool
from ziggurat.agents import Answer, Approve, Deny, Environment, Happened, PendingItem, runs_of
from ziggurat.core.errors import ToolErrorKind
from ziggurat.errors import ServiceError
from ziggurat.flows import ask
from ziggurat.journal import Store
from ziggurat.messages import ToolCall, ToolResult, stops, tool_call
from ziggurat.runs.options import Live
from ziggurat.stores import InMemoryStore
from ziggurat.teams import TeamResult, parallel
from ziggurat.testing import HandClock, ScriptedModel

pytestmark = pytest.mark.usefixtures("place")


@tool(approval=True)
async def sign() -> str:
    return "signed"


@tool
async def look() -> str:
    return "seen"


class _Fails(Middleware):
    """Fails before calls of `pay`."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def before_tool(self, call: ToolCall, ctx: Context) -> None:
        if call.name == "pay":
            raise self.error


async def _denies(item: PendingItem) -> Any:
    return Approve() if item.call.name == "sign" else Deny("no")


async def _fails(item: PendingItem) -> Any:
    if item.call.name == "sign":
        return Approve()
    raise ConnectionError("nobody there")


REFUSALS: dict[str, dict[str, Any]] = {
    "an approver": {"approvals": Approvals("pay", approver=_denies)},
    "an approver that fails": {"approvals": Approvals("pay", approver=_fails)},
    "a hook that fails": {"middleware": [_Fails(RuntimeError("boom"))]},
    "a hook that says so": {"middleware": [_Fails(ToolError("too much", kind="transient"))]},
    "missing permissions": {"grants": []},
    "a limit of its own": {"budget": {"pay": 1}},
}


@pytest.mark.parametrize(
    ("refusal", "paused", "place"),
    rows([*REFUSALS, "wrong arguments", "an unknown name"], [False, True], STORES),
    indirect=["place"],
)
async def test_refused_calls_of_tools_count_against_no_limit(refusal: str, paused: bool) -> None:
    made: list[str] = []

    @tool(permissions=["network"] if refusal == "missing permissions" else [])
    async def pay(amount: int) -> str:
        made.append("pay")
        return "paid"

    @tool
    async def look() -> str:
        made.append("look")
        return "seen"

    settings = dict(REFUSALS.get(refusal, {}))
    limits = settings.pop("budget", {})
    call = {"wrong arguments": tool_call("pay", amount="much"), "an unknown name": tool_call("play")}
    refused = call.get(refusal, tool_call("pay", amount=3))
    between = tool_call("sign") if paused else tool_call("look")
    turns: list[Any] = [refused, between, refused, refused, tool_call("look"), refused, tool_call("look"), "done"]
    allowed = 3 + bool(limits)
    store = new_store()

    def agent() -> Agent:
        tools: list[Any] = [pay, look, sign]
        budget = Budget(tool_calls=allowed, tools=limits)
        return Agent(ByTurn(*turns), tools=tools, store=store, budget=budget, **settings)

    run = await agent().run("go", run_id="r")
    while run.pending:
        run = await agent().resume("r", {run.pending[0].id: Approve()})
    assert run.stop == stops.BudgetExceeded("tool_calls", float(allowed), float(allowed))
    assert made == ["pay"] * bool(limits) + ["look"] * (3 - paused)
    assert_sendable(run.messages)


@pytest.mark.parametrize(("kind", "raises"), rows(get_args(ToolErrorKind), [False, True]))
async def test_calls_of_tools_count_however_they_end(raises: bool, kind: ToolErrorKind) -> None:
    made: list[str] = []

    @tool(retries=9)
    async def find() -> Any:
        made.append("find")
        if raises:
            raise ToolError("not executed: no such thing", kind=kind)
        return ToolResult("", "find", "not executed: no such thing", kind)

    turns: list[Any] = [tool_call("find"), tool_call("sign"), tool_call("find"), tool_call("find"), "done"]
    store = new_store()

    def agent() -> Agent:
        return Agent(ByTurn(*turns), tools=[find, sign], store=store, budget=Budget(tools={"find": 2}))

    run = await agent().run("go", run_id="r")
    run = await agent().resume("r", {run.pending[0].id: Approve()})
    assert made == ["find"] * 2
    assert run.text == "done"
    assert "may be called 2 times" in run.observations[-1]


async def test_a_call_that_was_begun_is_not_refused_when_the_run_goes_on() -> None:
    """`sign` was not begun; it comes first, and must not take the place of the call that waits."""
    store = new_store()

    @tool
    async def consult() -> str:
        return await ask("Well?", str)

    calls = [tool_call(name, id=name) for name in ("sign", "look", "consult")]

    def agent() -> Agent:
        tools = [sign, look, consult]
        return Agent(ByTurn(calls, "done"), tools=tools, store=store, budget=Budget(tool_calls=2))

    run = await agent().run("go", run_id="r")
    signing, asking = run.pending
    run = await agent().resume("r", {signing.id: Approve(), asking.id: Answer("well")})
    results = [result.text for message in run.messages for result in message.tool_results]
    assert results == ["not executed: this run may call tools 2 times", "seen", "well"]
    assert run.stop == stops.BudgetExceeded("tool_calls", 2.0, 2.0)


async def test_a_call_that_a_person_has_found_to_have_happened_counts() -> None:
    made: list[str] = []

    @tool(effect="once", interrupted="ask")
    async def pay() -> str:
        made.append("pay")
        raise TimeoutError

    store = new_store()

    def agent() -> Agent:
        return Agent(ByTurn(*[tool_call("pay")] * 3, "done"), tools=[pay], store=store, budget=Budget(tool_calls=2))

    run = await agent().run("go", run_id="r")
    while run.pending:
        run = await agent().resume("r", {run.pending[0].id: Happened("paid")})
    assert run.stop == stops.BudgetExceeded("tool_calls", 2.0, 2.0)
    assert made == ["pay"] * 2


@pytest.mark.parametrize("paused", [False, True])
async def test_a_step_that_another_budget_refuses_counts_in_none(paused: bool) -> None:
    store = new_store()

    def agent() -> Agent:
        inner = Agent(ByTurn(tool_call("look"), "done"), tools=[look], name="inner", budget=Budget(requests=1))
        turns: list[Any] = [
            tool_call("inner", input="x"),
            tool_call("sign" if paused else "look"),
            tool_call("look"),
            "done",
        ]
        return Agent(ByTurn(*turns), tools=[inner, look, sign], store=store, budget=Budget(steps=5))

    run = await agent().run("go", run_id="r")
    run = await agent().resume("r", {run.pending[0].id: Approve()}) if paused else run
    assert (run.stop, run.model_calls) == (stops.Completed(), 5)


async def test_a_budget_of_steps_counts_no_step_whose_hook_fails() -> None:
    class Fails(Middleware):
        async def before_model(self, request: ModelRequest, ctx: Context) -> None:
            raise ServiceError("boom")

    inner = Agent(ScriptedModel("never"), name="inner", middleware=[Fails()])
    outer = Agent(
        ByTurn(tool_call("inner", input="x"), "done"), tools=[inner], store=new_store(), budget=Budget(steps=2)
    )
    assert (await outer.run("go")).text == "done"


@pytest.mark.parametrize("paused", [False, True])
async def test_agents_at_the_same_time_stop_at_a_limit_where_they_did_before(paused: bool) -> None:
    """`ann` is the last to reach the limit, although it is the first to come to its call when nobody has to wait."""
    clock, store = HandClock(auto=True), new_store()

    @tool
    async def look(seconds: int) -> str:
        await clock.sleep(seconds)
        return "seen"

    def member(name: str, *turns: Any) -> Agent:
        return Agent(ByTurn(*turns), name=name, tools=[look, sign])

    def team() -> Runnable:
        ann = member("ann", tool_call("look", seconds=9), "too much")
        ben = member("ben", tool_call("look", seconds=1), "enough")
        eve = member("eve", tool_call("sign"), "signed") if paused else member("eve", "nothing")
        leader = member("leader", "done")
        return parallel(leader, ann, ben, eve, budget=Budget(tool_calls=2 + paused), store=store)

    environment = Environment(clock=clock)
    run = await team().run("go", run_id="r", environment=environment)
    if paused:
        run = await team().resume("r", {run.pending[0].id: Approve()}, environment=environment)
    replayed = await team().replay("r")
    result = TeamResult.of(run)
    assert result.answers["ben"] == "enough"
    assert "the tool_calls limit" in result.failures["eve" if paused else "ann"]
    assert replayed.messages == run.messages
    assert (replayed.stop, replayed.usage) == (run.stop, run.usage)


@pytest.mark.parametrize(("limit", "place"), rows([1, 2, 3, 4], STORES), indirect=["place"])
async def test_a_run_that_is_lost_forked_or_replayed_stops_at_a_limit_where_it_did(limit: int) -> None:
    def agent(store: Store) -> Agent:
        inner = Agent(ByTurn(tool_call("look"), "done"), tools=[look], name="inner")
        turns = [tool_call("inner", input="x")] * 3
        return Agent(ByTurn(*turns, "done"), tools=[inner], store=store, budget=Budget(tool_calls=limit))

    store = new_store()
    whole = await agent(store).run("go", run_id="r")
    entries = (await runs_of(store).read("r")).entries
    for count in sample(range(1, len(entries)), 5):
        lost = InMemoryStore()
        await runs_of(lost).plant("r", "agent", entries[:count])
        run = await agent(lost).resume("r")
        assert (run.stop, run.messages) == (whole.stop, whole.messages), count
        assert (run.usage, run.tool_calls) == (whole.usage, whole.tool_calls), count
    for step in sample(range(1, whole.steps + 1), 2):
        fork = await agent(store).fork("r", at=step, effects="recorded")
        assert (fork.stop, fork.messages, fork.usage) == (whole.stop, whole.messages, whole.usage), step
    for live in get_args(Live):
        replayed = await agent(store).replay("r", live=live)
        assert (replayed.stop, replayed.messages, replayed.usage) == (whole.stop, whole.messages, whole.usage), live
