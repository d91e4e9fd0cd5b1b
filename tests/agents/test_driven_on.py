"""A handle that has started its run drives it on through timers, events, decisions and cancellations."""

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest

from tests.agents.support import turns
from tests.samples import amount, pairs, sample
from tests.stores.places import PLACES, stores
from tests.stores.watched import WatchedStore
from ziggurat import Agent
from ziggurat.agents import Answer, Environment, RunHandle, runs_of
from ziggurat.errors import StoreError
from ziggurat.flows import Flow, ask, continue_as_new, event, flow, gather, sleep
from ziggurat.journal import Store
from ziggurat.journal.entries import Ended
from ziggurat.messages import stops
from ziggurat.runs.waking import due
from ziggurat.testing import HandClock, ScriptedModel, assert_no_leaks

KINDS = [None, *PLACES]


def _order(store: Store | None) -> Flow[None, str]:
    @flow(name="order", store=store)
    async def order() -> str:
        await sleep(days=2)
        paid, _ = await gather(event("paid", int), sleep(days=1))
        answer = await ask("Send it?")
        await sleep(days=1)
        return f"{paid} {answer}"

    return order


async def _waits(handle: RunHandle[str]) -> None:
    """Wait until a run waits."""
    async for _ in handle.events():
        pass


async def _end(kind: str | None, tmp_path: Path, act: Any) -> None:
    place = (lambda: None) if kind is None else PLACES[kind](tmp_path)
    async with assert_no_leaks():
        store, elsewhere = place(), place()
        here = _order(store)
        there = here if elsewhere is None else _order(elsewhere)
        await act(here, there.attach("r"), Environment(clock=HandClock(auto=True)))
        for each in (store, elsewhere):
            if each is not None:
                await each.close()


@pytest.mark.parametrize("kind", KINDS)
async def test_it_goes_on_until_only_people_can_and_after_their_decision(kind: str | None, tmp_path: Path) -> None:
    async def act(here: Flow[None, str], there: RunHandle[str], environment: Environment) -> None:
        handle = here.start(run_id="r", environment=environment)
        assert await handle.recorded()
        assert await there.send("paid", 30, key="once")
        assert not await handle.send("paid", 30, key="once")
        run = await handle.result()
        assert (run.stop, [item.stage for item in run.pending]) == (stops.Suspended(), ["question"])
        assert await handle.result() is run, "nobody has decided"
        assert (await there.result()).pending == run.pending
        await there.decide({run.pending[0].id: Answer("yes")}, environment=environment)
        assert [each.output for each in await asyncio.gather(handle.result(), handle.result())] == ["30 yes"] * 2

    await _end(kind, tmp_path, act)


@pytest.mark.parametrize("kind", sample(PLACES, 2))
@pytest.mark.parametrize("elsewhere", [False, True])
async def test_one_that_waits_is_cancelled_from_anywhere(kind: str, elsewhere: bool, tmp_path: Path) -> None:
    async def act(here: Flow[None, str], there: RunHandle[str], environment: Environment) -> None:
        handle = here.start(run_id="r")
        assert await handle.recorded()
        await _waits(there)
        assert await (there if elsewhere else handle).cancel()
        assert (await handle.result()).stop == stops.Cancelled()
        assert not await handle.cancel()

    await _end(kind, tmp_path, act)


@pytest.mark.parametrize("kind", sample(PLACES, 2))
async def test_one_that_another_process_goes_on_with_is_followed(kind: str, tmp_path: Path) -> None:
    async with assert_no_leaks():
        place = PLACES[kind](tmp_path)
        store, elsewhere = place(), place()
        there, environment = _order(elsewhere), Environment(clock=HandClock(auto=True))
        handle = _order(store).start(run_id="r")
        assert await handle.recorded()
        await _waits(there.attach("r"))
        other = there.start(run_id="r", environment=environment)
        assert await other.recorded()  # before the event comes, which wakes both
        assert await other.send("paid", 7)
        (item,) = (await other.result()).pending
        assert (await handle.result()).pending == (item,)
        await other.decide({item.id: Answer("no")}, environment=environment)
        assert (await other.result()).output == (await handle.result()).output == "7 no"
        await store.close()
        await elsewhere.close()


