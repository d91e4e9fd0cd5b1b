"""Time of a run: its clock, its ids, the stopwatches of its calls, and the slots that they leave while they wait."""

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar
from typing import Any, Protocol

from msgspec import Struct

from ziggurat.core.event import SILENCE, Emit
from ziggurat.core.tasks import ring


class Slot(Struct, eq=False):
    slots: Any  # what gives it out: a `Bulkhead`
    left: bool = False
    over: bool = False
    waiting: list[asyncio.Future[None]] | None = None

    def leave(self) -> None:
        if not self.left:
            self.left = True
            self.slots.release(self)

    async def take_back(self) -> None:
        """Wait for it, unless the call has it or has ended."""
        while self.left and not self.over:
            if self.waiting is not None:
                self.waiting.append(turn := asyncio.get_running_loop().create_future())
                await turn
            else:
                await self._wait()

    async def _wait(self) -> None:
        self.waiting = []
        try:
            if not self.slots.take(self):
                await self.slots.wait(self, returns=True)
            self.left = False
            if self.over:
                self.leave()
        finally:
            others, self.waiting = self.waiting, None
            for each in others or ():
                ring(each)

    def end(self) -> None:
        self.over = True
        self.leave()


HELD: ContextVar[tuple[object, ...]] = ContextVar("ziggurat_held", default=())

held: Callable[[], tuple[object, ...]] = HELD.get  # returns what the calls around this one hold, the outermost first


class Holding:
    """Declares that a call holds something, to all calls made within a ``with`` block."""

    __slots__ = ("_around", "_within")

    def __init__(self, what: object) -> None:
        self._around = held()
        self._within = (*self._around, what)

    def __enter__(self) -> None:
        HELD.set(self._within)

    def __exit__(self, *error: object) -> None:
        if held() is self._within:  # not in a collected coroutine, which is closed among other context variables
            HELD.set(self._around)


class Timer(Protocol):
    """A scheduled callback that can be cancelled."""

    def cancel(self) -> None: ...


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


class SystemClock:
    now: "staticmethod[[], float]" = staticmethod(time.time)
    monotonic: "staticmethod[[], float]" = staticmethod(time.monotonic)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        # In an empty context: that of the call would be referred to for as long as the timer is set.
        delay = when - time.monotonic()
        return asyncio.get_running_loop().call_later(delay, callback, context=Context())


SYSTEM_CLOCK = SystemClock()  # the clock of the system


def new_id() -> str:
    """Return 128 random bits as 32 hexadecimal digits, valid in a path, a file name and a URL."""
    return os.urandom(16).hex()


_WHILE = 0.01


