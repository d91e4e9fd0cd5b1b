"""Events: kept until they are taken, each once and in order, checked where they are sent, over in time."""

from typing import Any

import pytest
from msgspec import Struct

from tests.hard_cases.support import ByTurn
from tests.samples import sample
from tests.stores.places import PLACES, QUEUES, new_store, reopened
from tests.wrong import wrong
from ziggurat import Agent, AgentRun, ConfigurationError, Middleware, ToolCall, tool
from ziggurat.agents import Answer, Environment
from ziggurat.errors import RunNotFound
from ziggurat.events import Warned
from ziggurat.flows import ask, event, first, flow, gather, send, step
from ziggurat.journal.store import run_log
from ziggurat.messages import stops
from ziggurat.stores import InMemoryStore
from ziggurat.testing import HandClock


class Payment(Struct):
    total: int
    by: str = "card"


@pytest.mark.parametrize("place", ["by reference", *sample(PLACES, 1)], indirect=True)
async def test_events_are_taken_once_in_order_whenever_they_come(place: str) -> None:
    async def order() -> str:
        one = await event("paid", Payment)
        two, three, address = await gather(event("paid", Payment), event("paid", Payment), event("address", str))
        return f"{one.total} {two.total} {three.total} {address} {(await event('paid', Payment)).total}"

    store = new_store()

    def elsewhere() -> Any:
        return flow(store=store if place == "by reference" else reopened(store))(order)

    run: AgentRun[Any] = await elsewhere().run(run_id="o")
    (item,) = run.pending
    assert (item.stage, item.reason, item.needs_decision) == ("event", "for the event 'paid'", False)
    assert await elsewhere().attach("o").send("address", "Ur")
    assert isinstance((await elsewhere().resume("o")).stop, stops.Suspended)
    for total in range(1, 5):
        assert await elsewhere().attach("o").send("paid", Payment(total), key=str(total))
        assert not await elsewhere().attach("o").send("paid", Payment(total), key=str(total))
        assert not await elsewhere().attach("o").send("paid", Payment(9), key=str(total))
        if total == 2:
            run = await elsewhere().resume("o")
            assert [item.reason for item in run.pending] == ["for the event 'paid'"]
    run = await elsewhere().resume("o")
    assert run.output == "1 2 3 Ur 4"
    if place == "by reference":
        return
    assert not await elsewhere().attach("o").send("paid", Payment(4), key="4")
    with pytest.raises(ConfigurationError, match="Completed"):
        await elsewhere().attach("o").send("paid", Payment(5))
    assert (await elsewhere().replay("o")).output == run.output
    fork = await elsewhere().fork("o", 2, effects="live", new_id="f")
    assert len(fork.pending) == 3
    assert await elsewhere().attach("f").send("paid", Payment(7))
    assert len((await elsewhere().resume("f")).pending) == 2


async def test_a_value_that_does_not_fit_is_refused_where_it_is_sent_or_left() -> None:
    warned: list[str] = []

    @flow(store=InMemoryStore())
    async def order() -> tuple[Payment, int, object]:
        return await event("paid", Payment), await event("note", int), await event("paid")

    async def listen(what: Any) -> None:
        if isinstance(what, Warned):
            warned.append(what.text)

    await order.run(run_id="o")
    with pytest.raises(ConfigurationError, match="paid"):
        await order.attach("o").send("paid", {"sum": 3})
    with pytest.raises(ConfigurationError, match="JSON"):
        await order.attach("o").send("paid", wrong(object()))
    with pytest.raises(RunNotFound):
        await send("p", "paid", 3, store=order.store)
    with pytest.raises(ConfigurationError, match="name"):
        await send("o", "", 3, store=order.store)
    assert await send("o", "note", "early and unfit", store=order.store)
    assert await send("o", "paid", {"total": 3}, store=order.store)
    run: AgentRun[Any] = await order.resume("o", listeners=[listen])
    assert [item.reason for item in run.pending] == ["for the event 'note'"]
    assert len(warned) == 1
    assert "'note'" in warned[0]
    assert await order.attach("o").send("note", 5)
    assert await order.attach("o").send("paid", {"sum": 3})  # any value will do
    assert (await order.resume("o")).output == (Payment(3), 5, {"sum": 3})


