"""Read from a reply's headers when to retry."""

import re
from collections.abc import Iterator, Mapping
from math import isfinite

_UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_PIECE = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|us|µs|ns|[dhms])")
_LONGEST = 200  # longest header value that is read, in characters

_EPOCH_MILLISECONDS = 1e11
_EPOCH_SECONDS = 1e9


def retry_after(headers: Mapping[str, str], now: float, *, limits: bool = True) -> float | None:
    """Return the seconds to wait before a retry as the server asks, or None if it does not say."""
    # Reads ``retry-after-ms``, then ``retry-after`` (seconds or a date), then the reset times of exhausted rate limits.
    # Values that cannot be parsed are ignored.
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    header = headers.get("retry-after")
    if header is not None:
        parts = [header, *header.split(",")] if "," in header else [header]
        waits = [_wait(part, now) for part in parts]
        known = [wait for wait in waits if wait is not None]
        if known:
            return max(known)
    return _limits_reset(headers, now) if limits else None


def duration(text: str) -> float | None:
    """Return the seconds in a string such as ``1m30s``, ``6ms``, ``1h0m2.5s`` or ``12``; None for anything else."""
    text = text.strip()
    plain = _number(text)
    if plain is not None or len(text) > _LONGEST:
        return plain
    total, end = 0.0, 0
    for piece in _PIECE.finditer(text):
        if piece.start() != end:
            return None
        total += float(piece[1]) * _UNITS[piece[2]]
        end = piece.end()
    return total if end and end == len(text) else None


def _number(text: str) -> float | None:
    if not text or len(text) > _LONGEST:
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if isfinite(value) and value >= 0 else None


def _wait(text: str, now: float) -> float | None:
    """Return the seconds to wait: from a number of seconds, a duration, or a date."""
    text = text.strip()
    seconds = duration(text)
    if seconds is None:
        moment = _moment(text)
        return None if moment is None else max(0.0, moment - now)
    return seconds


def _reset(text: str, now: float) -> float | None:
    """Do as `_wait`, but read numbers too large for a wait as a time since the epoch."""
    wait = _wait(text, now)
    if wait is not None and _number(text.strip()) is not None:
        if wait >= _EPOCH_MILLISECONDS:
            return max(0.0, wait / 1000 - now)
        if wait >= _EPOCH_SECONDS:
            return max(0.0, wait - now)
    return wait


def _moment(text: str) -> float | None:
    from datetime import UTC, datetime
    from email.utils import parsedate_to_datetime

    if not text or len(text) > _LONGEST:
        return None
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            moment = read(text)
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except (ValueError, TypeError, OverflowError, IndexError):
            continue
    return None


def _limits_reset(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds until all exhausted limits are reset, or all limits if none is marked as exhausted."""
    waits: list[tuple[bool, float]] = []
    for remaining, reset in _limits(headers):
        wait = _reset(reset, now)
        if wait is not None:
            waits.append((remaining is not None and _number(remaining) == 0, wait))
    used_up = [wait for empty, wait in waits if empty]
    return max(used_up or [wait for _, wait in waits], default=None)


def _limits(headers: Mapping[str, str]) -> Iterator[tuple[str | None, str]]:
    """Yield the remaining amount and the reset time of each rate limit."""
    for name, value in headers.items():
        if "ratelimit" not in name or "reset" not in name:
            continue
        yield headers.get(name.replace("reset", "remaining")), value
