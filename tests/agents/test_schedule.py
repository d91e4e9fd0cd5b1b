"""Schedules: a run for each tick, once, whichever workers are there; what was missed for long is skipped."""

import asyncio
import random
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from tests.samples import amount
from tests.stores.places import new_store, reopened, used
from ziggurat import Agent, ConfigurationError
from ziggurat.agents import Environment
from ziggurat.agents.recurrence import due_ticks
from ziggurat.agents.worker import Worker
from ziggurat.errors import CallerError, StoreError, StoreUnavailable
from ziggurat.flows import every, flow, schedule, step
from ziggurat.journal import LogInfo, Row
from ziggurat.stores import InMemoryStore
from ziggurat.testing import HandClock, ScriptedModel, run_until_idle

START = 1_000_000_800.0
"""A full hour."""


def reports(store: Any, made: list[str]) -> Any:
    @step
    async def note(hour: int) -> None:
        made.append(f"{hour}")

    @flow(store=store)
    async def report(hour: int) -> int:
        await note(hour)
        return hour

    return report


def hour_of(tick: datetime) -> int:
    return int(tick.timestamp() - START) // 3600


@pytest.mark.parametrize("place", ["memory", "sqlite"])
def test_each_tick_is_run_once_by_one_of_several_workers(place: str, tmp_path: Path) -> None:
    made: list[str] = []

    async def trial() -> None:
        store, clock = new_store(), HandClock(START)

        def worker() -> Worker[Any]:
            report = reports(reopened(store), made)
            hourly = schedule(report, every(hours=1), input=hour_of, catch_up=4000)
            return cast("Worker[Any]", report.worker(schedules=[hourly], environment=Environment(clock=clock)))

        async def completed(count: int) -> None:
            ids: list[str] = []
            while len(ids) < count:
                await run_until_idle()
                ids = [info.id for info in await store.logs(labels={"schedule": "report"}, status="Completed")]
            assert min(ids) == "report-20010909T010000Z"

        async with worker(), worker():
            await clock.advance(2.5 * 3600)
            await completed(4)
        clock.skip(4 * 3600)  # nothing is there until half past six
        async with worker():
            await clock.advance(3600)
            await completed(6)
        assert len(await store.logs("run:")) == 6

    with used(place, tmp_path):
        asyncio.run(trial())
    assert sorted(made) == ["-1", "0", "1", "2", "6", "7"]


async def test_a_run_that_cannot_be_started_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    made: list[str] = []
    clock = HandClock(START)

    def unfit_once(tick: datetime) -> Any:
        return "no number" if hour_of(tick) == 1 else hour_of(tick)

    report = reports(new_store(), made)
    hourly = schedule(report, every(hours=1), input=unfit_once)
    async with report.worker(schedules=[hourly], environment=Environment(clock=clock)):
        await clock.advance(2.5 * 3600)
        await report.attach(hourly.run_id(datetime.fromtimestamp(START + 7200, UTC))).result()
    assert made == ["0", "2"]
    assert "could not be submitted" in caplog.text
    with pytest.raises(ConfigurationError, match="the name of a schedule"):
        schedule(reports(new_store(), made), every(hours=1), name="two words")


class Server(InMemoryStore):
    """A store that fails at times."""

    error: StoreError | None = None

    async def create(self, info: LogInfo, rows: Sequence[Row] = (), blobs: Mapping[str, bytes] | None = None) -> int:
        if self.error is not None:
            raise self.error
        return await super().create(info, rows, blobs)


class WallClock(HandClock):
    """A clock that can be set, which the time it measures does not follow."""

    ahead = 0.0

    def now(self) -> float:
        return super().now() + self.ahead


@pytest.mark.parametrize("catch_up", [0, 30, 150])
@pytest.mark.parametrize("seed", range(amount(3, 100)))
async def test_no_tick_is_lost_that_is_late_by_no_more_than_catch_up(seed: int, catch_up: int) -> None:
    chance = random.Random(seed)
    clock, server = WallClock(START), Server()
    minutely = schedule(reports(server, []), every(minutes=1), input=hour_of, catch_up=catch_up)
    task = asyncio.create_task(minutely.run(environment=Environment(clock=clock)))
    await clock.advance(1)
    started, skipped, missed = set[str](), set[str](), list[datetime]()
    for _ in range(12):
        before, error = clock.now(), chance.choice([None, None, StoreError("locked"), StoreUnavailable("gone")])
        jumped = chance.random() < 0.3
        if jumped:  # as while the machine is suspended
            clock.ahead += chance.randrange(1, 300)
        elif error is None:
            server.error = None
            started |= {minutely.run_id(tick) for tick in missed if before - tick.timestamp() <= catch_up}
            skipped |= {minutely.run_id(tick) for tick in missed if before - tick.timestamp() > catch_up + 11}
            missed.clear()
            await clock.advance(chance.randrange(15, 200))
        else:
            server.error = error
            await clock.advance(chance.randrange(1, 200))
        passed = [*due_ticks(every(minutes=1), _time(before), _time(clock.now()))]
        if jumped or error is not None:
            missed += passed
        else:
            started |= {minutely.run_id(tick) for tick in passed}
    assert not task.done()
    ids = {info.id for info in await server.logs("run:", limit=1000)}
    assert started <= ids
    assert not skipped & ids
    await cancelled(task)


async def test_ticks_are_met_again_once_a_clock_that_was_ahead_is_corrected() -> None:
    clock, store = WallClock(START), InMemoryStore()
    minutely = schedule(reports(store, []), every(minutes=1), input=hour_of)
    task = asyncio.create_task(minutely.run(environment=Environment(clock=clock)))
    await clock.advance(30)
    clock.ahead = 3600
    await clock.advance(130)
    clock.ahead = 0.0
    await clock.advance(200)
    ids = {info.id for info in await store.logs("run:", limit=1000)}
    assert ids >= {minutely.run_id(_time(START + 60 * minute)) for minute in (0, 3, 4, 5)}
    await cancelled(task)


async def test_the_schedule_of_a_closed_store_ends() -> None:
    clock, store = HandClock(START), InMemoryStore()
    hourly = schedule(reports(store, []), every(hours=1), input=hour_of)
    task = asyncio.create_task(hourly.run(environment=Environment(clock=clock)))
    await store.close()
    await clock.advance(1)
    with pytest.raises(StoreError, match="closed"):
        await task


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


async def cancelled(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_a_worker_takes_the_schedules_of_its_own_agent_only() -> None:
    report = reports(new_store(), [])
    other = flow(name="other", store=new_store())(report_nothing)
    for wrong in (schedule(other, every(hours=1)), "hourly"):
        with pytest.raises(ConfigurationError, match="report"):
            report.worker(schedules=[wrong])


async def report_nothing() -> None:
    pass


def test_a_schedule_without_the_input_that_its_runs_need_is_refused() -> None:
    agent = Agent(ScriptedModel(always="x"), store=new_store())
    report = reports(new_store(), [])
    for runnable, value in ((report, None), (report, "noon"), (agent, None), (agent, " ")):
        with pytest.raises(CallerError):
            schedule(runnable, every(hours=1), input=value)
    assert schedule(report, every(hours=1), input=3).name == "report"
    assert schedule(agent, every(hours=1), input="Go on").name == "agent"


def test_a_schedule_is_passed_in_a_list() -> None:
    report = reports(new_store(), [])
    with pytest.raises(ConfigurationError, match="schedules"):
        report.worker(schedules=schedule(report, every(hours=1), input=hour_of))
