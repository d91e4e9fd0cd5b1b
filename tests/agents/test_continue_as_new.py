"""A flow that continues as new: its record ends, and the next run begins once with what was posted and not taken."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.agents.flow_trees import plant
from tests.agents.support import turns
from tests.stores.places import PLACES, STORES, new_store, reopened, used
from ziggurat import AgentRun, ConfigurationError
from ziggurat.agents import Answer, Environment, RunHandle, runs_of
from ziggurat.errors import AlreadyDecided, RunExists
from ziggurat.flows import Flow, ask, continue_as_new, event, every, flow, schedule, step
from ziggurat.journal.entries import Opened
from ziggurat.journal.store import run_log
from ziggurat.messages import stops
from ziggurat.stores import InMemoryStore
from ziggurat.testing import HandClock, run_until_idle


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Make `new_store` open stores of a kind."""
    with used(request.param, tmp_path):
        yield request.param


def watching(store: Any, name: str = "trial") -> Flow[list[int], list[int]]:
    """Return a flow that takes two readings in each run, and six in all."""

    @flow(name=name, store=store)
    async def watch(seen: list[int]) -> list[int]:
        for _ in range(2):
            seen = [*seen, await event("reading", int)]
        if len(seen) < 6:
            await continue_as_new(seen)
        return seen

    return watch


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("place", PLACES, indirect=True)
async def test_the_next_run_has_what_was_posted_and_the_labels(place: str) -> None:
    store = new_store()
    watch = watching(store)
    await watch.run([], run_id="r", labels={"room": 7})
    for number in range(5):
        await watch.attach("r").send("reading", number, key=str(number))
    run: AgentRun[Any] = await watch.resume("r")
    assert (run.stop, run.error, run._output) == (stops.Continued("r~2"), None, None)
    assert run.raise_for_stop() is run
    assert (await watch.resume("r")).stop == run.stop
    assert (await watch.replay("r")).stop == run.stop
    second = await watch.resume("r~2")
    assert second.stop == stops.Continued("r~3")
    assert await watch.attach("r").send("reading", 4, key="4") is False, "it was sent before"
    assert await watch.attach("r").send("reading", 5), "to the run that goes on"
    assert (await watch.resume("r~3")).output == [*range(6)]
    infos = [await store.find(run_log(each)) for each in ("r", "r~2", "r~3")]
    assert [info.labels == infos[0].labels != {} for info in infos] == [True] * 3
    with pytest.raises(ConfigurationError, match="r~3"):
        await watch.attach("r").send("reading", 6)


async def test_workers_go_on_with_it() -> None:
    watch = watching(new_store())
    await watch.submit([], run_id="r")
    for number in range(6):
        await watch.attach("r").send("reading", number)
    runs = (await watch.recover()).runs
    assert {name: run.stop for name, run in runs.items()}["r"] == stops.Continued("r~2")
    while "r~3" not in runs:
        runs |= (await watch.recover()).runs
    assert runs["r~3"].output == [*range(6)]


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("place", STORES, indirect=True)
async def test_it_happens_once_wherever_the_process_is_lost(place: str) -> None:
    store = new_store()
    watch = watching(store)
    await watch.run([], run_id="r")
    for number in range(3):
        await watch.attach("r").send("reading", number)
    await watch.resume("r")
    entries, inbox = [*(await runs_of(store).read("r")).entries], await runs_of(store).inbox("r")
    for cut in range(1, len(entries) - 1):  # before its result
        again = watching(reopened(store))
        await plant(again.store, f"cut-{cut}", entries[:cut])
        for item in inbox:
            await runs_of(again.store).post(f"cut-{cut}", item.key, item.data)
        if cut % 2:  # the next run had begun before
            await again.run([0, 1], run_id=f"cut-{cut}~2")
        assert (await again.resume(f"cut-{cut}")).stop == stops.Continued(f"cut-{cut}~2")
        for number in range(3, 6):
            await again.attach(f"cut-{cut}").send("reading", number)
        await again.resume(f"cut-{cut}~2")
        assert (await again.resume(f"cut-{cut}~3")).output == [*range(6)]


