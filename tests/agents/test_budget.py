"""Budgets apply to a run and all agents below it: concurrent, nested, and across a suspension."""

import asyncio
import sys
from decimal import Decimal
from typing import Any

import pytest

from tests.agents.support import assert_sendable, elsewhere
from ziggurat import (
    Agent,
    AgentRun,
    Approve,
    Budget,
    ConfigurationError,
    Context,
    Middleware,
    ModelRequest,
    ModelResponse,
    ModelSettings,
    Toolbox,
    ToolResult,
    Usage,
    tool,
)
from ziggurat.errors import LimitExceeded, MissingExtra
from ziggurat.messages import assistant, stops, tool_call
from ziggurat.stores import InMemoryStore
from ziggurat.testing import ScriptedModel

COST = Usage(400, 10, requests=1)
CHILDREN = 50


class Bill:
    """Counts the actual model calls, independent of the runtime's count."""

    def __init__(self) -> None:
        self.calls = self.running = self.most = 0

    async def child(self, request: ModelRequest, ctx: Context) -> ModelResponse:
        self.calls += 1
        self.running += 1
        self.most = max(self.most, self.running)
        for _ in range(3):
            await asyncio.sleep(0)
        self.running -= 1
        return ModelResponse(assistant("child is done"), usage=COST)


def _fan_out(bill: Bill, store: InMemoryStore | None = None, **limits: Any) -> Agent:
    """Return an agent that calls fifty others concurrently, each of which calls its model once."""
    short = ModelSettings(max_tokens=10)
    children = [Agent(bill.child, name=f"child{number}", settings=short) for number in range(CHILDREN)]
    calls = [tool_call(f"child{number}", input="x" * 1600, id=f"c{number}") for number in range(CHILDREN)]
    model = ScriptedModel(assistant(*calls), "all done", usage=Usage(1, 1, requests=1), per_run=True)
    return Agent(model, tools=children, budget=Budget(**limits), settings=short, store=store)


def _results(run: AgentRun) -> list[ToolResult]:
    return [result for message in run.messages for result in message.tool_results]


@pytest.mark.parametrize(
    ("limits", "most"),
    [
        ({"requests": 21}, 20),
        ({"steps": 31}, 30),
        ({"tokens": 10_000}, 25),
        ({"cost": 8, "price": lambda model, usage: usage.total / 1000}, 20),
    ],
    ids=["requests", "steps", "tokens", "cost"],
)
async def test_fifty_children_at_once_overspend_by_at_most_one_call(limits: dict[str, Any], most: int) -> None:
    bill = Bill()
    run = await _fan_out(bill, **limits).run("go")
    assert 1 < bill.calls <= most
    assert bill.most == bill.calls  # they did run concurrently
    refused = [result for result in _results(run) if result.error is not None]
    assert len(refused) == CHILDREN - bill.calls
    assert all("limit" in result.text for result in refused)
    assert run.usage.requests == bill.calls + 1 + isinstance(run.stop, stops.Completed)
    assert_sendable(run.messages)


async def test_the_tokens_of_fifty_children_stay_below_the_limit_and_one_call() -> None:
    for limit in range(5_000, 20_000, 1_000):
        bill = Bill()
        run = await _fan_out(bill, tokens=limit).run("go")
        assert 0 < bill.calls < CHILDREN
        assert run.usage.total <= limit + COST.total


async def test_refusals_are_on_record_and_never_decided_again() -> None:
    bill, later, store = Bill(), Bill(), InMemoryStore()

    run = await _fan_out(bill, store, requests=21).run("go", run_id="r")
    replayed = await _fan_out(later, elsewhere(store, "r"), requests=1000).replay("r")
    assert (bill.calls, later.calls) == (20, 0)
    assert (replayed.messages, replayed.stop, replayed.usage) == (run.messages, run.stop, run.usage)


def _helper(budget: Budget | None) -> Agent:
    return Agent(ScriptedModel(always="ok", usage=COST), name="helper", budget=budget)


