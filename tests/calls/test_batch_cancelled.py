"""Calls that are cancelled because another call of their batch has failed: whether they had begun is told truly."""

import asyncio
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest

from tests.agents.support import turns
from tests.calls.samples import STORES, each
from tests.samples import amount, pairs, sample
from tests.stores import places
from tests.stores.places import new_store
from ziggurat import Agent, Approvals, Context, Event, Rule, Runnable, Service, Toolbox, ToolCall, layer, stack, tool
from ziggurat.agents import Decision, Environment, PendingItem
from ziggurat.core import LocalJournal
from ziggurat.core.entries import Result
from ziggurat.errors import RunNotFound
from ziggurat.flows import flow, step
from ziggurat.layers import timeout
from ziggurat.messages import ToolResult, stops, tool_call
from ziggurat.middleware import Middleware
from ziggurat.stores import LocalLogs
from ziggurat.testing import HandClock, ScriptedModel

NOT_BEGUN = "not executed: another call of the batch failed"
BEGUN = "interrupted: another call of the batch failed while this one ran; whether it took effect is unknown"


KINDS = ("no store", *STORES)


@pytest.fixture(params=sample(KINDS, 1))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "no store":
        yield None
        return
    with places.used(request.param, tmp_path):
        yield new_store()


class Held:
    """Where the call that is cancelled stands when the other one fails."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.ran: list[str] = []
        self.asked: list[PendingItem] = []

    async def hold(self) -> None:
        self.reached.set()
        await asyncio.Event().wait()

    async def approver(self, item: PendingItem) -> Decision:
        self.asked.append(item)
        await self.hold()
        raise AssertionError

    async def when(self, arguments: dict[str, Any]) -> bool:
        await self.hold()
        raise AssertionError


class _SlowHook(Middleware):
    def __init__(self, held: Held) -> None:
        self.held = held

    async def before_tool(self, call: ToolCall, ctx: Context) -> None:
        if call.name == "pay":
            await self.held.hold()


class _Wrap(Middleware):
    def __init__(self, held: Held) -> None:
        self.held = held

    async def wrap_tool(self, call: ToolCall, ctx: Context, tool: Any) -> ToolResult:
        if call.name == "pay":
            await self.held.hold()
        return cast("ToolResult", await tool(call, ctx))


Q = TypeVar("Q")
R = TypeVar("R")


@layer
async def limited(request: Q, ctx: Context, inner: Service[Q, R], *, held: Held) -> R:
    await held.hold()
    return await inner(request, ctx)


def _options(where: str, held: Held) -> dict[str, Any]:
    if where == "approver":
        return {"approvals": Approvals("pay", approver=held.approver)}
    if where == "rule":
        return {"approvals": Approvals(Rule("pay", "deny", held.when))}
    if where == "wrap":
        return {"middleware": [_Wrap(held)]}
    return {"middleware": [_SlowHook(held)]} if where == "hook" else {}


NOT_YET = ("approver", "rule", "hook", "wrap", "layer")
"""Where a call may be held before it begins."""

EFFECTS: dict[str, dict[str, Any]] = {
    "none": {"effect": "none"},
    "repeatable": {},
    "once": {"effect": "once"},
    "once, ask": {"effect": "once", "interrupted": "ask"},
}


@pytest.mark.parametrize(
    ("where", "effect", "first", "store"),
    [
        *pairs(NOT_YET, EFFECTS, ["pay", "fail"], KINDS),
        *each(["tool"], ["none", "repeatable"], ["pay", "fail"], KINDS),  # for the others see test_unknown_outcome
    ],
    indirect=["store"],
)
async def test_only_a_call_that_began_is_reported_as_interrupted(
    where: str, first: str, effect: str, store: Any
) -> None:
    told = BEGUN if where == "tool" else NOT_BEGUN
    held = Held()

    @tool(**EFFECTS[effect])
    async def pay() -> str:
        held.ran.append("pay")
        await held.hold()
        return "paid"

    @tool
    async def fail() -> str:
        """Fail, as soon as the other call stands where it is held."""
        await held.reached.wait()
        raise ValueError("broken")

    calls = sorted([tool_call("pay", id="a"), tool_call("fail", id="b")], key=lambda call: call.name != first)
    box = Toolbox([stack(pay, limited(held=held)) if where == "layer" else pay, fail], join="fail_fast")
    agent = Agent(ScriptedModel(calls, "done"), tools=box, store=store, **_options(where, held))
    run = await agent.run("go", run_id="r")
    replayed, ran = await agent.replay("r") if store is not None else run, held.ran
    assert run.stop == stops.Completed()
    assert sorted(run.observations) == sorted([told, "ValueError: broken"])
    assert ran == (["pay"] if told == BEGUN else [])
    assert replayed.observations == run.observations


@pytest.mark.parametrize(
    ("where", "effect", "cut", "store"),
    each(["wrap", "layer", "step"], EFFECTS, ["handle", "time"], STORES),
    indirect=["store"],
)
async def test_a_call_that_never_began_is_made_when_the_run_goes_on(
    cut: str, where: str, effect: str, store: Any
) -> None:
    paid: list[str] = []
    clock = HandClock()

    def agent(held: Held | None) -> Runnable:
        layers = [] if held is None or where == "wrap" else [limited(held=held)]

        async def pay(to: str = "ann") -> str:
            paid.append(to)
            return "paid"

        if where == "step":
            pay = step(effect="once", layers=layers)(pay)

            @flow(name="a", store=store)
            async def buy(what: str) -> str:
                return await pay()

            return buy
        hooks = [] if held is None or where == "layer" else [_Wrap(held)]
        model = ScriptedModel(tool_call("pay") if held is not None else "done")
        tools = [stack(tool(**EFFECTS[effect])(pay), *layers)]
        return Agent(model, name="a", tools=tools, store=store, middleware=hooks)

    held = Held()
    first = agent(held)
    first = first.layered(timeout(seconds=5)) if cut == "time" else first
    handle = first.start("go", run_id="r", environment=Environment(clock=clock))
    await held.reached.wait()
    if cut == "time":
        await clock.advance(6)
    else:
        handle.cancel()
    assert isinstance((await handle.result()).stop, stops.TimedOut if cut == "time" else stops.Cancelled)
    run = await agent(None).resume("r")
    assert (run.stop, run.pending, paid) == (stops.Completed(), (), ["ann"])


@pytest.mark.parametrize(("interrupted", "store"), each(["report", "ask"], STORES), indirect=["store"])
async def test_a_call_that_is_lost_after_it_never_began_is_unknown(interrupted: Any, store: Any) -> None:
    paid: list[str] = []

    def agent(held: Held | None) -> Agent:
        @tool(effect="once", interrupted=interrupted)
        async def pay() -> str:
            paid.append("ann")
            raise ConnectionError("lost")

        model = ScriptedModel(tool_call("pay") if held is not None else "done")
        tools = [pay if held is None else stack(pay, limited(held=held))]
        return Agent(model, name="a", tools=tools, store=store)

    held = Held()
    handle = agent(held).start("go", run_id="r")
    await held.reached.wait()
    handle.cancel()
    await handle.result()
    run = await agent(None).resume("r")
    assert paid == ["ann"]
    if interrupted == "report":
        assert "unknown" in run.observations[0]
    else:
        assert [item.interrupted for item in run.pending] == [True]


@pytest.mark.parametrize("interrupted", ["report", "ask"])
async def test_an_agent_that_is_cut_off_before_its_call_began_does_not_call_it_unknown(
    interrupted: Any, store: Any
) -> None:
    clock = HandClock()

    held = Held()

    @tool(effect="once", interrupted=interrupted)
    async def pay() -> str:
        raise AssertionError

    helper = Agent(ScriptedModel(tool_call("pay")), name="helper", tools=[stack(pay, limited(held=held))], timeout=5)
    agent = Agent(ScriptedModel(tool_call("helper", input="x"), "end"), tools=[helper], store=store)
    handle = agent.start("go", environment=Environment(clock=clock))
    await held.reached.wait()
    await clock.advance(6)
    run = await handle.result()
    assert (run.text, run.pending) == ("end", ())
    assert run.observations[0].endswith("timed out after 5 s")


@pytest.mark.parametrize(("depth", "beside", "store"), each([0, 1, 2], [3, 1], KINDS), indirect=["store"])
async def test_nobody_is_asked_about_calls_that_wait_when_another_fails(depth: int, beside: int, store: Any) -> None:
    events: list[Event] = []

    @tool(approval=True)
    async def pay() -> str:
        raise AssertionError

    @tool
    async def fail() -> str:
        raise ValueError("broken")

    waiting: Any = pay
    name = "pay"
    for level in range(depth):
        call = tool_call(name, **({"input": "x"} if level else {}))
        name = f"level-{level}"
        waiting = Agent(ScriptedModel(always=call), name=name, tools=[waiting])
    arguments = {"input": "x"} if depth else {}
    calls = [tool_call(name, id=f"c{at}", **arguments) for at in range(beside)]
    box = Toolbox([waiting, fail], join="fail_fast")
    agent = Agent(ScriptedModel([*calls, tool_call("fail", id="b")], "done"), tools=box, store=store)
    run = await agent.run("go", run_id="r", listeners=[events.append])
    assert (run.stop, run.pending, run.text) == (stops.Completed(), (), "done")
    assert len(run.observations) == beside + 1
    if store is not None:
        assert await store.pending() == {}


@pytest.mark.parametrize("calls", [1, 3])
async def test_a_run_counts_the_calls_on_its_record_wherever_it_is_cancelled(calls: int, store: Any) -> None:
    @tool
    async def look() -> str:
        await asyncio.sleep(0)
        return "seen"

    for turn in range(1, 100, amount(3, 1)):
        model = ScriptedModel([tool_call("look", id=f"{number}") for number in range(calls)], "done")
        agent = Agent(model, tools=[look], store=store or LocalLogs())
        handle = agent.start("go", run_id=f"r{turn}")
        await turns(turn)
        handle.cancel()
        run = await handle.result()
        if isinstance(run.stop, stops.Completed):
            return
        try:
            journal = LocalJournal.load(await agent.record(f"r{turn}"))
        except RunNotFound:  # it had not begun
            continue
        results = [entry for entry in journal.entries if isinstance(entry, Result) and "/tool-" in entry.path]
        assert run.tool_calls == len(results)