@pytest.mark.parametrize("default", [False, True])
async def test_nothing_was_sent_in_time(default: bool) -> None:
    @flow(store=InMemoryStore())
    async def order() -> str:
        if default:
            return await event("paid", str, timeout=60, default="unpaid")
        with pytest.raises(TimeoutError, match="paid") as caught:
            await event("paid", str, timeout=60)
        return type(caught.value).__name__

    clock = HandClock()
    environment = Environment(clock=clock)
    await order.run(run_id="o", environment=environment)
    await clock.advance(59)
    run: AgentRun[Any] = await order.resume("o", environment=environment)
    assert isinstance(run.stop, stops.Suspended)
    assert run.pending[0].until == clock.now() + 1
    await clock.advance(1)
    run = await order.resume("o", environment=environment)
    assert run.output == ("unpaid" if default else "Timeout")
    assert (await order.replay("o")).output == run.output


async def test_of_several_waits_the_first_that_is_over_wins() -> None:
    @flow(store=InMemoryStore())
    async def order() -> str:
        return await first(event("paid", str), event("cancelled", str), ask("Cancel?"))

    run: AgentRun[Any] = await order.run(run_id="o")
    assert len(run.pending) == 3
    await order.attach("o").send("cancelled", "no longer needed")
    assert (await order.resume("o")).output == "no longer needed"


async def test_tools_and_hooks_wait_as_well() -> None:
    class Patient(Middleware):
        async def before_agent(self, request: Any, ctx: Any) -> Any:
            await event("go")
            return request

    @tool
    async def receive() -> str:
        return await event("parcel", str)

    agent = Agent(ByTurn(ToolCall("1", "receive", "{}"), "Done."), tools=[receive], middleware=[Patient()])

    run = await agent.run("Go", run_id="a")
    assert [item.path for item in run.pending] == ["agent/Patient.before_agent/event"]
    await agent.attach("a").send("parcel", "a book")
    await agent.attach("a").send("go")
    run = await agent.resume("a")
    assert (run.text, run.observations) == ("Done.", ("a book",))


async def test_an_event_is_no_answer_and_its_default_fits() -> None:
    @flow(store=InMemoryStore())
    async def order() -> str:
        return await event("paid", str)

    run = await order.run(run_id="o")
    with pytest.raises(ConfigurationError, match="waits by itself"):
        await order.attach("o").decide({run.pending[0].id: Answer("3")})

    @flow
    async def unfit() -> int:
        return await event("paid", int, default=wrong("no"))

    with pytest.raises(ConfigurationError, match="default"):
        await unfit.run()


@pytest.mark.parametrize("place", QUEUES, indirect=True)
async def test_a_run_is_due_when_its_time_has_come_or_something_was_sent(place: str) -> None:
    @step
    async def meddle(run_id: str) -> None:
        await send(run_id, "paid", "while it works", store=new_store())

    async def order(run_id: str) -> str:
        async def meddling() -> str:
            await meddle(run_id)
            return ""

        async def paying() -> str:
            return await event("paid", str)

        early, _ = await gather(paying(), meddling())
        later = await event("paid", str, timeout=86400)
        await event("packed")
        return f"{early}, {later}"

    store = new_store()
    orders = flow(store=store)(order)

    async def due() -> float | None:
        info = await store.find(run_log("o"))
        assert info is not None
        due: float | None = info.due
        return due

    run = await orders.run("o", run_id="o")
    assert len(run.pending) == 1
    now = await due()
    assert now is not None  # what came between the look into the inbox and the suspension is not missed
    run = await orders.resume("o")
    assert await due() == run.pending[0].until
    assert run.pending[0].until is not None
    await orders.attach("o").send("paid", "later")
    sent = await due()
    assert sent is not None
    assert sent < run.pending[0].until
    await orders.resume("o")
    assert await due() is None
    await orders.attach("o").send("packed")
    assert await due() is not None
    assert (await orders.resume("o")).output == "while it works, later"
