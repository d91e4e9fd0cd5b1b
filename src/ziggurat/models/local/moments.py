"""Dates and times in the format of schemas: ``5 March 2026`` is ``2026-03-05``, ``8 pm`` is ``20:00:00``."""

__all__ = ["day_in", "time_in", "written"]

import re
from datetime import date, timedelta

from ziggurat.models.local.lexicon import words_in

_DAYS = words_in("days")
_MONTHS = words_in("months")
_MONTH = "|".join(_MONTHS)
_PLAIN = {"today": 0, "tonight": 0, "tomorrow": 1, "yesterday": -1, "the day after tomorrow": 2}
_CLOCK = re.compile(r"(\d{1,2})(?::(\d{2}))?(?::(\d{2}))?(?:\s*o'clock)?\s*(?:([ap])\.?m\b)?", re.IGNORECASE)


def written(text: str, form: str, today: date | None) -> str | None:
    """Return a date, a time or both in the format a schema asks for (``date``, ``time``, ``date-time``).

    None if the text is incomplete, such as a day without its month, or a day of the week when `today` is unknown.
    """
    day, clock = day_in(text, today), time_in(text)
    if form == "date":
        return day.isoformat() if day else None
    if form == "time":
        return clock
    return f"{day.isoformat()}T{clock or '00:00:00'}" if day else None


def day_in(text: str, today: date | None) -> date | None:
    """Return the date that a text names, relative to today if needed."""
    low = text.lower()
    if found := re.search(r"\b(\d{4})-(\d{1,2})-(\d{1,2})\b", low):
        return _date(found[1], found[2], found[3])
    if found := re.search(rf"\b(\d{{1,2}})(?:st|nd|rd|th)?(?: of)? ({_MONTH})\b(?:,? (\d{{4}}))?", low):
        return _named_day(found[1], found[2], found[3], today)
    if found := re.search(rf"\b({_MONTH}) (\d{{1,2}})(?:st|nd|rd|th)?\b(?:,? (\d{{4}}))?", low):
        return _named_day(found[2], found[1], found[3], today)
    return None if today is None else _relative_day(low, today)


def _relative_day(low: str, today: date) -> date | None:
    for words in sorted(_PLAIN, key=len, reverse=True):
        if re.search(rf"\b{words}\b", low):
            return today + timedelta(days=_PLAIN[words])
    for at, name in enumerate(_DAYS):
        if re.search(rf"\b{name}\b", low):
            ahead = (at - today.weekday()) % 7 or 7
            return today + timedelta(days=ahead - 7 if re.search(r"\blast\b", low) else ahead)
    return None


def _named_day(day: str, month: str, year: str | None, today: date | None) -> date | None:
    number = _MONTHS.index(month) + 1
    if year is not None:
        return _date(year, number, day)
    if today is None:
        return None
    found = _date(today.year, number, day)
    # A day without a year is its next occurrence.
    return found if found is None or found >= today else _date(today.year + 1, number, day)


def _date(year: str | int, month: str | int, day: str | int) -> date | None:
    try:
        return date(int(year), int(month), int(day))
    except ValueError:
        return None


def time_in(text: str) -> str | None:
    """Return the time of day that a text names, as hours, minutes and seconds."""
    low = re.sub(r"\d{4}-\d{2}-\d{2}T?", "", text).lower()
    if "noon" in low or "midnight" in low:
        return "12:00:00" if "noon" in low else "00:00:00"
    for found in _CLOCK.finditer(low):
        telling = found[2] or found[4] or "o'clock" in found.group()
        hour = int(found[1])
        if not telling or hour > 23 or int(found[2] or 0) > 59:
            continue
        if found[4]:
            hour = hour % 12 + (12 if found[4] == "p" else 0)
        return f"{hour:02}:{found[2] or '00'}:{found[3] or '00'}"
    return None
