"""A call deep down waits for a person; everything around it is kept, and another process goes on."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.agents.support import assert_sendable
from tests.hard_cases.support import ByTurn, entries_of, record, results_in, through_json
from tests.stores.places import new_store
from tests.wrong import wrong
from ziggurat import (
    Agent,
    AgentRun,
    Approvals,
    Approve,
    Budget,
    ConfigurationError,
    Context,
    Deny,
    Middleware,
    Modify,
    Runnable,
    Usage,
    stack,
    tool,
)
from ziggurat.core.codec import as_type
from ziggurat.errors import AlreadyDecided
from ziggurat.journal.entries import Decided, Intent
from ziggurat.layers import CacheStore, cache, fallback, hedge, retry, timeout
from ziggurat.messages import ToolCall, ToolResult, stops, tool_call
from ziggurat.stores import InMemoryStore

BYTES = '{ "amount":  "5",\n "to": "b\\u00f6b" }'
"""The arguments as the model writes them."""

FROZEN = '{"amount":5.0,"to":"böb"}'
"""The arguments as they are shown, approved and executed."""


class World:
    """What was done, in all processes together."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.bytes: list[str] = []


class Spy(Middleware):
    """Sees the bytes that reach the tool that pays."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def wrap_tool(self, call: ToolCall, ctx: Context, tool: Any) -> ToolResult:
        if call.name == "pay":
            self.world.bytes.append(call.arguments)
        result: ToolResult = await tool(call, ctx)
        return result


class Process:
    """Everything one process makes again: models, tools, agents and a store."""

    def __init__(self, world: World, around: str, store: InMemoryStore, *, mail_waits: bool = False) -> None:
        @tool(effect="once", approval=True)
        async def pay(amount: float, to: str) -> str:
            """Pay."""
            world.done.append(f"pay {amount:g} to {to}")
            return "paid"

        @tool
        async def rate(currency: str) -> str:
            """Exchange rate."""
            await asyncio.sleep(0)
            world.done.append(f"rate {currency}")
            return "1.1"

        @tool
        def balance() -> str:
            """Balance."""
            world.done.append("balance")
            return "100"

        @tool
        async def look(what: str) -> str:
            """Look something up."""
            world.done.append(f"look {what}")
            return "found"

        @tool(effect="once", approval=mail_waits)
        async def mail(text: str) -> str:
            """Send a mail."""
            for _ in range(20):
                await asyncio.sleep(0)
            world.done.append(f"mail {text}")
            return "sent"

        self.inner = ByTurn(
            [
                tool_call("rate", id="call_0", currency="EUR"),
                ToolCall("call_1", "pay", BYTES),
                tool_call("balance", id="call_2"),
            ],
            lambda request: "settled: " + " | ".join(result.text for result in results_in(request)),
            name="inner_model",
        )
        self.outer = ByTurn(
            [
                tool_call("clerk", id="call_0", input="settle the bill"),
                tool_call("look", id="call_1", what="weather"),
                tool_call("mail", id="call_2", text="hello"),
            ],
            "all done",
            name="outer_model",
        )
        self.store = store
        self.clerk = clerk = Agent(self.inner, name="clerk", tools=[rate, pay, balance], budget=Budget(tokens=100_000))
        self.agent = Agent(
            self.outer, tools=[AROUND[around](clerk), look, mail], middleware=[Spy(world)], store=store, name="desk"
        )


CACHE = CacheStore()

AROUND: dict[str, Callable[[Agent], Any]] = {
    "retry on the agent": lambda agent: agent.layered(retry(attempts=3, base=0)),
    "retry on the tool": lambda agent: stack(agent.as_tool(), retry(attempts=3, base=0)),
    "cache": lambda agent: stack(agent.as_tool(), cache(store=CACHE)),
    "retry, cache and timeout": lambda agent: agent.layered(
        retry(attempts=2, base=0), cache(store=CACHE), timeout(seconds=600)
    ),
    "fallback": lambda agent: Runnable(fallback(agent, agent), name="clerk"),
}


def test_a_race_of_an_agent_whose_tools_have_effects_is_refused() -> None:
    clerk = Process(World(), "fallback", new_store()).clerk
    services: list[Any] = [clerk, clerk.as_tool(), clerk.layered(retry())]
    for each in services:
        with pytest.raises(ConfigurationError, match=r"clerk has effects \(once\)"):
            hedge(each, delay=600)


EACH_WAY = pytest.mark.parametrize("around", AROUND)


@pytest.fixture(autouse=True)
def _empty_cache() -> None:
    CACHE.clear()


async def _suspended(process: Process, streamed: bool = False) -> AgentRun:
    async def read() -> AgentRun:
        async with process.agent.stream("go", run_id="r", buffer=1) as events:
            async for _ in events:
                await asyncio.sleep(0)
        return events.response

    run = await (read() if streamed else process.agent.run("go", run_id="r"))
    assert run.stop == stops.Suspended()
    assert run.id == "r"
    assert [message.role for message in run.messages] == ["user"], "the suspended step is kept out"
    return run


def _next(world: World, around: str, process: Process, **options: Any) -> Process:
    CACHE.clear()  # a new process has its own
    return Process(world, around, through_json(process.store, "r"), **options)


async def _waiting(around: str, **options: Any) -> tuple[World, Process, Any]:
    """Return the world, a process after the one in which the run was suspended, and the first call that waits."""
    world = World()
    first = Process(world, around, new_store(), **options)
    run = await _suspended(first)
    return world, _next(world, around, first, **options), run.pending[0]


@EACH_WAY
@pytest.mark.parametrize("streamed", [False, True])
async def test_an_approval_deep_down_suspends_the_run_and_another_process_goes_on(around: str, streamed: bool) -> None:
    world = World()
    first = Process(world, around, new_store())
    run = await _suspended(first, streamed)
    assert sorted(world.done) == ["balance", "look weather", "mail hello", "rate EUR"], "siblings at both levels finish"
    (item,) = run.pending
    assert (item.call.id, item.call.name, item.call.arguments) == ("call_1", "pay", FROZEN)
    assert item.path.startswith("desk/step-1/tool-1:clerk/")
    assert item.path.endswith("/step-1/tool-2:pay")
    assert not CACHE, "a suspension is not an answer to be kept"

    second = _next(world, around, first)
    run = await second.agent.resume("r", {item.id: Approve()})
    assert run.stop == stops.Completed()
    assert run.text == "all done"
    assert run.pending == ()
    assert sorted(world.done) == ["balance", "look weather", "mail hello", "pay 5 to böb", "rate EUR"]
    assert world.bytes == [FROZEN]
    entries = await entries_of(second.store, "r")
    (intent,) = [each for each in entries if isinstance(each, Intent) and each.name == "pay"]
    assert as_type(intent.request, ToolCall).arguments == FROZEN
    assert_sendable(run.messages)

    assert len(first.outer.asked) == len(first.inner.asked) == 1
    assert len(second.outer.asked) == len(second.inner.asked) == 1, "no question is asked twice"
    assert [result.text for result in results_in(second.inner.asked[0])] == ["1.1", "paid", "100"]
    shown = results_in(second.outer.asked[0])
    assert [(result.id, result.text) for result in shown] == [
        ("call_0", "settled: 1.1 | paid | 100"),
        ("call_1", "found"),
        ("call_2", "sent"),
    ]
    assert (run.usage, run.model_calls, run.tool_calls) == (Usage(40, 4, requests=4), 4, 6)


@EACH_WAY
async def test_what_was_approved_and_done_replays_without_a_call(around: str) -> None:
    world, second, item = await _waiting(around)
    run = await second.agent.resume("r", {item.id: Approve()})
    third = _next(world, around, second)
    done = list(world.done)
    again = await third.agent.replay("r")
    assert (again.messages, again.stop, again.usage) == (run.messages, run.stop, run.usage)
    assert world.done == done
    assert third.outer.asked == third.inner.asked == []


@EACH_WAY
async def test_resumed_without_a_decision_it_waits_on_and_nothing_runs(around: str) -> None:
    world, second, item = await _waiting(around)
    done = list(world.done)
    run = await second.agent.resume("r")
    assert run.stop == stops.Suspended()
    assert run.pending == (item,)
    assert world.done == done
    assert second.outer.asked == second.inner.asked == []
    third = _next(world, around, second)
    assert (await third.agent.resume("r", {item.id: Approve()})).text == "all done"
    assert world.done.count("pay 5 to böb") == 1


@EACH_WAY
async def test_the_same_process_goes_on_as_another_would(around: str) -> None:
    world = World()
    process = Process(world, around, new_store())
    (item,) = (await _suspended(process)).pending
    run = await process.agent.resume("r", {item.id: Approve()})
    assert run.text == "all done"
    assert sorted(world.done) == ["balance", "look weather", "mail hello", "pay 5 to böb", "rate EUR"]
    assert (run.usage, run.tool_calls) == (Usage(40, 4, requests=4), 6)


@EACH_WAY
async def test_denied_the_inner_model_is_told_why_and_the_tool_is_not_run(around: str) -> None:
    world, second, item = await _waiting(around)
    run = await second.agent.resume("r", {item.id: Deny("too expensive")})
    assert run.text == "all done"
    assert not any(deed.startswith("pay") for deed in world.done)
    told = results_in(second.inner.asked[0])[1]
    assert (told.id, told.error) == ("call_1", "denied")
    assert "too expensive" in told.text


@EACH_WAY
async def test_modified_the_new_arguments_are_executed(around: str) -> None:
    world, second, item = await _waiting(around)
    run = await second.agent.resume("r", {item.id: Modify('{"to": "eve",   "amount": 3}')})
    assert run.text == "all done"
    assert [deed for deed in world.done if deed.startswith("pay")] == ["pay 3 to eve"]
    assert world.bytes == ['{"amount":3.0,"to":"eve"}']


@EACH_WAY
async def test_two_wait_at_once_and_are_decided_one_by_one(around: str) -> None:
    world = World()
    first = Process(world, around, new_store(), mail_waits=True)
    pay, mail = (await _suspended(first)).pending
    assert (pay.call.name, mail.call.name) == ("pay", "mail")
    assert sorted(world.done) == ["balance", "look weather", "rate EUR"]

    second = _next(world, around, first, mail_waits=True)
    run = await second.agent.resume("r", {mail.id: Approve()})
    assert (run.stop, run.pending) == (stops.Suspended(), (pay,))
    assert world.done.count("mail hello") == 1

    third = _next(world, around, second, mail_waits=True)
    with pytest.raises(AlreadyDecided):
        await third.agent.resume("r", {mail.id: Deny(), pay.id: Approve()})
    assert not any(deed.startswith("pay") for deed in world.done), "one wrong decision, and none is taken"
    run = await third.agent.resume("r", {pay.id: Approve()})
    assert run.text == "all done"
    assert sorted(world.done) == ["balance", "look weather", "mail hello", "pay 5 to böb", "rate EUR"]


@EACH_WAY
async def test_two_wait_at_once_and_are_decided_together(around: str) -> None:
    world = World()
    first = Process(world, around, new_store(), mail_waits=True)
    pay, mail = (await _suspended(first)).pending
    second = _next(world, around, first, mail_waits=True)
    run = await second.agent.resume("r", {pay.id: Deny("no"), mail.id: Approve()})
    assert run.text == "all done"
    assert sorted(world.done) == ["balance", "look weather", "mail hello", "rate EUR"]


@EACH_WAY
async def test_a_decision_on_record_is_acted_upon_if_the_process_ended_right_after(around: str) -> None:
    world, second, item = await _waiting(around)
    await record(second.store, "r", Decided(item.path, item.id, Approve()))
    third = _next(world, around, second)
    assert (await third.agent.resume("r")).text == "all done"
    assert world.done.count("pay 5 to böb") == 1
    assert world.bytes == [FROZEN]


async def test_a_decision_counts_once_and_a_wrong_one_decides_nothing() -> None:
    world, second, item = await _waiting("retry on the agent")
    for changed in ('{"amount": "many", "to": "eve"}', "not json", '{"amount": 1}', "[]"):
        with pytest.raises(ConfigurationError, match="pay"):
            await second.agent.resume("r", {item.id: Modify(changed)})
    for unknown in ("call_1", item.path, item.id[:-1], ""):
        with pytest.raises(ConfigurationError, match=item.id):
            await second.agent.resume("r", {unknown: Approve()})
    with pytest.raises(ConfigurationError, match="Approve"):
        await second.agent.resume("r", {item.id: wrong(True)})
    assert not any(deed.startswith("pay") for deed in world.done)
    for process in (second, _next(world, "retry on the agent", second)):
        assert (await process.agent.resume("r", {item.id: Approve()})).text == "all done"
        with pytest.raises(AlreadyDecided):
            await process.agent.resume("r", {item.id: Deny("no")})
    assert world.done.count("pay 5 to böb") == 1


async def test_the_nested_agent_itself_may_wait_and_then_a_call_inside_it() -> None:
    """The gate of the outer call is passed once: its decision is not asked for again when the inner one is made."""
    paid: list[int] = []

    @tool(approval=True, effect="once")
    async def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    def agent(store: InMemoryStore) -> Agent:
        clerk = Agent(ByTurn(tool_call("pay", id="call_0", amount=5), "settled"), name="clerk", tools=[pay])
        outer = ByTurn(tool_call("clerk", id="call_0", input="settle"), "all done")
        return Agent(outer, tools=[clerk.layered(retry(attempts=2))], approvals=Approvals("clerk"), store=store)

    store = new_store()
    run = await agent(store).run("go", run_id="r")
    names = []
    while run.stop == stops.Suspended():
        (item,) = run.pending
        names.append(item.call.name)
        store = through_json(store, "r")
        run = await agent(store).resume("r", {item.id: Approve()})
    assert run.text == "all done"
    assert names == ["clerk", "pay"]
    assert paid == [5]


async def test_the_same_call_asked_again_later_waits_for_a_decision_of_its_own() -> None:
    paid: list[int] = []

    @tool(approval=True)
    async def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    def agent(store: InMemoryStore) -> Agent:
        same = tool_call("pay", id="call_0", amount=1)
        return Agent(ByTurn(same, same, "done"), tools=[pay], store=store)

    store = new_store()
    run = await agent(store).run("go", run_id="r")
    (item,) = run.pending
    store = through_json(store, "r")
    run = await agent(store).resume("r", {item.id: Approve()})
    assert run.stop == stops.Suspended()
    (other,) = run.pending
    assert other.id != item.id
    assert paid == [1]
    store = through_json(store, "r")
    assert (await agent(store).resume("r", {other.id: Approve()})).text == "done"
    assert paid == [1, 1]
