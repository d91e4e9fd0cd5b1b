"""Bounds on calls in progress: backpressure refuses those that are too many, a concurrency limit lets them wait."""

import asyncio
from collections import deque
from threading import RLock
from typing import Annotated, TypeVar

from msgspec import Struct

from ziggurat.core.clock import Holding, Slot, Stopwatch, held
from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError, LimitExceeded
from ziggurat.core.event import Queued, UnderPressure
from ziggurat.core.service import Service, layer
from ziggurat.core.settings import SHARED, NonNegativeInt, PositiveInt, checked
from ziggurat.core.tasks import ring

Q = TypeVar("Q")
R = TypeVar("R")


class Gate:
    """Counts the calls in progress: warns from `soft` on, refuses at `hard`.

    Make one and pass it to all layers whose calls should be counted together, in any thread or event loop.

    Args:
        hard: The number of calls in progress at which further ones are refused.
        soft: The number from which callers are warned by an event; None never warns.
    """

    @checked
    def __init__(self, hard: PositiveInt, *, soft: PositiveInt | None = None) -> None:
        if soft is not None and soft >= hard:
            raise ConfigurationError(f"Gate(soft={soft}) warns before hard={hard} refuses, so it must be below it")
        self.hard = hard
        self.soft = soft
        self.depth: int = 0
        self._lock = RLock()  # reentrant: a collected coroutine may leave at any point

    def refusal(self, depth: int) -> LimitExceeded:
        text = f"{depth} calls are in progress, and at most {self.hard} may be: try again later"
        return LimitExceeded("backpressure", self.hard, depth, text, transient=True)

    def enter(self) -> int:
        """Count a call unless too many are in progress, and return how many there were; give it back with `leave`."""
        with self._lock:
            depth = self.depth
            if depth < self.hard:
                self.depth = depth + 1
            return depth

    def leave(self) -> None:
        with self._lock:
            self.depth -= 1

    def __repr__(self) -> str:
        return f"Gate({self.hard})" if self.soft is None else f"Gate({self.hard}, soft={self.soft})"


@layer
async def backpressure(request: Q, ctx: Context, inner: Service[Q, R], *, gate: Annotated[Gate, SHARED]) -> R:
    """Refuse a call at once when too many are in progress, and warn before that; no call waits.

    Make it the outermost layer, so that a refused call costs nothing::

        stack(agent, backpressure(gate=Gate(100, soft=80)))

    Raises:
        LimitExceeded: `hard` calls are in progress. It is transient, and nothing was called.
    """
    if ctx.replayed:
        return await inner(request, ctx)
    depth = gate.enter()
    if depth >= gate.hard:
        raise gate.refusal(depth)
    try:
        if gate.soft is not None and depth >= gate.soft and ctx.listens(UnderPressure):
            await ctx.emit(UnderPressure(ctx.path, depth + 1, gate.soft, gate.hard))
        return await inner(request, ctx)
    finally:
        gate.leave()


class _Waiter(Struct, eq=False):
    turn: "asyncio.Future[None]"
    call: object
    above: list[object]
    returns: bool
    granted: bool = False


