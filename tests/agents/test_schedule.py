"""Schedules: a run for each tick, once, whichever processes are there; what was missed for long is skipped."""

import asyncio
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.stores.places import new_store, reopened, used
from ziggurat.agents.flow import flow
from ziggurat.agents.schedule import schedule
from ziggurat.calls.step import step
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.ticks import every
from ziggurat.runs.options import Environment
from ziggurat.testing.clock import HandClock, settle

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
def test_each_tick_is_run_once_by_one_of_several_processes(place: str, tmp_path: Path) -> None:
    made: list[str] = []

    async def trial() -> None:
        store, clock = new_store(), HandClock(START)
        environment = Environment(clock=clock)
        tasks: list[asyncio.Task[None]] = []

        def begin() -> None:
            hourly = schedule(reports(reopened(store), made), every(hours=1), input=hour_of, catch_up=4000)
            tasks.append(asyncio.create_task(hourly.run(environment=environment)))

        begin()
        begin()
        await clock.advance(2.5 * 3600)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        clock.skip(4 * 3600)  # nothing is there until half past six
        begin()
        await clock.advance(3600)
        await settle()
        infos = await store.logs("run:", labels={"schedule": "report"})
        assert {info.status for info in infos} == {"Completed"}
        assert sorted(info.id for info in infos)[0] == "report-20010909T010000Z"
        tasks[-1].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    with used(place, tmp_path):
        asyncio.run(trial())
    assert sorted(made) == ["-1", "0", "1", "2", "6", "7"]


def test_a_run_that_cannot_be_started_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    made: list[str] = []
    clock = HandClock(START)

    def unfit_once(tick: datetime) -> Any:
        return "no number" if hour_of(tick) == 1 else hour_of(tick)

    async def trial() -> None:
        hourly = schedule(reports(new_store(), made), every(hours=1), input=unfit_once)
        task = asyncio.create_task(hourly.run(environment=Environment(clock=clock)))
        await clock.advance(2.5 * 3600)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(trial())
    assert made == ["0", "2"]
    assert "could not be started" in caplog.text
    with pytest.raises(ConfigurationError, match="the name of a schedule"):
        schedule(reports(new_store(), made), every(hours=1), name="two words")