@pytest.mark.parametrize("kind", sample(PLACES, 2))
@pytest.mark.parametrize("apart", [False, True])
async def test_one_that_is_awaited_while_it_is_decided_on_goes_on(kind: str, apart: bool, tmp_path: Path) -> None:
    """Whoever decides has the lease of the run for a moment, and drives nothing."""
    place = PLACES[kind](tmp_path)
    store = place()

    def asking(store: Any) -> Flow[None, str]:
        @flow(name="asking", store=store)
        async def asking() -> str:
            return await ask("Send it?")

        return asking

    for moment in range(1, 60):
        reached, go_on, begun = asyncio.Event(), asyncio.Event(), list[int]()

        async def hold(number: int, moment: int = moment, waits: Any = (reached, go_on), begun: Any = begun) -> None:
            if begun and number == begun[0] + moment:
                waits[0].set()
                await waits[1].wait()

        watched: Any = WatchedStore(place() if apart else store, hold)
        handle = asking(store if apart else watched).start(run_id=f"r{moment}")
        (item,) = (await handle.result()).pending
        begun.append(watched.moments)
        deciding = asyncio.ensure_future(asking(watched).attach(handle.id).decide({item.id: Answer("yes")}))
        await asyncio.wait([deciding, asyncio.ensure_future(reached.wait())], return_when=asyncio.FIRST_COMPLETED)
        result = asyncio.ensure_future(handle.result())
        await turns(20)
        go_on.set()
        await deciding
        run = await result
        assert (run if run.has_final_answer else await handle.result()).output == "yes"
        if apart:
            await watched.inner.close()
        if not reached.is_set():
            break
    assert moment > 5
    await store.close()


@pytest.mark.parametrize("kind", ["sqlite"])
async def test_a_cancellation_that_could_not_be_read_is_read_again(kind: str, tmp_path: Path) -> None:
    store: Any = PLACES[kind](tmp_path)()
    read, failed = store.inbox, asyncio.Event()

    async def inbox(log: str, after: int = 0) -> Any:
        items = await read(log, after)
        if items and not failed.is_set():
            failed.set()
            raise StoreError("the database is locked")
        return items

    store.inbox = inbox
    handle = Agent(ScriptedModel([asyncio.Event()]), store=store, name="clerk").start("q", run_id="r")
    assert await handle.recorded()
    elsewhere = PLACES[kind](tmp_path)()
    assert await Agent(ScriptedModel("Done."), store=elsewhere, name="clerk").attach("r").cancel()
    assert (await handle.result()).stop == stops.Cancelled()
    assert failed.is_set()
    await store.close()
    await elsewhere.close()


@pytest.mark.parametrize("kind", sample(PLACES, 2))
@pytest.mark.parametrize(("before", "after"), [(None, 60.0), (3_600.0, 60.0), (60.0, 3_600.0), (60.0, None)])
async def test_it_goes_on_at_the_time_on_record_whoever_recorded_it(
    kind: str, before: float | None, after: float | None, tmp_path: Path
) -> None:
    store, elsewhere = (place := PLACES[kind](tmp_path))(), place()
    clock, here, there = HandClock(), runs_of(store), runs_of(elsewhere)

    async def drive(seconds: float | None) -> None:
        due = None if seconds is None else clock.now() + seconds
        journal = await there.begin("r", there.take("r", Environment(clock=clock)))
        await journal.write(Ended("", "Suspended", due=due))
        await there.leave("r", journal)

    await _order(elsewhere).run(run_id="r", environment=Environment(clock=clock))
    await drive(before)
    waiting = asyncio.ensure_future(due(here, "r", clock, 0))
    await turns(20)
    await drive(after)  # to another wait, before anybody looks
    for seconds, is_due in ((59.0, False), (1.0, after == 60.0), (3_540.0, after is not None)):
        await clock.advance(seconds)
        here.posted("r")  # a look at it, as each second
        await turns(20)
        assert waiting.done() == is_due, seconds
    waiting.cancel()
    await store.close()
    await elsewhere.close()