@pytest.mark.parametrize(
    ("outer", "inner", "asked"), [(9, 2, 2), (3, 9, 2), (9, 9, 4)], ids=["inner", "outer", "neither"]
)
def test_of_nested_budgets_the_narrower_one_stops(outer: int, inner: int, asked: int) -> None:
    twice = [tool_call("helper", input="a", id="1"), tool_call("helper", input="b", id="2")]
    middle = Agent(
        ScriptedModel(assistant(*twice), "middle is done", usage=COST),
        tools=Toolbox([_helper(None).as_tool()], concurrency=1),
        name="middle",
        budget=Budget(requests=inner),
    )
    run = Agent(
        ScriptedModel(tool_call("middle", input="go"), "done", usage=COST),
        tools=[middle],
        budget=Budget(requests=outer),
    ).run_sync("go")
    beneath = run.model_calls - 1 - isinstance(run.stop, stops.Completed)
    assert beneath == asked
    if outer == 3:
        assert run.stop == stops.BudgetExceeded("requests", 3, 3)
    else:
        assert run.stop == stops.Completed()
        assert (_results(run)[0].error is None) == (inner == 9)


def test_steps_count_the_turns_of_all_loops_and_not_repairs() -> None:
    broken = ModelResponse(assistant("?"), finish="malformed", usage=COST)
    inner = Agent(ScriptedModel(broken, "12", usage=COST), name="inner")
    run = Agent(
        ScriptedModel(tool_call("inner", input="go"), "never", usage=COST), tools=[inner], budget=Budget(steps=2)
    ).run_sync("go")
    assert run.stop == stops.BudgetExceeded("steps", 2, 2)
    assert run.model_calls == 3
    assert _results(run)[0].text == "12"
    with pytest.raises(LimitExceeded) as caught:
        run.raise_for_stop()
    assert caught.value.partial is run


# -- tools -------------------------------------------------------------------------------------------------------


def _searching(did: list[str], store: InMemoryStore | None = None, approval: bool = False, **limits: Any) -> Agent:
    @tool(approval=approval)
    async def search(what: str) -> str:
        did.append(what)
        return f"found {what}"

    async def think() -> str:
        return "hm"

    def reply(request: ModelRequest) -> Any:
        turn = sum(message.role == "assistant" for message in request.messages)
        if turn == 3:
            return "done"
        calls = [tool_call("search", what=f"{'abc'[turn]}{at}", id=f"{'abc'[turn]}{at}") for at in range(2)]
        return assistant(*calls, tool_call("think"))

    model = ScriptedModel(always=reply)
    return Agent(model, tools=[search, think], budget=Budget(**limits), store=store)


def test_a_tool_has_a_limit_of_its_own_and_the_model_goes_on_without() -> None:
    did: list[str] = []
    run = _searching(did, tools={"search": 3}).run_sync("go")
    assert did == ["a0", "a1", "b0"]
    assert run.stop == stops.Completed()
    told = [result for result in _results(run) if result.error is not None]
    assert [(result.id, result.error) for result in told] == [("b1", "denied"), ("c0", "denied"), ("c1", "denied")]
    assert told[0].text == "not executed: search may be called 3 times in this run; go on without"
    assert sum(result.name == "think" for result in _results(run)) == 3


def test_when_all_tool_calls_are_used_up_the_run_stops_with_complete_results() -> None:
    did: list[str] = []
    run = _searching(did, tool_calls=4).run_sync("go")
    assert isinstance(run.stop, stops.BudgetExceeded)
    assert (run.stop.kind, run.stop.limit, run.steps) == ("tool_calls", 4, 2)
    assert did == ["a0", "a1", "b0"]  # and one thought
    assert [result.error for result in _results(run)] == [None, None, None, None, "denied", "denied"]
    assert_sendable(run.messages)


