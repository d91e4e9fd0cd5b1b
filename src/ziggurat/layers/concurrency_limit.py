"""Concurrency limit: bounds the number of calls that run at the same time, with a bounded queue."""

__all__ = ["Bulkhead", "Place", "concurrency_limit"]

import asyncio
from collections import deque
from threading import RLock
from typing import Annotated, TypeVar

from ziggurat.core.context import RUN_ID, Context
from ziggurat.core.errors import LimitExceeded
from ziggurat.core.event import Queued
from ziggurat.core.layer import layer
from ziggurat.core.path import parent_of
from ziggurat.core.service import Service
from ziggurat.core.settings import SHARED, NonNegativeInt, PositiveInt, checked
from ziggurat.core.shield import ring

Q = TypeVar("Q")
R = TypeVar("R")


Place = tuple[str, str]
"""The id of a run and a path in it, by which calls beneath a call are known."""


class _Occupant:
    """A call that has a slot, or for a while the slot of a call above it.

    Attributes:
        place: Where the call is.
        outer: The occupant with the same place around this one: the same bulkhead is around the call twice.
        lender: The call above whose slot it uses; None if the slot is its own.
        borrower: The call beneath that uses its slot at present.
        waiting: The number of calls beneath it, and beneath no other occupant in between, that wait for a slot.
    """

    __slots__ = ("borrower", "lender", "outer", "place", "waiting")

    def __init__(self, place: Place, outer: "_Occupant | None", lender: "_Occupant | None") -> None:
        self.place = place
        self.outer = outer
        self.lender = lender
        self.borrower: _Occupant | None = None
        self.waiting = 0


class _Waiter:
    __slots__ = ("above", "granted", "place", "turn")

    def __init__(self, place: Place | None, above: _Occupant | None) -> None:
        self.turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.place = place
        self.above = above
        self.granted = False