@pytest.mark.parametrize(
    ("kind", "next_wait", "chained"), pairs(["memory", "sqlite"], ["question", "event", "timer", "none"], [True, False])
)
async def test_it_goes_on_where_another_process_has_driven_the_run_on(
    kind: str, next_wait: str, chained: bool, tmp_path: Path
) -> None:
    waits: dict[str, Any] = {
        "question": lambda: ask("Go on?"),
        "event": lambda: event("go"),
        "timer": lambda: sleep(days=1),
    }

    def order(store: Store) -> Flow[bool, str]:
        @flow(name="order", store=store)
        async def order(begins: bool) -> str:
            if begins:
                await sleep(hours=1)
            if begins and chained:
                await continue_as_new(False)
            if next_wait != "none":
                await waits[next_wait]()
            return "done"

        return order

    clock, later = HandClock(), HandClock()
    await later.advance(3600)
    async with stores(kind, tmp_path, 2) as [here, there]:
        other, last = order(there), "r~2" if chained else "r"
        handle = order(here).start(True, run_id="r", environment=Environment(clock=clock))
        await _waits(handle)
        await turns(20)  # it has looked at the run
        for run_id in dict.fromkeys(["r", last]):
            await other.resume(run_id, environment=Environment(clock=later))
        if next_wait == "question":
            (item,) = (await handle.result()).pending
            await other.decide(last, {item.id: Answer("yes")})
        elif next_wait == "event":
            await other.attach("r").send("go")
        elif next_wait == "timer":
            await clock.advance(2 * 86400)
        assert (await handle.result()).output == "done"


async def test_start_attach_and_submit_return_the_same() -> None:
    agent: Agent[Any] = Agent(ScriptedModel("done", per_run=True), store="memory:")
    handles = [agent.start("go", run_id="a"), agent.attach("a"), await agent.submit("go", run_id="b")]
    assert {type(handle) for handle in handles} == {RunHandle}
    await agent.recover()
    assert [(await handle.result()).text for handle in handles] == ["done"] * 3
    assert [(await handle.status()).status for handle in handles] == ["Completed"] * 3
    assert not any([(await handle.status()).driven for handle in handles])


@pytest.mark.filterwarnings("always")
@pytest.mark.parametrize("verb", ["cancel", "inject", "redirect", "send", "decide", "result", "status"])
async def test_a_verb_that_is_not_awaited_is_noticed(verb: str) -> None:
    handle = Agent(ScriptedModel("done"), store="memory:").attach("r")
    arguments: Any = {"inject": ["x"], "redirect": ["x"], "send": ["x"], "decide": [{}]}.get(verb, [])
    with pytest.warns(RuntimeWarning, match=rf"RunHandle\.{verb}' was never awaited"):
        _forget(getattr(handle, verb)(*arguments))


def _forget(coroutine: Any) -> None:
    del coroutine
    gc.collect()


@pytest.mark.parametrize("kind", [None, "memory", "sqlite"])
async def test_it_is_cancelled_at_any_moment(kind: str | None, tmp_path: Path) -> None:
    async def act(here: Flow[None, str], there: RunHandle[str], environment: Environment) -> None:
        for moment in range(amount(60, 400)):
            handle = here.start(run_id=f"r{moment}")
            for _ in range(moment):
                await asyncio.sleep(0)
            assert await handle.cancel()
            async with asyncio.timeout(10):
                assert (await handle.result()).stop == stops.Cancelled(), moment

    await _end(kind, tmp_path, act)
