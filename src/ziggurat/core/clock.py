"""Clock, id source and random source of a run; each can be replaced, so that any run can be made deterministic."""

import asyncio
import os
import threading
import time
from collections.abc import Callable
from contextvars import Context
from heapq import heapify, heappop, heappush
from typing import Protocol
from weakref import ref

from msgspec import Struct

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
