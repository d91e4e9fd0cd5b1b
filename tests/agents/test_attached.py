"""A run that is on record is watched without driving it: its status at every point, its events, its result."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.agents.support import turns
from tests.samples import sample
from tests.stores.places import PLACES, stores
from ziggurat import Agent, Approvals, Approve, Rule, Usage, tool
from ziggurat.agents import Environment, RunHandle, runs_of
from ziggurat.errors import RunExists, RunInProgress, RunNotFound
from ziggurat.journal import Store
from ziggurat.journal.entries import Ended
from ziggurat.messages import stops, tool_call
from ziggurat.testing import ScriptedModel


class Gates:
    """Lets a test hold a run before each of its tool calls."""

    def __init__(self) -> None:
        self.reached: list[asyncio.Event] = [asyncio.Event() for _ in range(3)]
        self.opened: list[asyncio.Event] = [asyncio.Event() for _ in range(3)]

    async def pass_through(self, number: int) -> None:
        self.reached[number].set()
        await self.opened[number].wait()


def agent(store: Store | None, gates: Gates | None = None, **options: Any) -> Agent[Any]:
    @tool(effect="none")
    async def look(page: int) -> str:
        if gates is not None:
            await gates.pass_through(page)
        return f"page {page}"

    @tool(effect="once")
    def pay() -> str:
        return "paid"

    usage = Usage(input=10, output=2, requests=1)
    model = ScriptedModel(*[tool_call("look", page=page) for page in range(3)], tool_call("pay"), "done", usage=usage)
    return Agent(model, tools=[look, pay], approvals=Approvals(Rule("pay")), store=store, **options)


@pytest.mark.parametrize("kind", sample(PLACES, 2))
async def test_status_and_result_of_a_run_that_another_process_drives(kind: str, tmp_path: Path) -> None:
    async with stores(kind, tmp_path) as (here, elsewhere):
        gates = Gates()
        one, watcher = agent(here, gates), agent(elsewhere)
        handle = one.start("Go", run_id="r", labels={"team": "blue"})
        watched = watcher.attach("r")
        for number in range(3):
            await gates.reached[number].wait()
            for view in (watched, one.attach("r")):
                status = await view.status()
                assert (status.id, status.agent, status.status, status.driven) == ("r", "agent", "running", True)
                assert status.labels == {"team": "blue"}
                assert [step.observation for step in status.steps][:number] == [f"page {at}" for at in range(number)]
                assert status.tool_calls == number
                assert status.model_calls in (number, number + 1), "an answer is stored with what follows from it"
                assert status.usage.total == 12 * status.model_calls
                assert status.pending == ()
            gates.opened[number].set()
        run = await handle.result()
        waiting = await watched.result()
        assert waiting.stop == run.stop == stops.Suspended()
        assert waiting.pending == run.pending == (await watched.status()).pending
        assert not (await watched.status()).driven
        resumed = await one.resume("r", {item.id: Approve() for item in run.pending})
        result = await watched.result()
        assert (result.text, result.stop, result.usage) == ("done", resumed.stop, resumed.usage)
        status = await watched.status()
        assert status.status == "Completed"
        assert list(status.messages) == list(resumed.messages)
        assert (status.usage, status.model_calls, status.tool_calls) == (
            resumed.usage,
            resumed.model_calls,
            resumed.tool_calls,
        )
        items = [item async for item in watched.events(after=status.entries - 1)]
        assert [type(item.what) for item in items] == [Ended]


async def test_result_waits_for_the_end_and_drives_nothing(tmp_path: Path) -> None:
    async with stores("sqlite", tmp_path) as (here, elsewhere):
        gates = Gates()
        handle = agent(here, gates).start("Go", run_id="r")
        await gates.reached[0].wait()
        result = asyncio.create_task(agent(elsewhere).attach("r").result())
        await turns(20)
        assert not result.done()
        for gate in gates.opened:
            gate.set()
        assert (await result).pending == (await handle.result()).pending


@pytest.mark.parametrize("stored", [True, False])
async def test_an_unknown_run_is_an_error_where_it_is_read(stored: bool, tmp_path: Path) -> None:
    store = PLACES["memory"](tmp_path)() if stored else None
    watched: RunHandle[Any] = agent(store).attach("r")
    assert repr(watched) == "RunHandle('r')"
    for read in (watched.status(), watched.result(), anext(watched.events())):
        with pytest.raises(RunNotFound, match="there is no run 'r'"):
            await read


@pytest.mark.parametrize("kind", sample([*PLACES, "none"], 3))
@pytest.mark.parametrize("ids", ["chosen", "fresh", "of a test"])
async def test_a_handle_has_the_id_at_once_and_waits_for_the_record(kind: str, ids: str, tmp_path: Path) -> None:
    store = None if kind == "none" else PLACES[kind](tmp_path)()
    gates = Gates()
    options: Any = {"chosen": {"run_id": "r"}, "of a test": {"environment": Environment(ids=lambda: "t")}}.get(ids, {})
    one = agent(store, gates)
    handle = one.start("Go", **options)
    assert handle.id == {"chosen": "r", "of a test": "t"}.get(ids, handle.id) != ""
    assert await handle.recorded()
    assert (await one.attach(handle.id).status()).status == "running"
    if store is not None:
        assert await store.find(f"run:{handle.id}") is not None
    for gate in gates.opened:
        gate.set()
    run = await handle.result()
    assert run.id == handle.id
    assert await handle.recorded()
    if store is not None:
        await store.close()


async def test_recorded_raises_what_kept_the_run_from_being_opened(tmp_path: Path) -> None:
    store = PLACES["memory"](tmp_path)()
    gates = Gates()
    one = agent(store, gates)
    first = one.start("Go", run_id="r")
    assert await first.recorded()
    with pytest.raises(RunExists):
        await one.start("Go elsewhere", run_id="r").recorded()
    with pytest.raises(RunInProgress):
        await one.start("Go", run_id="r").recorded()
    await first.cancel()
    assert (await first.result()).stop == stops.Cancelled()
    cancelled = one.start("Go", run_id="s")
    await cancelled.cancel()
    assert not await cancelled.recorded()
    assert await store.find("run:s") is None


async def test_inside_another_run_a_handle_has_the_id_of_that_run() -> None:
    ids: list[str] = []

    helper = Agent(ScriptedModel("helped"), name="helper")

    @tool
    async def ask() -> str:
        handle = helper.start("Help")
        assert await handle.recorded()
        ids.append(handle.id)
        return (await handle.result()).text

    run = await Agent(ScriptedModel(tool_call("ask"), "done"), tools=[ask]).run("Go")
    assert run.observations == ("helped",)
    assert ids == [run.id]


@pytest.mark.parametrize("kind", sample(PLACES, 2))
async def test_who_waits_for_a_run_that_waits_learns_that_anyone_goes_on_with_it_or_removes_it(
    kind: str, tmp_path: Path
) -> None:

    async with stores(kind, tmp_path) as (here, elsewhere):
        driver = agent(here)
        run = await driver.run("pay", run_id="run")
        watched = [runs_of(here), runs_of(elsewhere)]
        count = (await driver.attach("run").status()).entries
        waiting = [asyncio.ensure_future(each.continued("run", count)) for each in watched]
        await turns(20)
        assert not any(each.done() for each in waiting)
        await driver.resume("run", {run.pending[0].id: Approve()})
        assert await asyncio.gather(*waiting) == [True, True]
        count = (await driver.attach("run").status()).entries
        assert await watched[1].continued("run", count - 1)  # it has gone on before
        await here.delete("run:run")
        assert not await watched[1].continued("run", count)
