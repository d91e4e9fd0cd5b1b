"""Clock, id source and random source of a run; each can be replaced, so that any run can be made deterministic."""

__all__ = ["CLOCK", "IDS", "RANDOM", "SYSTEM_CLOCK", "Clock", "SystemClock", "Timer", "new_id"]

import asyncio
import os
import threading
import time
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Protocol

from ziggurat.core.scope import Key


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


class _Alarm:
    """One timer in the `_Alarms` of an event loop."""

    __slots__ = ("alarms", "callback")

    def __init__(self, callback: Callable[[], None], alarms: "_Alarms") -> None:
        self.callback: Callable[[], None] | None = callback
        self.alarms = alarms

    def cancel(self) -> None:
        """Cancel the timer."""
        if self.callback is not None:
            self.callback = None
            self.alarms.cancelled(self)

    def ring(self) -> None:
        """Run the callback, unless it was cancelled in this same turn of the event loop."""
        callback, self.callback = self.callback, None
        if callback is not None:
            callback()


class _Alarms:
    """The timers of one event loop; only the earliest is set as a timer of the loop itself.

    Nearly all timers are cancelled before they are due, and a timer of the loop costs several times as much to set.
    """

    __slots__ = ("_armed", "_dead", "_number", "_waiting", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._waiting: list[tuple[float, int, _Alarm]] = []
        self._number = 0
        self._dead = 0
        self._armed = float("inf")  # when the loop will call next

    def add(self, when: float, callback: Callable[[], None]) -> _Alarm:
        alarm = _Alarm(callback, self)
        self._number += 1
        heappush(self._waiting, (when, self._number, alarm))
        if when < self._armed:
            self._arm(when)
        return alarm

    def _arm(self, when: float) -> None:
        self._armed = when
        self.loop.call_later(max(0.0, when - time.monotonic()), self._ring, when)

    def _ring(self, armed: float) -> None:
        if armed == self._armed:
            self._armed = float("inf")
        now = time.monotonic()
        waiting = self._waiting
        while waiting and (waiting[0][0] <= now or waiting[0][2].callback is None):
            alarm = heappop(waiting)[2]
            if alarm.callback is None:
                self._dead -= 1
            else:
                self.loop.call_soon(alarm.ring)
        if waiting and waiting[0][0] < self._armed:
            self._arm(waiting[0][0])

    def cancelled(self, alarm: _Alarm) -> None:
        """Remove a cancelled timer: at once if it is last, as in nested blocks; else when most are cancelled."""
        waiting = self._waiting
        if waiting and waiting[-1][2] is alarm:
            waiting.pop()
            return
        self._dead += 1
        if self._dead > 64 and self._dead * 2 > len(waiting):
            self._waiting = [each for each in waiting if each[2].callback is not None]
            heapify(self._waiting)
            self._dead = 0


class _Here(threading.local):
    """The alarms of the event loop that runs in this thread."""

    alarms: _Alarms | None = None


_HERE = _Here()


class SystemClock:
    """The clock of the machine, with the timers of the event loop."""

    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)

    async def sleep(self, seconds: float) -> None:
        """Wait on the event loop."""
        await asyncio.sleep(seconds)

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        """Set a timer on the running event loop."""
        loop = asyncio.get_running_loop()
        alarms = _HERE.alarms
        if alarms is None or alarms.loop is not loop:
            alarms = _HERE.alarms = _Alarms(loop)
        return alarms.add(when, callback)


SYSTEM_CLOCK = SystemClock()

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