@pytest.mark.parametrize("limits", [{"tools": {"search": 3}}, {"tool_calls": 5}], ids=str)
async def test_calls_before_a_suspension_count_after_it_and_a_replay_is_the_same(limits: dict[str, Any]) -> None:
    whole = await _searching([], **limits).run("go")
    did: list[str] = []

    store = InMemoryStore()
    run = await _searching(did, store, approval=True, **limits).run("go", run_id="r")
    while run.pending:
        store = elsewhere(store, "r")
        decisions = {item.id: Approve() for item in run.pending}
        run = await _searching(did, store, approval=True, **limits).resume("r", decisions)
    replayed = await _searching([], elsewhere(store, "r"), approval=True, **limits).replay("r")
    made = [result for result in _results(run) if result.error is None]
    assert [result.name for result in made].count("search") == len(did) == len(set(did))
    assert len(made) == sum(result.error is None for result in _results(whole))
    assert run.stop == whole.stop == replayed.stop
    assert replayed.messages == run.messages


# -- money -------------------------------------------------------------------------------------------------------


def _price(model: str, usage: Usage) -> Decimal:
    assert model == "scripted"
    return Decimal(usage.input or 0) / 1000 + Decimal(usage.output or 0) / 100


def _spender(store: InMemoryStore, **limits: Any) -> Agent:
    @tool(approval=True)
    async def sign() -> str:
        return "signed"

    def reply(request: ModelRequest) -> Any:
        return tool_call("sign", id=f"s{len(request.messages)}")

    model = ScriptedModel(always=reply, usage=Usage(100, 10, requests=1))
    return Agent(model, tools=[sign], budget=Budget(**limits), settings=ModelSettings(max_tokens=10), store=store)


async def test_money_is_reserved_spent_and_remembered() -> None:
    store = InMemoryStore()
    run = await _spender(store, cost=0.75, price=_price).run("go", run_id="r")
    while run.pending:
        store = elsewhere(store, "r")
        run = await _spender(store, cost=0.75, price=_price).resume("r", {item.id: Approve() for item in run.pending})
    assert isinstance(run.stop, stops.BudgetExceeded)
    assert (run.stop.kind, run.stop.limit) == ("cost", 0.75)
    assert run.stop.used == pytest.approx(0.6)
    assert run.model_calls == 3


def test_a_model_without_a_known_price_is_an_error_before_it_is_asked() -> None:
    model = ScriptedModel("never")
    with pytest.raises(ConfigurationError, match="price="):
        Agent(model, budget=Budget(cost=1, price=lambda model, usage: None)).run_sync("go")
    assert model.calls == []


def test_list_prices_are_used_where_none_are_given() -> None:
    pytest.importorskip("genai_prices")

    def agent(cost: float) -> Agent:
        model = ScriptedModel("done", name="openai:gpt-4o", usage=Usage(1000, 1000, requests=1))
        return Agent(model, budget=Budget(cost=cost), settings=ModelSettings(max_tokens=1000))

    assert agent(0.02).run_sync("go").stop == stops.Completed()
    assert agent(0.001).run_sync("go").stop == stops.BudgetExceeded("cost", 0.001, 0)


def test_without_a_list_of_prices_that_is_said_where_the_agent_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    with pytest.raises(MissingExtra, match="prices"):
        Agent(ScriptedModel("x"), budget=Budget(cost=1))


@tool
def look() -> str:
    return "seen"


@pytest.mark.parametrize("budget", [Budget(steps=3), Budget(requests=3), Budget(tokens=4_000)])
def test_only_steps_whose_model_was_called_count(budget: Budget) -> None:
    settings = ModelSettings(max_tokens=1_000)
    model = ScriptedModel(always=tool_call("look"), usage=Usage(900, 100, requests=1))
    run = Agent(model, tools=[look], settings=settings, budget=budget).run_sync("go")
    assert isinstance(run.stop, stops.BudgetExceeded)
    assert run.steps == run.model_calls == len(run.trace()) == len(model.calls)


async def test_a_budget_that_a_hook_used_up_counts_no_step() -> None:
    helper = Agent(ScriptedModel(always="h"), name="helper")

    class Judge(Middleware):
        async def before_model(self, request: ModelRequest, ctx: Context) -> None:
            if "helper" not in ctx.path:
                await helper.run("judge")

    run = await Agent(ScriptedModel("hi"), middleware=[Judge()], budget=Budget(requests=1)).run("q")
    assert run.stop == stops.BudgetExceeded("requests", 1, 0)  # the call was reserved, and is not made
    assert (run.steps, run.model_calls) == (0, 0)
