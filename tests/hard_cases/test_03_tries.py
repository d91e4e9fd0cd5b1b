"""Another try goes on where the last one failed; what depended on chance or time is decided once."""

import asyncio
from typing import Any

import pytest

from tests.agents.support import Folded, assert_sendable, said
from tests.hard_cases.support import ByTurn, results, results_in, run_heard, through_json
from tests.stores.places import new_store
from ziggurat import Agent, Approve, Context, Event, Runnable, Timeout, Usage, stack, tool
from ziggurat.agents import Environment
from ziggurat.core.service import Effect
from ziggurat.errors import ModelError
from ziggurat.events import Delta, Dropped, Retrying, TextDelta
from ziggurat.layers import fallback, hedge, retry, timeout
from ziggurat.messages import ModelRequest, ModelResponse, assistant, stops, tool_call
from ziggurat.stores import InMemoryStore
from ziggurat.testing import HandClock, Pause, ScriptedModel
from ziggurat.tools import FunctionTool

LOST = ModelError("lost", kind="overloaded")
EACH = Usage(10, 1, requests=1)


STREAMED = pytest.mark.parametrize("streamed", [False, True])
STORED = pytest.mark.parametrize("stored", [False, True])


class Till:
    """Something that can be paid at."""

    def __init__(self) -> None:
        self.paid: list[int] = []

    def tool(self, effect: Effect = "once") -> FunctionTool:
        @tool(effect=effect)
        async def pay(amount: int) -> str:
            """Pay."""
            self.paid.append(amount)
            return "paid"

        return pay


@STREAMED
@STORED
async def test_a_retry_around_an_agent_goes_on_where_it_failed_and_pays_once(streamed: bool, stored: bool) -> None:
    till, heard = Till(), Folded()
    model = ScriptedModel(["I will ", "pay ", tool_call("pay", amount=5)], LOST, "done", usage=EACH)
    agent = Agent(model, tools=[till.tool()], store=new_store() if stored else None).layered(retry(attempts=2, base=0))
    run = await run_heard(agent, heard, streamed)
    assert run.stop == stops.Completed()
    assert run.text == "done"
    assert till.paid == [5]
    assert len(model.calls) == 3, "the first step is not asked again, the second twice"
    assert [len(request.messages) for request in model.calls] == [1, 3, 3]
    assert (run.usage, run.model_calls, run.tool_calls, run.steps) == (Usage(20, 2, requests=3), 3, 1, 2)
    assert [type(event) for event in heard.events].count(Retrying) == 1
    assert heard.messages() == said(run)
    assert_sendable(run.messages)


@STORED
@pytest.mark.parametrize("around", ["the agent", "the tool"])
async def test_so_does_a_retry_around_a_nested_agent(stored: bool, around: str) -> None:
    till = Till()
    model = ScriptedModel(tool_call("pay", amount=5), LOST, LOST, "done", usage=EACH)
    clerk = Agent(model, name="clerk", tools=[till.tool()])
    again = retry(attempts=3, base=0)
    nested: Any = clerk.layered(again) if around == "the agent" else stack(clerk.as_tool(), again)
    outer = ScriptedModel(tool_call("clerk", input="pay"), "all done", usage=EACH)
    run = await Agent(outer, tools=[nested], store=new_store() if stored else None).run("go")
    assert run.text == "all done"
    assert results(run)[0].text == "done"
    assert till.paid == [5]
    assert len(model.calls) == 4
    assert (run.usage, run.model_calls, run.tool_calls) == (Usage(40, 4, requests=6), 6, 2)


@STREAMED
async def test_when_the_tries_run_out_a_resume_asks_again_and_does_not_pay_again(streamed: bool) -> None:
    till = Till()

    def agent(model: ScriptedModel, store: InMemoryStore) -> Runnable:
        return Agent(model, tools=[till.tool()], store=store).layered(retry(attempts=2, base=0))

    store = new_store()
    first = ScriptedModel(tool_call("pay", amount=5), LOST, LOST, usage=EACH)
    run = await run_heard(agent(first, store), Folded(), streamed)
    assert run.stop == stops.Failed("lost", "ModelError")
    assert till.paid == [5]
    assert_sendable(run.messages)
    assert [result.text for result in results(run)] == ["paid"]

    second = ScriptedModel(LOST, "done", usage=EACH)
    store = through_json(store, "r")
    run = await agent(second, store).resume("r")
    assert run.text == "done"
    assert till.paid == [5]
    assert len(second.calls) == 2, "it has two tries again, and the first step is on record"
    assert (run.usage, run.tool_calls) == (Usage(20, 2, requests=5), 1), "the lost tries count, those before too"
    never = ScriptedModel(RuntimeError("asked again"))
    assert (await agent(never, store).replay("r")).messages == run.messages
    assert never.calls == []


