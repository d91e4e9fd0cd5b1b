"""A wait beside a call that works is over as soon as it is decided, in this process, and not when the call ends."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.samples import pairs
from tests.stores.places import STORES, stores
from ziggurat import Agent, AgentRun, Approvals, Approve, tool
from ziggurat.agents import Answer, Decision, Environment, PendingItem, RunHandle, runs_of
from ziggurat.flows import Flow, ask, event, first, flow, gather, sleep, step
from ziggurat.journal.store import InboxItem
from ziggurat.messages import stops, tool_call
from ziggurat.runtime import Child, Supervisor
from ziggurat.stores import InMemoryStore
from ziggurat.testing import HandClock, ScriptedModel, run_until_idle

PLACES = [None, *STORES]


class Beside:
    """A flow that waits while one of its steps works; the step works until it is ended."""

    def __init__(self, kind: str) -> None:
        self.kind, self.clock, self.seconds = kind, HandClock(), 3600
        self.begun, self.ends, self.went_on = 0, asyncio.Event(), asyncio.Event()
        self.ended: list[str] = []

    async def work(self) -> str:
        self.begun += 1
        try:
            await self.ends.wait()
        except asyncio.CancelledError:
            self.ended.append("cancelled")
            raise
        return "worked"

    async def wait(self) -> str:
        if self.kind == "event":
            return await event("go", str)
        if self.kind == "question":
            return await ask("Go?")
        await sleep(seconds=self.seconds)
        return "yes"

    def flow(self, store: Any, group: Any = first, **limits: int) -> Flow[None, Any]:
        @step
        async def work() -> str:
            return await self.work()

        @step
        async def after(said: str) -> str:
            self.went_on.set()
            return said

        async def waits() -> str:
            return await after(await self.wait())

        @flow(store=store, name="order")
        async def order() -> Any:
            return await group(waits(), work(), **limits)

        return order

    @property
    def settings(self) -> Environment:
        return Environment(clock=self.clock)

    def start(self, order: Any, *prompt: str) -> RunHandle[Any]:
        handle: RunHandle[Any] = order.start(*prompt, run_id="r", environment=self.settings)
        return handle

    async def is_waiting(self, order: Any, times: int = 1) -> None:
        """Wait until the run has begun to wait and its step is at work, for the last of so many times."""
        while self.begun < times:  # noqa: ASYNC110 - it has begun so often, in one process or another
            await asyncio.sleep(0)
        while b'"Pending"' not in await order.record("r"):  # noqa: ASYNC110 - as above
            await asyncio.sleep(0)

    async def end_wait(self, order: Any) -> None:
        """End the wait, from an agent that may be that of another process."""
        if self.kind == "event":
            await order.attach("r").send("go", "yes")
        elif self.kind == "question":
            (item,) = [each for each in (await order.attach("r").status()).pending if each.needs_decision]
            await order.decide("r", {item.id: Answer("yes")})
        else:
            await self.clock.advance(self.seconds)


KINDS = ["event", "question", "timer"]


@pytest.mark.parametrize(("kind", "place", "where"), pairs(KINDS, PLACES, ["here", "elsewhere"]))
async def test_a_wait_wins_over_a_step_that_works(kind: str, place: str | None, where: str, tmp_path: Path) -> None:
    async with stores(place or "memory", tmp_path, 2) as [store, other]:
        beside = Beside(kind)
        order = beside.flow(None if place is None else store)
        handle = beside.start(order)
        await beside.is_waiting(order)
        await beside.end_wait(order if where == "here" or place is None else beside.flow(other))
        run = await handle.result()
        assert (run.output, run.pending, beside.ended) == ("yes", (), ["cancelled"])
        if place is not None:
            again: AgentRun[Any] = await order.resume("r", environment=beside.settings)
            assert (again.output, (await order.replay("r")).output, beside.begun) == ("yes", "yes", 1)


@pytest.mark.parametrize(("kind", "place", "limit"), pairs(KINDS, PLACES, [1, 2]))
async def test_a_part_goes_on_after_its_wait_while_others_work(
    kind: str, place: str | None, limit: int, tmp_path: Path
) -> None:
    async with stores(place or "memory", tmp_path, 1) as [store]:
        beside = Beside(kind)
        order = beside.flow(None if place is None else store, gather, limit=limit)
        handle = beside.start(order)
        await beside.is_waiting(order)  # with one at a time, the wait has left its place to the step
        await beside.end_wait(order)
        if limit == 2:
            await beside.went_on.wait()
        beside.ends.set()
        assert (await handle.result()).output == ("yes", "worked")
        assert beside.begun == 1


@pytest.mark.parametrize(("kind", "place"), pairs(KINDS, PLACES))
async def test_a_run_is_suspended_when_nothing_works_any_more(kind: str, place: str | None, tmp_path: Path) -> None:
    async with stores(place or "memory", tmp_path, 1) as [store]:
        beside = Beside(kind)
        order = beside.flow(None if place is None else store, gather)
        handle = beside.start(order)
        await beside.is_waiting(order)
        beside.ends.set()
        if kind != "timer" or place is not None:  # without a store, times are spent in the process
            async for _ in handle.events():  # to the end of what is driven
                pass
            assert (beside.went_on.is_set(), (await order.attach("r").status()).status) == (False, "Suspended")
        await beside.end_wait(order)
        run = await handle.result()
        assert ([*run.output], beside.begun) == (["yes", "worked"], 1)


@pytest.mark.parametrize(("kind", "place"), pairs(KINDS, STORES))
async def test_a_wait_beside_work_goes_on_after_a_crash(kind: str, place: str, tmp_path: Path) -> None:
    async with stores(place, tmp_path, 2) as [store, other]:
        beside = Beside(kind)
        driving = asyncio.create_task(beside.flow(store).run(run_id="r", environment=beside.settings))
        await beside.is_waiting(beside.flow(store))
        runs_of(store).withdraw("r")  # as if its process had ended
        driving.cancel()
        await asyncio.wait([driving])
        order = beside.flow(other)
        again = asyncio.create_task(order.resume("r", environment=beside.settings))
        await beside.is_waiting(order, 2)
        await beside.end_wait(order)
        assert ((await again).output, beside.ended) == ("yes", ["cancelled", "cancelled"])


@pytest.mark.parametrize(("kind", "group", "place"), pairs(KINDS, [first, gather], ["memory", "sqlite"]))
async def test_a_wait_beside_work_goes_on_after_its_worker_is_restarted(
    kind: str, group: Any, place: str, tmp_path: Path
) -> None:
    async with stores(place, tmp_path, 2) as [store, other]:
        beside = Beside(kind)
        order = beside.flow(other, group)

        async def work() -> None:
            await beside.flow(store, group).worker(grace=0.0, environment=beside.settings).run()

        await order.submit(run_id="r")
        async with Supervisor([Child("worker", work)]) as supervisor:
            await beside.is_waiting(order)
            await supervisor.restart("worker")
            await beside.is_waiting(order, 2)
            await beside.end_wait(order)
            if group is gather:
                await beside.went_on.wait()
                beside.ends.set()
            run = await order.attach("r").result()
            assert run.output == ("yes" if group is first else ["yes", "worked"])
            assert beside.ended == ["cancelled"] * (2 if group is first else 1)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_step_that_ends_first_wins_and_the_wait_is_given_up(kind: str) -> None:
    beside = Beside(kind)
    order = beside.flow(InMemoryStore())
    handle = beside.start(order)
    await beside.is_waiting(order)
    beside.ends.set()
    run = await handle.result()
    assert (run.output, run.pending) == ("worked", ())
    status = await order.attach("r").status()
    assert (status.status, status.pending, await order.pending()) == ("Completed", (), {})


@pytest.mark.parametrize(("kind", "place"), pairs(KINDS, PLACES))
async def test_what_goes_on_soon_counts_as_work(kind: str, place: str | None, tmp_path: Path) -> None:
    async with stores(place or "memory", tmp_path, 1) as [store]:
        beside = Beside(kind)
        beside.seconds = 10

        @flow(store=None if place is None else store)
        async def order() -> str:
            async def looks() -> str:
                while not beside.ends.is_set():
                    await sleep(seconds=0.5)
                return "looked"

            return await first(looks(), beside.wait())

        handle = beside.start(order)
        async for _ in handle.events():  # it has begun
            break
        beside.begun = 1
        await beside.is_waiting(order)
        for _ in range(5):
            await beside.clock.advance(0.5)
        await beside.end_wait(order)
        assert (await handle.result()).output == "yes"


@pytest.mark.parametrize("joined", [True, False])
async def test_a_tool_goes_on_after_its_wait_while_another_one_works(joined: bool) -> None:
    beside = Beside("event")

    @tool
    async def waits() -> str:
        said = await beside.wait()
        beside.went_on.set()
        return said

    @tool
    async def work() -> str:
        return await beside.work()

    calls = [tool_call("waits"), tool_call("work")]
    agent: Agent[Any] = Agent(ScriptedModel(calls, always="done"), tools=[waits, work], store=InMemoryStore())
    if joined:
        agent = Agent(ScriptedModel(tool_call("agent", input="Go"), always="done"), tools=[agent], store=agent.store)
    handle = beside.start(agent, "Go")
    await beside.is_waiting(agent)
    await beside.end_wait(agent)
    await beside.went_on.wait()
    beside.ends.set()
    assert (await handle.result()).stop == stops.Completed()


@pytest.mark.parametrize("wait", [lambda: ask("Go?"), lambda: event("go"), lambda: sleep(hours=1)])
@pytest.mark.parametrize("number", [1, 200])
async def test_waits_alone_suspend_the_run_at_once(wait: Callable[[], Any], number: int) -> None:
    @flow(store=InMemoryStore())
    async def order() -> None:
        await gather(*(wait() for _ in range(number)))

    run = await order.run(environment=Environment(clock=HandClock()))
    assert len(run.pending) == number


@pytest.mark.parametrize("wait", [lambda: ask("Sure?"), lambda: event("sure"), lambda: sleep(hours=1)])
async def test_what_an_approver_waits_for_suspends_the_run(wait: Callable[[], Any]) -> None:
    async def approver(item: PendingItem) -> Decision:
        await wait()
        return Approve()

    @tool
    def pay() -> str:
        return "paid"

    approvals = Approvals("pay", approver=approver)
    agent = Agent(ScriptedModel(tool_call("pay")), tools=[pay], approvals=approvals, store=InMemoryStore())
    run = await agent.run("Pay", environment=Environment(clock=HandClock()))
    assert (run.stop, len(run.pending)) == (stops.Suspended(), 1)


async def test_an_event_is_left_to_later_waits_by_a_part_that_lost_before_its_turn() -> None:
    beside = Beside("event")

    @step
    async def work() -> str:
        return await beside.work()

    @flow(store=InMemoryStore(), name="order")
    async def order() -> list[str]:
        return [await first(event("go", str), work(), limit=1), await event("go", str)]

    driving = asyncio.create_task(order.run(run_id="r", environment=beside.settings))
    await beside.is_waiting(order)
    await beside.end_wait(order)
    await run_until_idle()  # it has the event, and waits for its turn
    beside.ends.set()
    assert (await driving).output == ["worked", "yes"]


async def test_a_wait_goes_on_while_another_part_takes_its_turn_after_one() -> None:
    ends, more = asyncio.Event(), asyncio.Event()

    @step
    async def work(until: str) -> str:
        await (ends if until == "ends" else more).wait()
        return until

    async def wait_and_work() -> str:
        return await event("go", str) + await work("more")

    @flow(store=InMemoryStore())
    async def order() -> list[str]:
        return list(await gather(wait_and_work(), event("later", str), work("ends"), limit=1))

    driving = asyncio.create_task(order.run(run_id="r", environment=Environment(clock=HandClock())))
    await run_until_idle()
    await order.attach("r").send("go", "some ")
    await run_until_idle()
    ends.set()
    await run_until_idle()
    await order.attach("r").send("later", "last")
    await run_until_idle()
    more.set()
    assert (await driving).output == ["some more", "last", "ends"]


class CountingStore(InMemoryStore):
    reads = 0

    async def inbox(self, log: str, after: int = 0) -> list[InboxItem]:
        self.reads += 1
        return await super().inbox(log, after)


async def test_each_event_is_looked_for_by_the_waits_that_it_concerns() -> None:
    beside, store, number = Beside("event"), CountingStore(), 20

    @step
    async def work() -> str:
        return await beside.work()

    @flow(store=store, name="order")
    async def order() -> int:
        return len(await gather(*(event(f"e{each}") for each in range(number)), event("late"), work()))

    driving = asyncio.create_task(order.run(run_id="r", environment=beside.settings))
    await beside.is_waiting(order)
    await run_until_idle()
    before = store.reads
    for each in range(number):
        await order.attach("r").send(f"e{each}")
        await run_until_idle()
    assert store.reads - before <= 4 * number
    beside.ends.set()
    assert [item.reason for item in (await driving).pending] == ["for the event 'late'"]
    assert (await order.recover()).runs == {}  # it is not due: what was sent does not concern it