async def test_decisions_that_nothing_took_are_dropped_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    store = new_store()

    @flow(store=store)
    async def asks(number: int) -> None:
        if number == 1:
            await event("go")
            await continue_as_new(2)
        await ask("Sure?")

    await asks.run(1, run_id="r")
    await runs_of(store).post("r", "decide 1 x", b'{"type":"decisions","decisions":{"x":{"decision":"approve"}}}')
    await asks.attach("r").send("go")
    assert isinstance((await asks.resume("r")).stop, stops.Continued)
    assert "dropped" in caplog.text
    (item,) = (await asks.resume("r~2")).pending
    assert isinstance((await asks.resume("r~2", {item.id: Answer("yes")})).stop, stops.Completed)


async def test_it_is_refused_where_no_run_can_end() -> None:
    store = new_store()

    @step
    async def in_a_step() -> None:
        await continue_as_new()

    @flow(name="inner")
    async def inner() -> None:
        await continue_as_new()

    places: dict[str, Any] = {
        "a step": in_a_step,
        "an inner flow": inner.run,
    }
    for at, call in places.items():

        def outer(call: Any = call) -> Any:
            async def outer() -> None:
                await call()

            return flow(store=store)(outer)

        with pytest.raises(ConfigurationError, match="outermost"):
            await outer().run(run_id=at.replace(" ", "-"))
    with pytest.raises(ConfigurationError):
        await continue_as_new()


async def test_the_next_run_must_not_be_another_one() -> None:
    watch = watching(new_store())
    await watch.run([], run_id="r")
    await watch.submit([9, 9, 9], run_id="r~2")
    for number in range(2):
        await watch.attach("r").send("reading", number)
    with pytest.raises(RunExists, match="r~2"):
        await watch.resume("r")


async def _numbers(handle: RunHandle[Any]) -> list[tuple[str, int]]:
    """Return the numbers of the entries that a handle tells, by the run."""
    heard, run_id = list[tuple[str, int]](), ""
    async for item in handle.events():
        run_id = item.what.run_id if isinstance(item.what, Opened) else run_id
        heard += [(run_id, item.number)] if not item.index else []
    return heard


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("place", STORES, indirect=True)
async def test_a_handle_goes_on_with_the_next_run(place: str) -> None:
    store = new_store()
    watch, elsewhere = watching(store), watching(reopened(store))
    handle = watch.start([], run_id="r")
    await handle.recorded()
    others = [watch.attach("r"), elsewhere.attach("r")]
    results = [asyncio.create_task(each.result()) for each in (handle, *others)]
    for number in range(6):
        await elsewhere.attach("r").send("reading", number)
    runs = [await each for each in results]
    assert [(run.id, sorted(run.output or ())) for run in runs] == [("r~3", [*range(6)])] * 3
    assert handle.id == "r"
    assert [(await each.status()).id for each in (handle, *others)] == ["r~3"] * 3
    told = [await _numbers(each) for each in (handle, *others)]
    whole = [(name, number) for name in ("r", "r~2", "r~3") for number in range(1, await _count(store, name) + 1)]
    assert told == [whole] * 3
    assert not await elsewhere.attach("r").cancel()


@pytest.mark.parametrize("pause", [0, 1, 5, 20, 50, 100, 300])
async def test_an_event_is_taken_once_however_late_its_sender_looks_for_the_next_run(pause: int) -> None:
    class Slow(InMemoryStore):
        async def post(self, *given: Any, **named: Any) -> Any:
            posted = await super().post(*given, **named)
            await turns(pause)
            return posted

    watch = watching(Slow())
    handle = watch.start([], run_id="r")
    await handle.recorded()
    assert [await watch.attach("r").send("reading", number) for number in range(6)] == [True] * 6
    run = await handle.result()
    assert (run.id, run.output) == ("r~3", [*range(6)])


