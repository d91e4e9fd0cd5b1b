"""Submitted runs wait in the store until a worker drives them; a worker that is drained gives back what it has."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.agents.working import Storm, address, storm_acts, with_lease
from tests.samples import amount, sample
from tests.stores.places import QUEUES, Place
from tests.stores.server import schema
from tests.stores.test_conformance import STORES as CLOCKED
from ziggurat import Agent, AgentRun, ConfigurationError, Context, Key, Message, tool
from ziggurat.agents import Answer, Environment
from ziggurat.agents.worker import Worker
from ziggurat.errors import RunExists, StoreError, StoreUnavailable
from ziggurat.flows import ask, event, flow, gather, sleep
from ziggurat.journal import LocalJournal, Store
from ziggurat.journal.entries import Opened
from ziggurat.journal.store import Claim
from ziggurat.messages import stops, tool_call
from ziggurat.models import FunctionModel
from ziggurat.stores import InMemoryStore
from ziggurat.testing import HandClock, ScriptedModel, run_until_idle

STORES = ["by reference", "sqlite", "postgres"]
DB: Key[str] = Key("db")


def _agent(store: Store | None, name: str = "agent", **options: Any) -> Agent:
    @tool
    async def look(what: str, ctx: Context) -> str:
        return f"{what} in {ctx.scope[DB]}" if what == "database" else what

    rules = [(f"go {what}", tool_call("look", id=what, what=what)) for what in ("here", "database")]
    return Agent(ScriptedModel(rules=rules, always="done"), tools=[look], store=store, name=name, **options)


async def _all_end(agent: Agent, worker: "Worker[Any]", *run_ids: str) -> list[AgentRun[Any]]:
    async with worker:
        return list(await asyncio.gather(*(agent.attach(run_id).result() for run_id in run_ids)))


@pytest.mark.parametrize("new_store", sample(STORES, 2), indirect=True)
async def test_a_submitted_run_is_driven_by_a_worker_elsewhere(new_store: Place) -> None:
    agent = _agent(new_store())
    submitted = await agent.submit("go here", run_id="r", labels={"team": "blue"})
    assert submitted.id == "r"
    status = await submitted.status()
    assert (status.status, status.driven, status.labels, status.entries) == ("running", False, {"team": "blue"}, 1)
    assert (await agent.submit("go here", run_id="r")).id == "r", "to submit it again has no effect"
    with pytest.raises(RunExists, match="another request"):
        await agent.submit("go there", run_id="r")
    with pytest.raises(RunExists, match="another agent"):
        await _agent(agent.store, "other").submit("go here", run_id="r")
    fresh = await agent.submit("go away")
    elsewhere = _agent(new_store())
    first, second = await _all_end(elsewhere, elsewhere.worker(), "r", fresh.id)
    assert (first.text, first.observations, second.text) == ("done", ("here",), "done")
    assert (await agent.run("go here", run_id="r")).replayed
    assert (await submitted.result()).text == "done"


async def test_runs_are_taken_by_priority_and_not_before_their_time() -> None:
    clock = HandClock()
    store = InMemoryStore(clock=clock)
    agent = _agent(store)
    environment = Environment(clock=clock)
    later = datetime.fromtimestamp(clock.now(), UTC) + timedelta(hours=1)
    for name, priority, not_before in (("a", 0, None), ("later", 9, later), ("b", 5, None), ("c", 5, None)):
        await agent.submit("go", run_id=name, priority=priority, not_before=not_before, environment=environment)
        await clock.advance(1)
    assert list((await agent.recover(concurrency=1, environment=environment)).runs) == ["b", "c", "a"]
    await clock.advance(3_500)
    assert (await agent.recover(environment=environment)).runs == {}
    await clock.advance(100)
    assert list((await agent.recover(environment=environment)).runs) == ["later"]


async def test_what_cannot_be_submitted_is_refused_at_once() -> None:
    with pytest.raises(ConfigurationError, match="has no store"):
        await _agent(None).submit("go")
    with pytest.raises(ConfigurationError, match="has no store"):
        _agent(None).worker()
    agent = _agent(InMemoryStore())
    with pytest.raises(ConfigurationError, match="no time zone"):
        await agent.submit("go", not_before=datetime(2030, 1, 1))
    with pytest.raises(ConfigurationError, match="priority"):
        await agent.submit("go", priority=1000)
    assert (await agent.recover()).runs == {}


async def test_grants_of_a_submitted_run_hold_for_the_worker() -> None:
    agent = _agent(InMemoryStore())
    await agent.submit("go here", run_id="r", grants=[])
    run = (await agent.recover()).runs["r"]
    assert run.observations != ("here",)


async def test_a_flow_is_submitted_with_its_input() -> None:
    @flow(store=InMemoryStore())
    async def double(number: int) -> int:
        return 2 * number

    submitted = await double.submit(21, run_id="r")
    with pytest.raises(ConfigurationError, match="does not fit"):
        await double.submit("x")
    async with double.worker():
        assert (await submitted.result()).output == 42


@pytest.mark.parametrize("new_store", STORES, indirect=True)
async def test_the_result_of_a_submitted_run_waits_for_its_end_or_for_decisions(new_store: Place) -> None:
    @flow(store=new_store())
    async def order() -> str:
        paid = await event("paid", int)
        return f"{paid} {await ask('Agreed?', bool)}"

    submitted = await order.submit(None, run_id="r")
    async with order.worker():
        waiting = asyncio.create_task(submitted.result())
        while (await submitted.status()).status != "Suspended":
            await run_until_idle()
        assert not waiting.done()
        await order.attach("r").send("paid", 30)
        run = await waiting
        assert run.stop == stops.Suspended()
        (question,) = run.pending
        await submitted.decide({question.id: Answer(True)})
        while (run := await submitted.result()).pending:  # until the worker has taken it
            await run_until_idle()
        assert run.output == "30 True"


@pytest.mark.parametrize("decided_first", [True, False])
async def test_a_timer_beside_a_question_wakes_the_run_whatever_is_decided_first(decided_first: bool) -> None:
    clock = HandClock()
    store, environment = InMemoryStore(clock=clock), Environment(clock=clock)

    @flow(store=store)
    async def order() -> str:
        agreed, _ = await gather(ask("Agreed?", bool), sleep(days=2))
        return f"agreed: {agreed}"

    await order.submit(None, run_id="r", environment=environment)
    (run,) = (await order.recover(environment=environment)).runs.values()
    due = clock.now() + 2 * 86_400
    for decided in (False, True)[: 1 + decided_first]:
        if decided:
            (question,) = [item for item in run.pending if item.until is None]
            await order.attach("r").decide({question.id: Answer(True)}, environment=environment)
            assert set((await order.recover(environment=environment)).runs) == {"r"}, "a decision makes a run due"
        info = await store.find("run:r")
        assert info is not None
        assert (info.status, info.due) == ("Suspended", due)
        assert (await order.recover(environment=environment)).runs == {}, "it is not due"
    await clock.advance(2 * 86_400)
    (run,) = (await order.recover(environment=environment)).runs.values()
    if not decided_first:
        assert run.stop == stops.Suspended()
        (question,) = run.pending
        await order.attach("r").decide({question.id: Answer(True)}, environment=environment)
        (run,) = (await order.recover(environment=environment)).runs.values()
    assert run.output == "agreed: True"


@pytest.mark.parametrize("new_store", sample(STORES, 2), indirect=True)
async def test_a_drained_worker_lets_runs_end_and_gives_back_the_others(new_store: Place) -> None:
    goes_on, started = asyncio.Event(), asyncio.Semaphore(0)

    def waiting_agent(store: Store) -> Agent:
        @tool(effect="none")
        async def wait() -> str:
            started.release()
            await goes_on.wait()
            return "waited"

        rules = [("go", tool_call("wait"))]
        return Agent(ScriptedModel(rules=rules, always="done"), tools=[wait], store=store, name="agent")

    agent = waiting_agent(new_store())
    for number in range(3):
        await agent.submit("go", run_id=f"r-{number}")
    worker = agent.worker(concurrency=2, grace=0.0)
    working = asyncio.create_task(worker.run())
    for _ in range(2):
        await started.acquire()
    assert worker.running == 2
    worker.drain()
    await working
    infos = [await agent.store.find(f"run:r-{number}") for number in range(3)]
    assert [(info.status, info.owner) for info in infos if info is not None] == [("running", "")] * 3
    goes_on.set()
    recovery = await waiting_agent(new_store()).recover(attempts=1)
    assert {run_id: run.text for run_id, run in recovery.runs.items()} == {f"r-{at}": "done" for at in range(3)}
    for number in range(3):
        entries = LocalJournal.load(await agent.record(f"r-{number}")).entries
        assert {entry.losses for entry in entries if isinstance(entry, Opened)} == {0}, "to be drained is no loss"


async def test_a_drained_worker_waits_for_its_runs() -> None:
    goes_on = asyncio.Event()

    @tool(effect="none")
    async def wait() -> str:
        worker.drain()
        goes_on.set()
        return "waited"

    rules = [("go", tool_call("wait"))]
    agent = Agent(ScriptedModel(rules=rules, always="done"), tools=[wait], store=InMemoryStore())
    await agent.submit("go", run_id="r")
    worker = agent.worker()
    await worker.run()
    assert goes_on.is_set()
    assert (await agent.attach("r").result()).stop == stops.Completed()


async def test_a_run_that_cannot_go_on_does_not_keep_the_worker_busy(caplog: pytest.LogCaptureFixture) -> None:
    clock = HandClock()
    store = InMemoryStore(clock=clock)
    agent, environment = _agent(store), Environment(clock=clock)
    await agent.submit("go database", run_id="lacks", priority=9, environment=environment)
    worker = agent.worker(environment=environment)
    await agent.submit("go here", run_id="whole", environment=environment)
    assert [run.text for run in await _all_end(agent, worker, "whole")] == ["done"]
    assert caplog.text.count("the run lacks could not go on") == 1
    await _all_end(agent, agent.worker(deps={DB: "x"}, environment=environment), "lacks")


async def test_a_run_whose_store_failed_is_driven_again_after_a_second() -> None:
    clock, tries, failed = HandClock(), list[float](), asyncio.Event()

    def fail_once(messages: list[Message]) -> str:
        tries.append(clock.now())
        if len(tries) == 1:
            failed.set()
            raise StoreError("the disk is full")
        return "done"

    agent = Agent(FunctionModel(fail_once), name="desk", store=InMemoryStore(clock=clock))
    environment = Environment(clock=clock)
    await agent.submit("go", run_id="r", environment=environment)
    worker = agent.worker(environment=environment)
    async with asyncio.timeout(20), worker:
        await failed.wait()
        await run_until_idle()
        clock.skip(1.0)
        assert (await agent.attach("r").result()).text == "done"
    assert tries[1] - tries[0] == 1.0


async def test_a_run_that_lost_its_lease_here_and_goes_on_is_tried_again_soon(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, gate = HandClock(), asyncio.Event()
    claims = [[Claim("run:r", 0, lost=True)]]

    class Losing(InMemoryStore):
        async def claim(self, agent: str, limit: int = 1) -> list[Claim]:
            return claims.pop() if claims else []

    agent = Agent(ScriptedModel([gate, "done"]), name="desk", store=Losing(clock=clock))
    environment = Environment(clock=clock)
    handle = agent.start("go", run_id="r", environment=environment)
    assert await handle.recorded()
    async with agent.worker(environment=environment):
        while claims:
            await run_until_idle()
        await run_until_idle()
        gate.set()
        assert (await handle.result()).text == "done"
    assert "could not go on" not in caplog.text


@pytest.mark.parametrize("error", [StoreError, StoreUnavailable])
@pytest.mark.parametrize("new_store", STORES, indirect=True)
async def test_a_worker_outlives_the_failures_of_its_store(
    new_store: Place, error: type[StoreError], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = new_store()
    agent, failures = _agent(store), {"claim": 6, "release": 3}

    def fail_at_first(name: str) -> None:
        method = getattr(store, name)

        async def failing(*arguments: Any) -> Any:
            failures[name] -= 1
            if failures[name] >= 0:
                raise error("the database is locked")
            return await method(*arguments)

        monkeypatch.setattr(store, name, failing)

    await agent.submit("go database", run_id="lacks", priority=9)  # its lease is released, though it could not go on
    await agent.submit("go here", run_id="r")
    for name in failures:
        fail_at_first(name)
    (run,) = await _all_end(agent, agent.worker(environment=Environment(clock=HandClock(auto=True))), "r")
    assert run.text == "done"
    assert caplog.text.count("it is tried again in") == 6


async def test_a_worker_of_a_closed_store_ends_and_logs_it(caplog: pytest.LogCaptureFixture) -> None:
    agent = _agent(InMemoryStore())
    worker = agent.worker()
    await agent.store.close()
    with pytest.raises(StoreError, match="closed"):
        async with worker:
            await run_until_idle()
    assert "has ended" in caplog.text


@pytest.mark.parametrize(("kind", "kills", "pauses", "drains"), sample([("sqlite", 1, 1, 1), ("postgres", 1, 1, 0)], 1))
async def test_each_run_ends_once_whatever_happens_to_workers(
    kind: str, kills: int, pauses: int, drains: int, tmp_path: Path
) -> None:
    url = with_lease(schema() if kind == "postgres" else address(kind, tmp_path))
    acts = storm_acts(kills, pauses, drains, seed=len(kind))
    runs = amount(20, 60)
    outcome = await Storm(url, tmp_path, 2, acts).rage(runs)
    assert (outcome.completed, outcome.ended_more_than_once, outcome.doubled) == (runs, [], [])
    assert sum(outcome.acts.values()) == kills + pauses + drains


@pytest.mark.parametrize("skew", [-60.0, -1.5, -0.01, 0.0, 0.05, 7.0, 60.0])
@pytest.mark.parametrize("kind", sample(QUEUES, 2))
async def test_a_run_that_is_due_by_the_clock_of_the_store_goes_on(kind: str, skew: float, tmp_path: Path) -> None:
    class Skewed(HandClock):
        def now(self) -> float:
            return clock.now() + skew

    clock = HandClock()
    store = CLOCKED[kind](tmp_path)(clock)

    @flow(name="waiting", store=store)
    async def waiting() -> str:
        await sleep(seconds=20)
        await event("paid", timeout=20, default=None)
        return await ask("Which?", default="none", expires=20)

    environment = Environment(clock=Skewed())
    await waiting.submit(run_id="r", environment=environment)
    stages = list[str]()
    while True:
        run = (await waiting.recover(environment=environment)).runs["r"]
        if not run.pending:
            break
        stages.append(run.pending[0].stage)
        clock.skip(19.9)
        assert (await waiting.recover(environment=environment)).runs == {}
        clock.skip(0.2)
    assert (stages, run.output) == (["timer", "event", "question"], "none")
    await store.close()