async def test_tries_are_answered_in_order_by_the_record() -> None:
    """A resume and a replay see the failed try, then the answer, and wait for nothing in between."""
    till, store = Till(), new_store()

    @tool(approval=True)
    async def ship() -> str:
        """Ship."""
        return "shipped"

    def agent(model: ScriptedModel, store: InMemoryStore) -> Runnable:
        return Agent(model, tools=[till.tool(), ship], store=store).layered(retry(attempts=2, base=30, jitter="none"))

    clock = HandClock(auto=True)
    first = ScriptedModel(tool_call("pay", amount=5), LOST, tool_call("ship"), usage=EACH)
    run = await agent(first, store).run("go", run_id="r", environment=Environment(clock=clock))
    assert clock.monotonic() == 30
    (item,) = run.pending
    clock = HandClock(auto=True)
    second = ScriptedModel("done", usage=EACH)
    run = await agent(second, through_json(store, "r", clock)).resume(
        "r", {item.id: Approve()}, environment=Environment(clock=clock)
    )
    assert run.text == "done"
    assert till.paid == [5]
    assert clock.monotonic() == 0, "the wait is over, and is not waited again"
    assert (run.usage, run.tool_calls) == (Usage(30, 3, requests=4), 2)


@STREAMED
async def test_a_fallback_from_one_model_to_another_gives_the_others_own_answer_also_on_replay(streamed: bool) -> None:
    def agent(first: ScriptedModel, second: ScriptedModel, store: InMemoryStore) -> Agent:
        return Agent(fallback(first, second), store=store)

    store, heard = new_store(), Folded()
    a = ScriptedModel(["A says ", LOST], name="a", usage=EACH)
    b = ScriptedModel("B says hello", name="b", usage=EACH)
    run = await run_heard(agent(a, b, store), heard, streamed)
    assert run.text == "B says hello"
    assert heard.messages() == said(run)
    never = ScriptedModel(RuntimeError("asked again"), name="a"), ScriptedModel(RuntimeError("asked again"), name="b")
    for where in (store, through_json(store, "r")):
        again = await agent(*never, where).replay("r")
        assert again.messages == run.messages
        assert again.usage == run.usage
    assert never[0].calls == never[1].calls == []


@STREAMED
async def test_a_fallback_from_one_agent_to_another_never_mixes_their_records(streamed: bool) -> None:
    """Both agents have the same paths below them but for the alternative's name."""
    till, heard, store = Till(), Folded(), new_store()

    def both(a: Any, b: Any, store: InMemoryStore) -> Runnable:
        first = Agent(a, name="first", tools=[till.tool("repeatable")])
        second = Agent(b, name="second", tools=[till.tool("repeatable")])
        return Runnable(fallback(first, second), name="either", store=store)

    a = ScriptedModel(tool_call("pay", amount=1), LOST, usage=EACH)
    b = ScriptedModel(tool_call("pay", amount=2), "B's own", usage=EACH)
    run = await run_heard(both(a, b, store), heard, streamed)
    assert run.text == "B's own"
    assert run.agent == "second"
    assert till.paid == [1, 2]
    assert [len(request.messages) for request in b.calls] == [1, 3], "B begins at the beginning"
    assert heard.messages() == said(run)
    assert run.usage.requests == 4, "what A cost is counted too"
    never = ScriptedModel(RuntimeError("asked again"))
    for where in (store, through_json(store, "r")):
        again = await both(never, never, where).replay("r")
        assert again.messages == run.messages
        assert again.usage == run.usage
    assert never.calls == []
    assert till.paid == [1, 2]


async def test_on_resume_the_alternative_that_failed_stays_failed() -> None:
    @tool(approval=True)
    async def ship() -> str:
        """Ship."""
        return "shipped"

    def both(a: Any, b: Any, store: InMemoryStore) -> Runnable:
        return Runnable(fallback(Agent(a, name="first"), Agent(b, name="second", tools=[ship])), name="e", store=store)

    store = new_store()
    run = await both(ScriptedModel(LOST), ByTurn(tool_call("ship"), "B's own"), store).run("go", run_id="r")
    (item,) = run.pending
    healthy = ScriptedModel("A is well again")
    store = through_json(store, "r")
    run = await both(healthy, ByTurn("never", "B's own"), store).resume("r", {item.id: Approve()})
    assert run.text == "B's own"
    assert healthy.calls == []


