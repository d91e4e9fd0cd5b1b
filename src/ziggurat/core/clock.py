"""Clock, id source and random source of a run; each can be replaced, so that any run can be made deterministic."""

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import Context
from datetime import UTC, datetime, timedelta, tzinfo
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import Protocol
from weakref import ref

from msgspec import Struct

from ziggurat.core.errors import ConfigurationError, MissingExtra
from ziggurat.core.scope import Key
from ziggurat.core.settings import NonEmptyText, NonNegativeInt, PositiveInt, checked


class Timer(Protocol):
    """A scheduled callback that can be cancelled."""

    def cancel(self) -> None:
        """Cancel the callback; no effect if it has already run."""
        ...


class Clock(Protocol):
    """The protocol of a time source."""

    def now(self) -> float:
        """Return the time in POSIX seconds, for people and records."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go backwards, for measuring and deadlines."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait for `seconds` seconds."""
        ...

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` when `monotonic` reaches `when`."""
        ...


_FEW = 128
"""So many timers in a queue are left alone, also if they are cancelled."""


class QueuedTimer(Struct, eq=False):
    """A timer in the queue of an event loop."""

    callback: Callable[[], None] | None

    def cancel(self) -> None:
        """Cancel the callback; no effect if it has already run."""
        self.callback = None  # the queue is left alone: a collected coroutine may cancel at any point, in any thread


class Timers:
    """The timers of one event loop, in a queue."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop: asyncio.AbstractEventLoop = loop
        self.queue: list[tuple[float, int, QueuedTimer]] = []  # a heap
        self._most = _FEW
        self._count = 0
        self._next = float("inf")  # when the loop will call
        self._context = Context()  # empty: that of a call would be referred to for as long as its timer is set

    def call_at(self, when: float, callback: Callable[[], None]) -> QueuedTimer:
        """Call `callback` when `time.monotonic` reaches `when`."""
        queue = self.queue
        while queue and queue[-1][2].callback is None:  # in most cases that of a call that has just ended
            queue.pop()
        if len(queue) >= self._most:
            queue[:] = [each for each in queue if each[2].callback is not None]
            heapify(queue)
            self._most = _FEW + 2 * len(queue)
        timer = QueuedTimer(callback)
        self._count += 1
        heappush(queue, (when, self._count, timer))
        if when < self._next:
            self._arm(when)
        return timer

    def _arm(self, when: float) -> None:
        self._next = when
        self.loop.call_later(when - time.monotonic(), self._ring, when, context=self._context)

    def _ring(self, set_for: float) -> None:
        if set_for == self._next:  # else one has been set for an earlier time since, and goes on from there
            self._next = float("inf")
        queue, now, last = self.queue, time.monotonic(), self._count
        try:
            while queue:
                when, number, timer = queue[0]
                callback = timer.callback
                if callback is not None and (when > now or number > last):  # or set by one that rang just now
                    break
                heappop(queue)
                timer.callback = None
                if callback is not None:
                    callback()
        finally:  # a callback may fail, which the event loop reports
            if queue and queue[0][0] < self._next:
                self._arm(queue[0][0])


class _Here(threading.local):
    def __init__(self) -> None:
        self.timers: Callable[[], Timers | None] = lambda: None  # of the last event loop, as long as one is set


_HERE = _Here()


class SystemClock:
    """The clock of the machine, with the timers of the event loop."""

    now: "staticmethod[[], float]" = staticmethod(time.time)
    monotonic: "staticmethod[[], float]" = staticmethod(time.monotonic)

    async def sleep(self, seconds: float) -> None:
        """Wait on the event loop."""
        await asyncio.sleep(seconds)

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        """Set a timer of the running event loop."""
        loop, timers = asyncio.get_running_loop(), _HERE.timers()
        if timers is None or timers.loop is not loop:
            timers = Timers(loop)
            _HERE.timers = ref(timers)
        return timers.call_at(when, callback)


SYSTEM_CLOCK = SystemClock()
"""The clock of the system."""

CLOCK = Key[Clock]("clock")
"""The clock of a run; the system clock if none is given."""

IDS = Key[Callable[[], str]]("ids")
"""Generates the ids of a run."""

RANDOM = Key[Callable[[], float]]("random")
"""Returns a random number from [0, 1), for jitter and the like."""


_READY: list[str] = []
"""Ids generated but not used yet; `os.urandom` is called for many at once."""

if hasattr(os, "register_at_fork"):  # else a child process would return the same ids as its parent
    os.register_at_fork(after_in_child=_READY.clear)


def new_id() -> str:
    """Return 128 random bits as 32 hexadecimal digits, valid in a path, a file name and a URL."""
    try:
        return _READY.pop()
    except IndexError:
        digits = os.urandom(16 * 64).hex()
        _READY.extend(digits[at : at + 32] for at in range(32, len(digits), 32))
        return digits[:32]


# -- recurring times ---------------------------------------------------------------------------------------------------

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Every(Struct, frozen=True):
    """A fixed interval, made by `every`.

    Attributes:
        seconds: Its length.
        start: A time at which there is a tick; there are none before it.
    """

    seconds: int
    start: datetime = _EPOCH

    def after(self, time: datetime) -> Iterator[datetime]:
        """Yield the ticks after a time, in UTC."""
        passed = (time - self.start) // timedelta(seconds=self.seconds)
        tick = max(self.start, self.start + timedelta(seconds=self.seconds * (passed + 1))).astimezone(UTC)
        while True:
            yield tick
            tick += timedelta(seconds=self.seconds)


class Cron(Struct, frozen=True):
    """A cron expression in a time zone, made by `cron`.

    Attributes:
        expression: Minute, hour, day of the month, month and day of the week.
        zone: The name of the time zone.
    """

    expression: str
    zone: str = "UTC"

    def after(self, time: datetime) -> Iterator[datetime]:
        """Yield the ticks after a time, in UTC."""
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

    Args:
        seconds: Its length, in whole seconds; the sum of this and the next three.
        minutes: Its length, in minutes.
        hours: Its length, in hours.
        days: Its length, in days of 24 hours.
        start: A time at which there is a tick, with a time zone; by default the full hour, or midnight UTC.

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

    A time that is skipped when clocks are put forward is moved behind the gap; one that comes twice when they are put
    back has one tick. Needs the extra ``schedules``.

    Args:
        expression: Minute, hour, day of the month, month and day of the week, as Debian's cron has them.
        zone: The name of the time zone.

    Raises:
        ConfigurationError: the expression is not valid or never comes true, or there is no such time zone.
        MissingExtra: the extra is not installed.
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


def due_ticks(
    recurrence: Every | Cron, after: datetime, until: datetime, *, limit: PositiveInt = 1000
) -> list[datetime]:
    """Return the ticks after a time and until another one, in order, in UTC; of more than `limit`, the first.

    >>> first = datetime(2026, 1, 1, tzinfo=UTC)
    >>> [f"{tick:%H:%M}" for tick in due_ticks(every(hours=6), first, first + timedelta(days=1))]
    ['06:00', '12:00', '18:00', '00:00']

    Args:
        recurrence: When something recurs.
        after: The first tick is later than this.
        until: The last tick is not later than this.
        limit: The largest number of ticks.

    Raises:
        ConfigurationError: a time has no time zone.
    """
    if after.tzinfo is None or until.tzinfo is None:
        raise ConfigurationError("after and until need a time zone, such as datetime.now(UTC) has")
    ticks: list[datetime] = []
    for tick in islice(recurrence.after(after), limit):
        if tick > until:
            break
        ticks.append(tick)
    return ticks