class Bulkhead:
    """A number of slots, and a bounded queue of callers waiting for one: first come, first served.

    Make one and pass it to all layers that share the scarce resource, in any thread or event loop.

    A call beneath one that has a slot, such as a tool of an agent, waits like any other. When all slots are held by
    calls that wait for such calls beneath them, nothing would ever move, so one of those goes on in the slot of the
    call above it, which does nothing itself meanwhile.

    Args:
        limit: The number of calls that may run at the same time.
        queue: The number of calls that may wait; further ones are refused at once. With 0 no call waits.

    Raises:
        ConfigurationError: `limit` is not a whole number of at least 1, or `queue` of at least 0.
    """

    @checked
    def __init__(self, limit: PositiveInt, *, queue: NonNegativeInt = 1_000) -> None:
        self.limit = limit
        self.queue = queue
        self.running = 0
        self._waiting: deque[_Waiter] = deque()
        self._nested = 0  # how many of the waiting calls are beneath an occupant
        self._occupants: dict[Place, _Occupant | None] = {}  # made into objects only where calls wait
        self._lock = RLock()  # reentrant: a collected coroutine may give its slot back at any point

    @property
    def waiting(self) -> int:
        """The number of calls that wait for a slot."""
        return len(self._waiting)

    def is_full(self) -> bool:
        """Return whether a new call would have to wait now."""
        return self.running >= self.limit

    def take(self, place: Place | None = None) -> bool:
        """Take a slot if one is free, and return whether it was; give it back with `release`.

        Args:
            place: Where the call is, so that calls beneath it are known.
        """
        with self._lock:
            if self.running >= self.limit:
                return False
            self.running += 1
            if place is not None:
                if place in self._occupants:
                    self._occupy(place, None)
                else:
                    self._occupants[place] = None
            return True

    async def wait(self, place: Place | None = None) -> None:
        """Wait in the queue for a slot; a caller cancelled while it waits leaves the queue and takes no slot.

        Raises:
            LimitExceeded: the queue is full.
        """
        with self._lock:
            waiter = self._queue_up(place)
        try:
            await waiter.turn
        except BaseException:
            with self._lock:
                if waiter.granted:
                    self.release(place)  # the slot came together with the cancellation
                else:
                    self._leave_queue(waiter)
            raise

    def release(self, place: Place | None = None) -> None:
        """Pass the slot to the caller that has waited longest, or free it."""
        with self._lock:
            if place is None or self._vacate(place):
                while self._waiting:
                    if self._grant(self._waiting[0], None):
                        break
                else:
                    self.running -= 1
            if self._nested:
                self._lend()

    def _queue_up(self, place: Place | None) -> _Waiter:
        if len(self._waiting) >= self.queue:
            raise LimitExceeded(
                "concurrency",
                self.limit,
                self.running,
                f"all {self.limit} slots are taken and {len(self._waiting)} calls wait already: try again later, "
                "or raise the limit or the queue",
                transient=True,
            )
        waiter = _Waiter(place, None if place is None else self._above(place))
        self._waiting.append(waiter)
        if waiter.above is not None:
            waiter.above.waiting += 1
            self._nested += 1
            self._lend()
        return waiter

    def _leave_queue(self, waiter: _Waiter) -> None:
        if waiter in self._waiting:
            self._waiting.remove(waiter)
            if waiter.above is not None:
                waiter.above.waiting -= 1
                self._nested -= 1

    def _above(self, place: Place) -> _Occupant | None:
        """Return the nearest occupant that the call at a place is beneath."""
        run, path = place
        while path:
            if (run, path) in self._occupants:
                return self._occupant((run, path))
            path = parent_of(path)
        return None

    def _occupant(self, place: Place) -> _Occupant:
        occupant = self._occupants[place]
        if occupant is None:
            occupant = self._occupants[place] = _Occupant(place, None, None)
        return occupant

    def _occupy(self, place: Place, lender: _Occupant | None) -> _Occupant:
        outer = self._occupant(place) if place in self._occupants else None
        occupant = self._occupants[place] = _Occupant(place, outer, lender)
        return occupant

    def _vacate(self, place: Place) -> bool:
        """Remove the occupant with this place, and return whether its slot is free."""
        occupant = self._occupants.pop(place)
        if occupant is None:
            return True
        if occupant.outer is not None:
            self._occupants[place] = occupant.outer
        lender, borrower = occupant.lender, occupant.borrower
        if borrower is not None:  # it ended before a call beneath it, which keeps the slot
            borrower.lender = lender
        if lender is not None:
            lender.borrower = borrower
        return lender is None and borrower is None

    def _grant(self, waiter: _Waiter, lender: _Occupant | None) -> bool:
        """Let a waiting call go on in a slot of its own or the lender's; return False if it no longer waits."""
        self._leave_queue(waiter)
        if waiter.turn.done() or waiter.turn.get_loop().is_closed():  # cancelled just now, or never continued
            return False
        waiter.granted = True
        if waiter.place is not None:
            occupant = self._occupy(waiter.place, lender)
            if lender is not None:
                lender.borrower = occupant
        ring(waiter.turn)
        return True

    def _lend(self) -> None:
        """If all slots are held by calls that wait for calls beneath them, let one of those go on in such a slot."""
        owned = 0
        active: list[_Occupant] = []
        for occupant in self._occupants.values():
            if occupant is None:
                return  # it waits for nobody
            if occupant.borrower is None:
                active.append(occupant)
            each: _Occupant | None = occupant
            while each is not None:
                owned += each.lender is None
                each = each.outer
        if owned < self.running or not all(occupant.waiting for occupant in active):
            return
        for waiter in [each for each in self._waiting if each.above in active]:
            if self._grant(waiter, waiter.above):
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

    Args:
        bulkhead: The slots; share one between all layers that use the same resource.

    Raises:
        LimitExceeded: all slots are taken and the queue is full. It is transient, and nothing was called.
        ConfigurationError: a setting has a wrong value.
    """
    if ctx.replayed:
        return await inner(request, ctx)
    run = ctx.scope.get(RUN_ID)
    place = None if run is None else (run, ctx.path)
    taken = bulkhead.take(place)
    if not taken and ctx.listens(Queued) and bulkhead.waiting < bulkhead.queue:
        await ctx.emit(Queued(ctx.path, "concurrency", bulkhead.waiting))
        taken = bulkhead.take(place)  # a slot may have become free while the event was emitted
    if not taken:
        await bulkhead.wait(place)
    try:
        return await inner(request, ctx)
    finally:
        bulkhead.release(place)
