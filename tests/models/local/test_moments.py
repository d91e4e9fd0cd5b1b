"""Tests of dates and times in the format of schemas."""

from datetime import date

import pytest

from ziggurat.models.local.moments import written

SUNDAY = date(2026, 11, 22)


@pytest.mark.parametrize(
    ("text", "form", "said"),
    [
        ("2027-02-14", "date", "2027-02-14"),
        ("14th of February 2027", "date", "2027-02-14"),
        ("February 14, 2027", "date", "2027-02-14"),
        ("14 February", "date", "2027-02-14"),
        ("24 December", "date", "2026-12-24"),
        ("today", "date", "2026-11-22"),
        ("the day after tomorrow", "date", "2026-11-24"),
        ("yesterday", "date", "2026-11-21"),
        ("Monday", "date", "2026-11-23"),
        ("Sunday", "date", "2026-11-29"),
        ("last Friday", "date", "2026-11-20"),
        ("31 February 2027", "date", None),
        ("soon", "date", None),
        ("7", "time", None),
        ("25:00", "time", None),
        ("12 am", "time", "00:00:00"),
        ("12:05 pm", "time", "12:05:00"),
        ("6 o'clock", "time", "06:00:00"),
        ("noon", "time", "12:00:00"),
        ("2027-02-14", "date-time", "2027-02-14T00:00:00"),
        ("tomorrow at 7:15:30", "date-time", "2026-11-23T07:15:30"),
    ],
)
def test_written(text: str, form: str, said: str | None) -> None:
    assert written(text, form, SUNDAY) == said


def test_days_that_need_today_are_unknown_without_it() -> None:
    assert written("tomorrow", "date", None) is None
    assert written("14 February", "date", None) is None
    assert written("14 February 2027", "date", None) == "2027-02-14"
