"""Recurrences: the times at which something is due again and again, at intervals or by cron expressions."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import takewhile

from msgspec import Struct

from ziggurat.core.errors import ConfigurationError, MissingExtra
from ziggurat.core.settings import NonEmptyText, NonNegativeInt, checked

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Every(Struct, frozen=True):
    """A fixed interval in seconds, made by `every`; there is a tick at its start, and none before it."""

    seconds: int
    start: datetime = _EPOCH

    def after(self, time: datetime) -> Iterator[datetime]:
        passed = (time - self.start) // timedelta(seconds=self.seconds)
        tick = max(self.start, self.start + timedelta(seconds=self.seconds * (passed + 1))).astimezone(UTC)
        while True:
            yield tick
            tick += timedelta(seconds=self.seconds)


class Cron(Struct, frozen=True):
    """A cron expression in a time zone, made by `cron`."""

    expression: str
    zone: str = "UTC"

    def after(self, time: datetime) -> Iterator[datetime]:
        from cronsim import CronSim

        last = time.astimezone(UTC)
        for local in CronSim(self.expression, time.astimezone(_zone(self.zone))):
            tick = local.astimezone(UTC)
            if tick > last:  # an hour that a clock goes through twice has its ticks once
                yield tick
                last = tick


Recurrence = Every | Cron
"""When something recurs."""


@checked
def every(
    *,
    seconds: NonNegativeInt = 0,
    minutes: NonNegativeInt = 0,
    hours: NonNegativeInt = 0,
    days: NonNegativeInt = 0,
    start: datetime | None = None,
) -> Every:
    """Return a fixed interval, such as ``every(hours=1)``; for a time of day in a time zone use `cron`.

    There is a tick at the `start`, which has a time zone: by default midnight UTC, and so full hours and minutes.

    Raises:
        ConfigurationError: it has no length, or the start has no time zone.
    """
    length = seconds + 60 * minutes + 3600 * hours + 86400 * days
    if not length:
        raise ConfigurationError("every() takes the length of an interval, as in every(hours=1); got none")
    if start is not None and start.tzinfo is None:
        raise ConfigurationError(f"start needs a time zone, such as datetime.now(UTC) has; got {start!r}")
    return Every(length, _EPOCH if start is None else start)


@checked
def cron(expression: NonEmptyText, zone: NonEmptyText = "UTC") -> Cron:
    """Return the times of a cron expression, such as ``cron("0 3 * * *", "Europe/Berlin")`` for 3:00 there every night.

    The expression is as in Debian's cron. A time that is skipped when clocks are put forward is moved behind the gap;
    one that comes twice when they are put back has one tick.

    Raises:
        ConfigurationError: the expression is not valid or never comes true, or there is no such time zone.
        MissingExtra: the extra ``schedules`` is not installed.
    """
    try:
        from cronsim import CronSim, CronSimError
    except ImportError as error:
        raise MissingExtra("A cron expression", "schedules") from error
    try:
        next(CronSim(expression, datetime(2026, 1, 1, tzinfo=_zone(zone))))
    except (CronSimError, StopIteration) as error:
        why = str(error) or "it never comes true"
        raise ConfigurationError(f"the cron expression {expression!r:.200} is not valid: {why}") from error
    return Cron(expression, zone)


def _zone(name: str) -> tzinfo:
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError) as error:  # KeyError: ZoneInfoNotFoundError
        raise ConfigurationError(
            f"there is no time zone {name!r:.200}: use a name such as Europe/Berlin, and install tzdata where the "
            "system has no time zones"
        ) from error


def due_ticks(recurrence: Every | Cron, after: datetime, until: datetime) -> Iterator[datetime]:
    return takewhile(lambda tick: tick <= until, recurrence.after(after))
