"""The tool calls of one reply: concurrent, in order, each with a result; which had begun when they were cancelled."""

import asyncio
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import pytest

from tests.agents.support import assert_sendable, elsewhere, turns
from tests.samples import amount, pairs, rows, sample
from tests.stores import places
from tests.stores.places import STORES, new_store
from ziggurat import Agent, Approve, Context, Deny, Event, Runnable, Service, Toolbox, layer, stack, tool
from ziggurat.agents import AgentRun, Approvals, Decision, Environment, PendingItem, Rule
from ziggurat.errors import ConfigurationError, RunNotFound
from ziggurat.events import ToolEnded
from ziggurat.flows import flow, step
from ziggurat.journal import LocalJournal
from ziggurat.journal.entries import Result
from ziggurat.layers import timeout
from ziggurat.messages import ToolCall, ToolResult, assistant, stops, tool_call
from ziggurat.middleware import Middleware
from ziggurat.stores import InMemoryStore, pending
from ziggurat.testing import HandClock, ScriptedModel, assert_no_leaks
from ziggurat.tools import quorum_join


class Order:
    """Records when tools begin and end."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.running = 0
        self.most = 0

    def tool(self) -> Any:
        async def work(ctx: Context, name: str, seconds: float) -> str:
            self.seen.append(f"+{name}")
            self.running += 1
            self.most = max(self.most, self.running)
            try:
                await ctx.clock.sleep(seconds)
            except asyncio.CancelledError:
                self.seen.append(f"x{name}")
                raise
            finally:
                self.running -= 1
            self.seen.append(f"-{name}")
            if name.startswith("bad"):
                raise RuntimeError(f"{name} broke")
            return name

        return work


def _run(box: Toolbox, *calls: ToolCall) -> AgentRun:
    async def run() -> AgentRun:
        async with assert_no_leaks():
            agent = Agent(ScriptedModel(list(calls), "done"), tools=box)
            return await agent.run("go", environment=Environment(clock=HandClock(auto=True)))

    return asyncio.run(run())


def _works(*names: str) -> list[ToolCall]:
    return [tool_call("work", name=name, seconds=float(len(names) - at)) for at, name in enumerate(names)]


def test_calls_run_at_once_and_results_stand_in_the_order_of_the_calls() -> None:
    order = Order()
    run = _run(Toolbox([order.tool()]), *_works("a", "b", "c"))
    assert order.seen == ["+a", "+b", "+c", "-c", "-b", "-a"]
    assert run.observations == ("a", "b", "c")


@pytest.mark.parametrize("limit", [1, 2, 3, 10])
def test_concurrency_is_limited(limit: int) -> None:
    order = Order()
    run = _run(Toolbox([order.tool()], concurrency=limit), *_works("a", "b", "c", "d"))
    assert order.most == min(limit, 4)
    assert run.observations == ("a", "b", "c", "d")


def test_a_failure_leaves_its_siblings_alone() -> None:
    run = _run(Toolbox([Order().tool()]), *_works("a", "bad", "c"))
    assert run.observations == ("a", "RuntimeError: bad broke", "c")
    assert [result.error for message in run.messages for result in message.tool_results] == [None, "permanent", None]
    assert run.stop == stops.Completed()


def test_fail_fast_cancels_the_others_and_says_so() -> None:
    order = Order()
    run = _run(Toolbox([order.tool()], join="fail_fast"), *_works("a", "b", "bad"))
    assert order.seen == ["+a", "+b", "+bad", "-bad", "xa", "xb"]
    assert run.observations[2] == "RuntimeError: bad broke"
    assert all(text.startswith("interrupted: another call of the batch failed") for text in run.observations[:2])
    assert_sendable(run.messages)


@pytest.mark.parametrize("join", ["join_all", "fail_fast"])
def test_a_failure_may_end_the_run(join: Literal["join_all", "fail_fast"]) -> None:
    run = _run(Toolbox([Order().tool()], join=join, on_error="raise"), *_works("a", "b", "bad"))
    assert isinstance(run.stop, stops.Failed)
    assert "bad broke" in run.stop.error
    assert run.stop.kind == "ToolError"
    assert [message.role for message in run.messages] == ["user"]
    assert_sendable(run.messages)


def test_every_failure_is_named_when_all_are_waited_for() -> None:
    run = _run(Toolbox([Order().tool()], on_error="raise"), *_works("bad1", "b", "bad2"))
    assert isinstance(run.stop, stops.Failed)
    assert "bad1 broke" in run.stop.error
    assert "bad2 broke" in run.stop.error


async def test_one_call_among_others_that_waits_lets_them_finish_and_be_kept() -> None:
    did: list[str] = []

    @tool(approval=True)
    async def ask(what: str) -> str:
        did.append(what)
        return what

    @tool(effect="once")
    async def do(what: str) -> str:
        await asyncio.sleep(0)
        did.append(what)
        return what

    calls = [tool_call("ask", what="a", id="1"), tool_call("do", what="b", id="2"), tool_call("ask", what="c", id="3")]

    agent = Agent(ScriptedModel(calls, "done"), tools=[ask, do])
    suspended = await agent.run("go")
    assert did == ["b"]
    assert [item.call.id for item in suspended.pending] == ["1", "3"]
    assert [message.role for message in suspended.messages] == ["user"]
    first, second = suspended.pending
    half = await agent.resume(suspended.id, {first.id: Approve()})
    assert half.pending == (second,)
    assert did == ["b", "a"]
    went = await agent.resume(suspended.id, {second.id: Deny("not today")})
    assert did == ["b", "a"]
    assert went.observations[:2] == ("a", "b")
    assert "not today" in went.observations[2]
    assert went.messages[-2].tool_results[0].error == "denied"
    assert went.tool_calls == 3
    assert_sendable(went.messages)


def test_unknown_tools_get_near_names() -> None:
    run = Agent(ScriptedModel(tool_call("ecko"), "done"), tools=[tool(name="echo")(lambda: "x")]).run_sync("go")
    assert run.messages[2].tool_results[0].error == "not_found"
    assert "echo" in run.observations[0]


async def test_calls_that_fail_fast_cancelled_are_counted_and_told_of_as_they_are_on_resume() -> None:
    @tool
    async def fails() -> str:
        raise ValueError("no")

    @tool
    async def waits() -> str:
        await asyncio.get_running_loop().create_future()
        return ""

    calls = assistant(tool_call("fails", id="1"), tool_call("waits", id="2"))
    agent = Agent(
        ScriptedModel(calls, ConnectionError("lost"), "done"), tools=Toolbox([fails, waits], join="fail_fast")
    )

    ended: list[str] = []

    def listen(event: Event) -> None:
        if isinstance(event, ToolEnded):
            ended.append(event.call.name)

    first = await agent.run("go", run_id="r", listeners=[listen])
    again = await agent.resume("r")
    assert (first.tool_calls, again.tool_calls, again.text) == (2, 2, "done")
    assert ended == ["fails", "waits"]


@pytest.mark.parametrize("slow", [0, 2])
async def test_a_quorum_of_successes_is_enough_and_the_rest_is_answered_on_record(slow: int) -> None:
    went: list[str] = []

    @tool
    async def ask(who: int) -> str:
        went.append(f"+{who}")
        if who == slow:
            raise ValueError("not at home")
        for _ in range(5 * who):
            await asyncio.sleep(0)
        went.append(f"-{who}")
        return f"{who} says yes"

    calls = [tool_call("ask", who=who, id=f"call_{who}") for who in range(4)]

    store = InMemoryStore()
    agent = Agent(ScriptedModel(assistant(*calls), "done"), tools=Toolbox([ask], join=quorum_join(2)), store=store)
    run = await agent.run("go", run_id="r")
    first = [who for who in range(4) if who != slow][:2]
    assert [f"-{who}" for who in first] == [each for each in went if each.startswith("-")]
    for who, told in enumerate(run.observations):
        if who in first:
            assert told == f"{who} says yes"
        elif who == slow:
            assert told == "ValueError: not at home"
        else:
            assert told.startswith("interrupted: enough other calls have succeeded while this one ran")
    assert_sendable(run.messages)
    assert run.tool_calls == 4
    made = len(went)
    again = Agent(ScriptedModel("never"), tools=Toolbox([ask], join=quorum_join(2)), store=elsewhere(store, "r"))
    replayed = await again.replay("r")
    assert (replayed.messages, replayed.tool_calls, replayed.stop) == (run.messages, 4, stops.Completed())
    assert len(went) == made


def test_calls_that_did_not_begin_before_a_quorum_was_reached_were_not_executed() -> None:
    box = Toolbox([Order().tool()], concurrency=1, join=quorum_join(1))
    run = _run(box, *_works("bad", "b", "c", "d"))
    assert run.observations[:2] == ("RuntimeError: bad broke", "b")
    assert run.observations[3] == "not executed: enough other calls have succeeded"


def test_a_quorum_that_cannot_be_reached_lets_all_finish() -> None:
    run = _run(Toolbox([Order().tool()], join=quorum_join(5)), *_works("a", "bad", "c"))
    assert run.observations == ("a", "RuntimeError: bad broke", "c")


def test_failures_beside_a_quorum_do_not_end_the_run() -> None:
    run = _run(Toolbox([Order().tool()], join=quorum_join(2), on_error="raise"), *_works("a", "bad", "c"))
    assert run.stop == stops.Completed()
    run = _run(Toolbox([Order().tool()], join=quorum_join(2), on_error="raise"), *_works("bad", "bad", "c"))
    assert isinstance(run.stop, stops.Failed)


def test_a_call_that_waits_for_a_person_is_not_needed_once_a_quorum_is_reached() -> None:
    @tool(approval=True)
    async def sign(what: str) -> str:
        return what

    calls = [tool_call("sign", what="x", id="1"), *_works("a")]
    run = _run(Toolbox([sign, Order().tool()], join=quorum_join(1)), *calls)
    assert run.observations == ("not executed: enough other calls have succeeded", "a")
    assert (run.stop, run.pending) == (stops.Completed(), ())


@pytest.mark.parametrize("count", [0, -1, True, "2"])
def test_a_quorum_is_a_whole_number(count: Any) -> None:
    with pytest.raises(ConfigurationError, match="at least 1"):
        quorum_join(count)


def test_join_policies_are_named_when_another_is_given() -> None:
    with pytest.raises(ConfigurationError, match=r"quorum\(n\)"):
        Toolbox(join="most")  # type: ignore[arg-type]
    assert repr(quorum_join(2)) == "quorum(2)"


async def test_what_was_answered_before_stays_answered_when_a_slow_listener_lets_a_quorum_come_first() -> None:
    @tool
    async def ask(who: str) -> str:
        return f"{who} says yes"

    both = assistant(tool_call("ask", who="ann", id="1"), tool_call("ask", who="ben", id="2"))
    agent = Agent(ScriptedModel(both, ConnectionError("lost"), "done"), tools=Toolbox([ask], join=quorum_join(1)))

    async def slowly(event: Event) -> None:
        if isinstance(event, ToolEnded) and event.call.id == "2":
            for _ in range(20):
                await asyncio.sleep(0)

    first = await agent.run("go", run_id="r")
    again = await agent.resume("r", listeners=[slowly])
    assert first.observations == again.observations == ("ann says yes", "ben says yes")
    assert (first.tool_calls, again.tool_calls, again.text) == (2, 2, "done")


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
    "once, report": {"effect": "once", "interrupted": "report"},
}


@pytest.mark.parametrize(
    ("where", "effect", "first", "store"),
    [
        *sample(pairs(NOT_YET, EFFECTS, ["pay", "fail"], KINDS), 12),
        *rows(["tool"], ["none", "repeatable"], ["pay", "fail"], KINDS),  # for the others see test_unknown_outcome
    ],
    indirect=["store"],
)
async def test_a_call_is_interrupted_if_it_has_begun(where: str, first: str, effect: str, store: Any) -> None:
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
    rows(["wrap", "layer", "step"], EFFECTS, ["handle", "time"], STORES),
    indirect=["store"],
)
async def test_a_call_that_had_not_begun_is_made_on_resume(cut: str, where: str, effect: str, store: Any) -> None:
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
        await handle.cancel()
    assert isinstance((await handle.result()).stop, stops.TimedOut if cut == "time" else stops.Cancelled)
    run = await agent(None).resume("r")
    assert (run.stop, run.pending, paid) == (stops.Completed(), (), ["ann"])


@pytest.mark.parametrize(("interrupted", "store"), rows(["report", "ask"], STORES), indirect=["store"])
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
    await handle.cancel()
    await handle.result()
    run = await agent(None).resume("r")
    assert paid == ["ann"]
    if interrupted == "report":
        assert "unknown" in run.observations[0]
    else:
        assert [item.interrupted for item in run.pending] == [True]


@pytest.mark.parametrize("interrupted", ["report", "ask"])
async def test_a_time_limit_before_a_call_leaves_nothing_unknown(interrupted: Any, store: Any) -> None:
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


@pytest.mark.parametrize(("depth", "beside", "store"), rows([0, 1, 2], [3, 1], KINDS), indirect=["store"])
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
        assert await pending(store) == {}


@pytest.mark.parametrize("calls", [1, 3])
async def test_a_run_counts_the_calls_on_its_record_wherever_it_is_cancelled(calls: int, store: Any) -> None:
    @tool
    async def look() -> str:
        await asyncio.sleep(0)
        return "seen"

    for turn in range(1, 100, amount(3, 1)):
        model = ScriptedModel([tool_call("look", id=f"{number}") for number in range(calls)], "done")
        agent = Agent(model, tools=[look], store=store or InMemoryStore())
        handle = agent.start("go", run_id=f"r{turn}")
        await turns(turn)
        await handle.cancel()
        run = await handle.result()
        if isinstance(run.stop, stops.Completed):
            return
        try:
            journal = LocalJournal.load(await agent.record(f"r{turn}"))
        except RunNotFound:  # it had not begun
            continue
        results = [entry for entry in journal.entries if isinstance(entry, Result) and "/tool-" in entry.path]
        assert run.tool_calls == len(results)