class Bulkhead:
    """A number of slots, and a bounded queue of callers waiting for one: first come, first served.

    Make one and pass it to all layers that share the scarce resource, in any thread or event loop.

    A call beneath one that has a slot, such as a tool of an agent, waits like any other. If all slots are held by calls
    that wait for such calls, one of these goes on in the slot of the call above it; so does one for which there is no
    room in the queue.

    Args:
        limit: The number of calls that may run at the same time.
        queue: The number of calls that may wait; further ones are refused at once. With 0 no call waits.
    """

    @checked
    def __init__(self, limit: PositiveInt, *, queue: NonNegativeInt = 1_000) -> None:
        self.limit = limit
        self.queue = queue
        self.running: int = 0
        self._waiting: deque[_Waiter] = deque()
        self._inside: set[object] = set()  # the calls that have a slot, their own or a borrowed one
        self._borrowed: set[object] = set()
        self._blocked: dict[object, int] = {}  # how many calls wait beneath one that has a slot
        self._lock = RLock()  # reentrant: a collected coroutine may give its slot back at any point

    @property
    def waiting(self) -> int:
        """The number of calls that wait for a slot."""
        return len(self._waiting)

    def take(self, call: object) -> bool:
        """Take a slot if one is free, and return whether it was; `call` is what is declared as `Holding`."""
        with self._lock:
            if self.running >= self.limit:
                return False
            self.running += 1
            self._inside.add(call)
            return True

    async def wait(self, call: object, *, returns: bool = False) -> None:
        """Wait in the queue; a call that `returns` to its slot goes before those that had none, and is not refused."""
        with self._lock:
            waiter = self._queue_up(call, returns=returns)
        try:
            await waiter.turn
        except BaseException:
            with self._lock:
                if waiter.granted:
                    self.release(call)  # the slot came together with the cancellation
                else:
                    self._leave_queue(waiter)
            raise

    def release(self, call: object) -> None:
        """Pass the slot to the caller that has waited longest, or free it."""
        with self._lock:
            self._inside.discard(call)
            if call in self._borrowed:
                self._borrowed.remove(call)
            else:
                while self._waiting:
                    if self._grant(self._waiting[0]):
                        break
                else:
                    self.running -= 1
            if self._blocked:
                self._lend()

    def _queue_up(self, call: object, *, returns: bool) -> _Waiter:
        turn = asyncio.get_running_loop().create_future()
        waiter = _Waiter(turn, call, [each for each in held() if self._knows(each)], returns)
        others = (number for number, each in enumerate(self._waiting) if not each.returns)
        self._waiting.insert(next(others, len(self._waiting)) if returns else len(self._waiting), waiter)
        for each in waiter.above:
            self._blocked[each] = self._blocked.get(each, 0) + 1
        if waiter.above:
            self._lend()
        if len(self._waiting) > self.queue and not waiter.granted and not returns:
            self._leave_queue(waiter)
            raise LimitExceeded(
                "concurrency",
                self.limit,
                self.running,
                f"all {self.limit} slots are taken and {len(self._waiting)} calls wait already: try again later, "
                "or raise the limit or the queue",
                transient=True,
            )
        return waiter

    def _knows(self, call: object) -> bool:
        return call in self._inside or (isinstance(call, Slot) and call.slots is self)

    def _leave_queue(self, waiter: _Waiter) -> None:
        if waiter not in self._waiting:
            return
        self._waiting.remove(waiter)
        for each in waiter.above:
            self._blocked[each] -= 1
            if not self._blocked[each]:
                del self._blocked[each]

    def _grant(self, waiter: _Waiter, *, borrowed: bool = False) -> bool:
        """Let a waiting call go on in a slot of its own or one above; return False if it no longer waits."""
        self._leave_queue(waiter)
        if waiter.turn.done() or waiter.turn.get_loop().is_closed():  # cancelled just now, or never continued
            return False
        waiter.granted = True
        self._inside.add(waiter.call)
        if borrowed:
            self._borrowed.add(waiter.call)
        ring(waiter.turn)
        return True

    def _lend(self) -> None:
        """If all slots are held by calls that wait for calls beneath them, let one of those go on in such a slot."""
        if not all(call in self._blocked for call in self._inside):
            return
        for waiter in [each for each in self._waiting if not self._inside.isdisjoint(each.above)]:
            if self._grant(waiter, borrowed=True):
                self._lend()  # one that had left its slot may be waited for itself
                return

    def __repr__(self) -> str:
        return f"Bulkhead({self.limit}, queue={self.queue})"


@layer
async def concurrency_limit(
    request: Q, ctx: Context, inner: Service[Q, R], *, bulkhead: Annotated[Bulkhead, SHARED]
) -> R:
    """Let a limited number of calls run at the same time; others wait for a slot, or are refused if the queue is full.

    Put it inside a retry and a timeout, so that a pause between tries holds no slot and the wait for one is limited::

        stack(model, retry(), timeout(seconds=60), concurrency_limit(bulkhead=Bulkhead(8)))

    It may be around agents and tools that call each other: a call whose caller holds the last slot goes on in it.
    While a call only waits for people, its slot is free.

    Raises:
        LimitExceeded: all slots are taken and the queue is full. It is transient, and nothing was called.
    """
    if ctx.replayed:
        return await inner(request, ctx)
    call = Slot(bulkhead)
    acquired = bulkhead.take(call)
    if not acquired and ctx.listens(Queued) and bulkhead.waiting < bulkhead.queue:
        await ctx.emit(Queued(ctx.path, "concurrency", bulkhead.waiting))
        acquired = bulkhead.take(call)  # a slot may have become free while the event was emitted
    if not acquired:
        await bulkhead.wait(call)
    watch = ctx.watch
    if watch is None:
        ctx = ctx.timed(watch := Stopwatch(ctx.clock))
    watch.slots = (*watch.slots, call)
    try:
        with Holding(call):
            return await inner(request, ctx)
    finally:
        watch.slots = tuple(each for each in watch.slots if each is not call)
        call.end()
