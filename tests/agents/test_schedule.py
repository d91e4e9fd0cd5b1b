"""Schedules: a run for each tick, once, whichever workers are there; what was missed for long is skipped."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from tests.stores.places import new_store, reopened, used
from ziggurat import ConfigurationError
from ziggurat.agents import Environment, Worker
from ziggurat.errors import StoreUnavailable
from ziggurat.flows import every, flow, schedule, step
from ziggurat.journal import LogInfo, Row
from ziggurat.stores import InMemoryStore
from ziggurat.testing import HandClock, run_until_idle

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


async def test_what_a_store_cannot_take_for_a_while_is_submitted_when_it_can(caplog: pytest.LogCaptureFixture) -> None:
    class Server(InMemoryStore):
        away = False

        async def create(
            self, info: LogInfo, rows: Sequence[Row] = (), blobs: Mapping[str, bytes] | None = None
        ) -> int:
            if self.away:
                raise StoreUnavailable("the server cannot be reached")
            return await super().create(info, rows, blobs)

    made: list[str] = []
    clock, server = HandClock(START), Server()

    report = reports(server, made)
    hourly = schedule(report, every(hours=1), input=hour_of)
    task = asyncio.create_task(hourly.run(environment=Environment(clock=clock)))
    await clock.advance(1800)
    for away_for in (30, 90):  # the second is longer than a run may be late
        server.away = True
        await clock.advance(1800 + away_for)
        server.away = False
        await clock.advance(1800 - away_for)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await report.recover()
    assert made == ["0", "1"]
    assert "is tried again" in caplog.text


def test_a_worker_takes_the_schedules_of_its_own_agent_only() -> None:
    report = reports(new_store(), [])
    other = flow(name="other", store=new_store())(report_nothing)
    for wrong in (schedule(other, every(hours=1)), "hourly"):
        with pytest.raises(ConfigurationError, match="report"):
            report.worker(schedules=[wrong])


async def report_nothing() -> None:
    pass