class Slow:
    """A model that says some of its answer and then takes its time; it knows what it cost when it is cancelled."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    async def __call__(self, request: ModelRequest, ctx: Context, /) -> ModelResponse:
        await ctx.emit(Delta(ctx.path, TextDelta("slow ")))
        try:
            await ctx.clock.sleep(self.seconds)
        except asyncio.CancelledError as error:
            error.usage = Usage(7, 3, requests=1)  # type: ignore[attr-defined]
            raise
        await ctx.emit(Delta(ctx.path, TextDelta("answer")))
        return ModelResponse(assistant("slow answer"), usage=EACH)


@STREAMED
@pytest.mark.parametrize("order", ["slow first", "quick first"])
async def test_of_a_hedge_the_losers_pieces_are_dropped_and_both_are_paid_for(streamed: bool, order: str) -> None:
    heard, store = Folded(), new_store()
    quick = ScriptedModel(["quick ", Pause(2), "answer"], usage=EACH)
    pair = (Slow(100), quick) if order == "slow first" else (quick, Slow(100))
    agent = Agent(hedge(*pair, delay=1), store=store)
    run = await run_heard(agent, heard, streamed, environment=Environment(clock=HandClock(auto=True)))
    assert run.text == "quick answer"
    assert heard.messages() == said(run)
    dropped = [event.path for event in heard.events if isinstance(event, Dropped)]
    assert dropped, "the loser's pieces were shown, and are taken back"
    assert not any(isinstance(event, Delta) for event in _after_drop(heard.events, dropped[0]))
    assert run.usage == Usage(17, 4, requests=2)
    calls = len(quick.calls)
    again = await Agent(hedge(*pair, delay=1), store=through_json(store, "r")).replay("r")
    assert len(quick.calls) == calls
    assert (again.messages, again.usage) == (run.messages, run.usage)


def _after_drop(events: list[Event], path: str) -> list[Event]:
    at = max(n for n, event in enumerate(events) if isinstance(event, Dropped) and event.path == path)
    return [event for event in events[at:] if event.path == path]


@STREAMED
async def test_of_a_hedge_of_agents_too(streamed: bool) -> None:
    heard, store = Folded(), new_store()
    slow = Agent(Slow(100), name="slow")
    quick = Agent(ScriptedModel(["quick ", "answer"], usage=EACH), name="quick")
    pair = Runnable(hedge(slow, quick, delay=1), name="pair", store=store)
    run = await run_heard(pair, heard, streamed, environment=Environment(clock=HandClock(auto=True)))
    assert (run.text, run.agent) == ("quick answer", "quick")
    assert heard.messages() == said(run)
    never = ScriptedModel(RuntimeError("asked again"))
    agents = [Agent(never, name=name) for name in ("slow", "quick")]
    pair = Runnable(hedge(*agents, delay=1), name="pair", store=through_json(store, "r"))
    again = await pair.replay("r")
    assert again.messages == run.messages
    assert never.calls == []


def _hangs(clerk_model: Any, outer_model: Any, store: InMemoryStore, around: str) -> tuple[Agent, list[str]]:
    shipped: list[str] = []

    @tool(approval=True)
    async def ship(what: str) -> str:
        """Ship."""
        shipped.append(what)
        return "shipped"

    clerk = Agent(clerk_model, name="clerk")
    if around == "on the agent":
        nested: Any = clerk.layered(timeout(seconds=5))
    elif around == "on the tool":
        nested = stack(clerk.as_tool(), timeout(seconds=5))
    elif around == "the agent's own":
        nested = Agent(clerk_model, name="clerk", timeout=5)
    else:
        limited = clerk.layered(timeout(seconds=5))

        @tool(name="clerk")
        async def nested(input: str) -> str:  # noqa: A002
            """Ask the clerk."""
            try:
                return (await limited.run(input)).text
            except Timeout:
                return "the clerk timed out"

    return Agent(outer_model, tools=[nested, ship], store=store), shipped


@pytest.mark.parametrize("around", ["on the agent", "on the tool", "the agent's own", "in a tool"])
@pytest.mark.parametrize("together", [False, True])
async def test_a_timeout_around_a_nested_agent_that_fired_stays_fired_on_resume(around: str, together: bool) -> None:
    ask = tool_call("clerk", id="call_0", input="hello")
    ship = tool_call("ship", id="call_1", what="it")
    turns: list[Any] = [[ask, ship], "done"] if together else [ask, ship, "done"]
    store, clock = new_store(), HandClock(auto=True)
    slow = ScriptedModel(["Let me see ", Pause(100), "hello"])
    agent, _ = _hangs(slow, ByTurn(*turns), store, around)
    run = await agent.run("go", run_id="r", environment=Environment(clock=clock))
    assert 5 <= clock.monotonic() < 7
    (item,) = run.pending

    clock = HandClock(auto=True)
    healthy = ScriptedModel(always="hello")
    outer = ByTurn(*turns)
    agent, shipped = _hangs(healthy, outer, through_json(store, "r", clock), around)
    run = await agent.resume("r", {item.id: Approve()}, environment=Environment(clock=clock))
    assert run.text == "done"
    assert shipped == ["it"]
    assert healthy.calls == [], "the verdict stands, though the clerk would answer now"
    told = next(result for result in results_in(outer.asked[-1]) if result.id == "call_0")
    assert "timed out" in told.text
    assert told.error == (None if around == "in a tool" else "timeout")


async def test_a_timeout_that_fired_in_a_tool_stays_fired_when_the_tool_itself_is_run_again() -> None:
    """The tool goes on after the verdict to something that waits; on resume it runs from its beginning."""
    deleted: list[str] = []

    @tool(approval=True)
    async def delete(what: str) -> str:
        """Delete."""
        deleted.append(what)
        return "deleted"

    def agent(clerk_model: Any, store: InMemoryStore) -> Agent:
        clerk = Agent(clerk_model, name="clerk").layered(timeout(seconds=5))
        helper = Agent(ByTurn(tool_call("delete", what="it"), "helped"), name="helper", tools=[delete])

        @tool
        async def both(question: str) -> str:
            """Ask both."""
            try:
                said = (await clerk.run(question)).text
            except Timeout:
                said = "nothing"
            return f"{said}, {(await helper.run(said)).text}"

        return Agent(ByTurn(tool_call("both", question="?"), "done"), tools=[both], store=store)

    store = new_store()
    slow = ScriptedModel([Pause(100), "hello"])
    run = await agent(slow, store).run("go", run_id="r", environment=Environment(clock=HandClock(auto=True)))
    (item,) = run.pending
    healthy, clock = ScriptedModel(always="hello"), HandClock(auto=True)
    store = through_json(store, "r", clock)
    run = await agent(healthy, store).resume("r", {item.id: Approve()}, environment=Environment(clock=clock))
    assert run.text == "done"
    assert results(run)[0].text == "nothing, helped"
    assert healthy.calls == []
    assert deleted == ["it"]


async def test_a_retry_around_a_timeout_gives_each_try_its_own_time_and_keeps_what_was_done() -> None:
    till, clock = Till(), HandClock(auto=True)
    model = ScriptedModel(tool_call("pay", amount=5), [Pause(100), "late"], "done", usage=EACH)
    clerk = Agent(model, name="clerk", tools=[till.tool()])
    outer = ByTurn(tool_call("clerk", input="pay"), "all done")
    agent = Agent(outer, tools=[clerk.layered(retry(attempts=2, base=0), timeout(seconds=5))])
    run = await agent.run("go", run_id="r", environment=Environment(clock=clock))
    assert results(run)[0].text == "done"
    assert till.paid == [5]
    assert 5 <= clock.monotonic() < 7


async def test_an_effect_that_a_timeout_interrupted_is_not_done_again_but_reported() -> None:
    begun: list[str] = []
    clock = HandClock(auto=True)

    @tool(effect="once", interrupted="report")
    async def transfer(to: str, ctx: Context) -> str:
        """Transfer."""
        begun.append(to)
        await ctx.clock.sleep(100)
        return "transferred"

    model = ByTurn(tool_call("transfer", to="bob"), "looked into it")
    clerk = Agent(model, name="clerk", tools=[transfer])
    outer = ByTurn(tool_call("clerk", input="pay"), "all done")
    agent = Agent(outer, tools=[clerk.layered(retry(attempts=2, base=0), timeout(seconds=5))])
    run = await agent.run("go", run_id="r", environment=Environment(clock=clock))
    assert begun == ["bob"]
    (told,) = results_in(model.asked[-1])
    assert told.error == "interrupted"
    assert results(run)[0].text == "looked into it"