async def _count(store: Any, run_id: str) -> int:
    info = await store.find(run_log(run_id))
    return int(info.count)


async def test_without_a_store_the_handle_that_began_it_goes_on() -> None:
    watch: Any = watching(None)
    handle = watch.start([], run_id="r")
    await handle.recorded()
    for number in range(6):
        await handle.send("reading", number)
        await turns(100)
    run = await handle.result()
    assert (run.id, run.output) == ("r~3", [*range(6)])


@pytest.mark.parametrize("moment", range(0, 120, 7))
async def test_cancel_stops_the_run_that_goes_on(moment: int) -> None:
    watch = watching(new_store())
    handle = watch.start([], run_id="r")
    await handle.recorded()
    for number in range(3):
        await handle.send("reading", number)
    await turns(moment)
    assert await handle.cancel()
    assert isinstance((await handle.result()).stop, stops.Cancelled)


async def test_a_decision_does_not_answer_the_same_question_of_the_next_run() -> None:
    @flow(store=new_store())
    async def asks(number: int) -> str:
        said = await ask("Sure?")
        if number == 1:
            await continue_as_new(2)
        return said

    (item,) = (await asks.run(1, run_id="r")).pending
    handle = asks.attach("r")
    await handle.decide({item.id: Answer("yes")})
    await asks.recover()
    (again,) = (await handle.status()).pending
    await handle.decide({item.id: Answer("yes")})  # once more, as when a reply is lost
    with pytest.raises(AlreadyDecided):
        await handle.decide({item.id: Answer("no")})
    assert (await handle.status()).pending == (again,)
    with pytest.raises(ConfigurationError, match="r~2"):
        await asks.resume("r", {again.id: Answer("no")})
    await asks.attach("r~2").decide({again.id: Answer("no")})
    await asks.recover()
    assert (await handle.result()).output == "no"


async def test_a_tick_is_submitted_once_though_its_run_continued_as_new() -> None:
    watch = watching(new_store())
    clock = HandClock(1_800_000_000.0)
    hourly = schedule(watch, every(hours=1), input=lambda tick: list[int](), catch_up=3600.0)
    for _ in range(2):  # processes
        async with asyncio.TaskGroup() as group:
            submitting = group.create_task(hourly.run(environment=Environment(clock=clock)))
            await run_until_idle()
            submitting.cancel()
        ids = {info.id for info in await watch.store.logs("run:")}
        run_id = min(ids)
        if f"{run_id}~2" not in ids:
            for number in range(2):
                await watch.attach(run_id).send("reading", number)
        await watch.recover()
        await watch.recover()
    found = await watch.store.logs("run:", labels={"schedule": hourly.name})
    assert {info.id for info in found} == {run_id, f"{run_id}~2"}
    assert (await watch.attach(run_id).status()).status == "Suspended"


async def test_it_ends_the_run_where_it_is_not_awaited_too() -> None:
    begin: Any = continue_as_new  # of which type checkers find that it is not awaited

    @flow(store=new_store(), name="forgetful")
    async def forgetful(number: int) -> Any:
        if number == 1:
            begin(2)
        return number

    assert (await forgetful.run(1, run_id="r")).stop == stops.Continued("r~2")
    assert (await forgetful.resume("r~2")).output == 2


@pytest.mark.parametrize("caught", [BaseException, asyncio.CancelledError])
async def test_it_takes_effect_where_it_is_swallowed(caught: type[BaseException]) -> None:
    @flow(store=new_store(), name="greedy")
    async def greedy(number: int) -> int:
        if number == 1:
            with suppress(caught):
                await continue_as_new(2)
        return number

    assert (await greedy.run(1, run_id="r")).stop == stops.Continued("r~2")
    assert (await greedy.resume("r~2")).output == 2