class Stopwatch:
    """Measures the seconds that a call and all calls below it work; waiting for a person is not counted."""

    __slots__ = (
        "_began", "_branches", "_followers", "_limit", "_returning", "_sleeping", "_soon", "_still", "_stopped",
        "_waits", "clock", "emit", "limited", "outer", "slots",
    )  # fmt: skip

    def __init__(
        self, clock: Clock, outer: "Stopwatch | None" = None, emit: Emit = SILENCE, earlier: float = 0.0
    ) -> None:
        self.outer: Stopwatch | None = outer
        self.emit: Emit = emit
        self.clock: Clock = clock
        self._began = clock.monotonic() - emit.blocked - earlier  # later by each time that is not counted, but `emit`'s
        self._stopped: float | None = None  # since when it stands still
        self._waits = 0  # how many waits for people, and stopwatches that stand still, are directly below
        self._branches = 0
        self._returning = 0  # how many calls below have their decision, and take slots back
        self._soon = 0  # how many calls below wait, but go on here in any case, soon
        self._still: list[asyncio.Future[None]] | None = None
        self._followers: list[Stopwatch] | None = None  # of calls that wait for this one
        self._sleeping: list[Alarm] | None = None
        self._limit: Alarm | None = None
        self.slots: tuple[Slot, ...] = ()  # of the calls that it measures, in the order in which they took them
        self.limited: bool = outer is not None and outer.limited  # whether it or one around it has a limit

    @property
    def began(self) -> float:
        """When the call would have begun, in seconds of the clock's `monotonic`, had it worked ever since."""
        still = 0.0 if self._stopped is None else self.clock.monotonic() - self._stopped
        return self._began + still + self.emit.blocked

    @property
    def elapsed(self) -> float:
        now = self.clock.monotonic() if self._stopped is None else self._stopped
        return now - self._began if self.emit is SILENCE else now - self._began - self.emit.blocked

    @property
    def deadline(self) -> float | None:
        """When the first limit on this stopwatch or one around it is reached, unless they stop; None for never."""
        first: float | None = None
        watch: Stopwatch | None = self
        while watch is not None:
            if watch._limit is not None and (first is None or watch._limit.when < first):
                first = watch._limit.when
            watch = watch.outer
        return first

    def after(self, seconds: float, callback: Callable[[], None]) -> "Alarm":
        """Call `callback` when `seconds` more have been counted."""
        return Alarm(self, seconds, callback)

    def limit(self, seconds: float, callback: Callable[[], None]) -> "Alarm":
        """Do the same as `after`, as the deadline of the call."""
        self._limit = Alarm(self, seconds, callback)
        self.limited = True
        return self._limit

    @contextmanager
    def waiting(self) -> Iterator[None]:
        self._change(1, 0)
        try:
            yield
        finally:
            self._change(-1, 0)

    @contextmanager
    def soon(self) -> Iterator[None]:
        """Declare that what waits within the block goes on in this process, so that the run is not suspended yet."""
        self._soon += 1
        try:
            yield
        finally:
            self._soon -= 1
            self._ring_still()

    @contextmanager
    def still(self) -> "Iterator[asyncio.Future[None]]":
        """Yield what is done once all calls that it measures wait, and none of them goes on soon."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._still = [*(self._still or ()), waiting]
        self._ring_still()
        try:
            yield waiting
        finally:
            self._still = [each for each in self._still or () if each is not waiting]

    def _ring_still(self) -> None:
        if self._stopped is not None and not self._soon and self._still:
            for waiting in self._still:
                ring(waiting)

    def begin_branch(self) -> "Stopwatch":
        """Return the stopwatch of one of several calls that are made at the same time, until `end_branch`."""
        self._change(0, 1)
        return Stopwatch(self.clock, self, self.emit)

    def end_branch(self) -> None:
        self._change(0, -1)

    @contextmanager
    def followed_by(self, other: "Stopwatch") -> Iterator[None]:
        """Let `other`, of a call that only waits for this one, stand still within the block while this one does."""
        self._followers = [*(self._followers or ()), other]
        if self._stopped is not None:
            other._change(1, 0)
        try:
            yield
        finally:
            self._followers = [each for each in self._followers if each is not other]
            if self._stopped is not None:
                other._change(-1, 0)

    def discount(self, seconds: float) -> None:
        """Do not count the last `seconds`, in which nothing could work: here, around and in all that follow."""
        reached: set[Stopwatch] = set()
        left: list[Stopwatch | None] = [self]
        while left:
            watch = left.pop()
            if watch is not None and watch not in reached:
                reached.add(watch)
                left += [watch.outer, *(watch._followers or ())]
                if watch._stopped is None:
                    watch._began += seconds

    def _change(self, waits: int, branches: int) -> None:
        self._waits += waits
        self._branches += branches
        stands = 0 < self._waits >= self._branches
        if stands == (self._stopped is not None):
            return
        now = self.clock.monotonic()
        if self._stopped is None:
            self._stopped = now
            self._leave_slots()
            self._ring_still()
        else:
            self._began += now - self._stopped
            self._stopped = None
            sleeping, self._sleeping = self._sleeping, None
            for alarm in sleeping or ():
                alarm.arm()
        if self.outer is not None:
            self.outer._change(1 if stands else -1, 0)
        for follower in self._followers or ():
            follower._change(1 if stands else -1, 0)

    def _leave_slots(self) -> None:
        """Let others have the slots of a call that only waits, unless a call below is about to go on in them."""
        if self._stopped is not None and not self._returning:
            for slot in self.slots:
                slot.leave()

    def _return(self, calls: int) -> None:
        """Count calls below that take slots back from now on, or do not any more."""
        watch: Stopwatch | None = self
        while watch is not None:
            watch._returning += calls
            watch = watch.outer


async def take_back(watch: Stopwatch | None) -> None:
    """Wait until the calls that a stopwatch measures have the slots again that they left, the outermost first."""
    # Meanwhile none of them is left again, although another call may begin to wait: who takes an inner slot without the
    # outer one would wait for the latter where it must not.
    if watch is None:
        return
    watches = [watch]
    while (outer := watches[-1].outer) is not None:
        watches.append(outer)
    watch._return(1)
    try:
        for each in reversed(watches):
            for slot in each.slots:
                await slot.take_back()
    except BaseException:
        watch._return(-1)
        for each in watches:
            each._leave_slots()
        raise
    watch._return(-1)


class Alarm:
    """Calls back when a stopwatch has counted a number of seconds from now on."""

    __slots__ = ("_armed", "_began", "_callback", "_start", "_timer", "seconds", "watch")

    def __init__(self, watch: Stopwatch, seconds: float, callback: Callable[[], None]) -> None:
        self.watch: Stopwatch = watch
        self.seconds: float = seconds
        self._callback: Callable[[], None] | None = callback
        self._start = watch.clock.monotonic()
        self._began = self._armed = watch.began
        self._timer: Timer = watch.clock.call_at(self._start + seconds, self._ring)

    @property
    def when(self) -> float:
        """When it will ring if the stopwatch does not stop again, in seconds of the clock's `monotonic`."""
        return self._start + self.seconds + self.watch.began - self._began

    def _ring(self) -> None:
        if self.watch._stopped is not None:
            self.watch._sleeping = [*(self.watch._sleeping or ()), self]
        elif self.watch.began > self._armed:
            self.arm()
        else:
            self._end()

    def arm(self) -> None:
        """Set the timer anew, after the stopwatch has stood still."""
        clock, when = self.watch.clock, self.when
        now = clock.monotonic()
        if now >= when:
            self._end()
            return
        self._armed = self.watch.began
        self._timer = clock.call_at(max(when, now + _WHILE), self._ring)  # blocked time may grow as fast as the clock

    def _end(self) -> None:
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()

    def cancel(self) -> None:
        self._callback = None
        self._timer.cancel()
        if self.watch._limit is self:
            self.watch._limit = None  # no reference cycle is left
