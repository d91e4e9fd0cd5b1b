"""Ticks: at fixed intervals and by cron, in any time zone, whenever they are asked for."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings, strategies as st

from tests.wrong import wrong
from ziggurat import ConfigurationError
from ziggurat.agents.recurrence import Recurrence, due_ticks
from ziggurat.flows import cron, every

RECURRENCES: st.SearchStrategy[Recurrence] = st.one_of(
    st.builds(every, seconds=st.integers(60, 10_000)),
    st.builds(every, hours=st.integers(1, 50), start=st.datetimes(datetime(2025, 1, 1), timezones=st.just(UTC))),
    st.builds(
        cron,
        st.sampled_from(["0 3 * * *", "*/17 * * * *", "30 2 * * SUN", "0 0 1 * *", "15 1-4 * 3,10 *"]),
        st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]),
    ),
)
TIMES = st.datetimes(datetime(2026, 1, 1), datetime(2026, 12, 31), timezones=st.just(UTC))


@settings(max_examples=60, deadline=None)
@given(RECURRENCES, TIMES, st.lists(st.integers(1, 200_000), min_size=1, max_size=6))
def test_each_tick_is_due_once_however_time_is_cut(recurrence: Recurrence, start: datetime, steps: list[int]) -> None:
    cuts = [start]
    for seconds in steps:
        cuts.append(cuts[-1] + timedelta(seconds=seconds))
    whole = [*due_ticks(recurrence, start, cuts[-1])]
    parts = [tick for after, until in pairwise(cuts) for tick in due_ticks(recurrence, after, until)]
    assert parts == whole
    assert whole == sorted(set(whole))
    assert all(start < tick <= cuts[-1] for tick in whole)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 100_000), TIMES, TIMES)
def test_an_interval_counts_from_its_start(seconds: int, start: datetime, after: datetime) -> None:
    until = after + timedelta(seconds=5 * seconds)
    ticks = [*due_ticks(every(seconds=seconds, start=start), after, until)]
    assert all((tick - start) % timedelta(seconds=seconds) == timedelta(0) and tick >= start for tick in ticks)
    if after >= start:
        assert len(ticks) == 5


@pytest.mark.parametrize(
    ("day", "expected"),
    [
        (datetime(2026, 3, 29), ["03:00"]),  # 2:30 does not exist in Berlin on that day
        (datetime(2026, 10, 25), ["02:30"]),  # it comes twice
        (datetime(2026, 7, 1), ["02:30"]),
    ],
)
def test_a_night_has_one_tick_when_clocks_change(day: datetime, expected: list[str]) -> None:
    berlin = ZoneInfo("Europe/Berlin")
    start = day.replace(tzinfo=berlin)
    ticks = due_ticks(cron("30 2 * * *", "Europe/Berlin"), start, (start + timedelta(days=1)))
    assert [f"{tick.astimezone(berlin):%H:%M}" for tick in ticks] == expected


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: every(), "takes the length"),
        (lambda: every(hours=wrong(1.5)), "hours"),
        (lambda: every(hours=1, start=datetime(2026, 1, 1)), "needs a time zone"),
        (lambda: cron("0 3 * *"), "is not valid"),
        (lambda: cron("0 0 31 2 *"), "is not valid"),
        (lambda: cron("0 3 * * *", "Mars/Base"), "no time zone 'Mars/Base'"),
    ],
)
def test_what_is_no_recurrence_is_refused(make: Any, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        make()
