"""Concurrency limit: bounds the number of calls that run at the same time, with a bounded queue."""

__all__ = ["Bulkhead", "concurrency_limit"]

import asyncio
from collections import deque
from typing import Annotated, TypeVar

from ziggurat.core.context import Context
from ziggurat.core.errors import LimitExceeded
from ziggurat.core.event import Queued
from ziggurat.core.layer import layer
from ziggurat.core.service import Service
from ziggurat.core.settings import SHARED, NonNegativeInt, PositiveInt, checked

Q = TypeVar("Q")
R = TypeVar("R")


class Bulkhead:
    """A number of slots, and a bounded queue of callers waiting for one: first come, first served.

    Make one and pass it to all layers that share the scarce resource. It belongs to one event loop at a time.

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
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def waiting(self) -> int:
        """The number of calls that wait for a slot."""
        return len(self._waiting)

    def is_full(self) -> bool:
        """Return whether a new call would have to wait now."""
        return self.running >= self.limit

    def take(self) -> bool:
        """Take a slot if one is free, and return whether it was; give it back with `release`."""
        if self.running >= self.limit:
            return False
        self.running += 1
        return True

    async def wait(self) -> None:
        """Wait in the queue for a slot; a caller cancelled while it waits leaves the queue and takes no slot.

        Raises:
            LimitExceeded: the queue is full.
        """
        if len(self._waiting) >= self.queue:
            raise LimitExceeded(
                "concurrency",
                self.limit,
                self.running,
                f"all {self.limit} slots are taken and {len(self._waiting)} calls wait already: try again later, "
                "or raise the limit or the queue",
                transient=True,
            )
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled():
                self.release()  # the slot came together with the cancellation
            elif turn in self._waiting:
                self._waiting.remove(turn)
            raise

    def release(self) -> None:
        """Pass the slot to the caller that has waited longest, or free it."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # else it was cancelled just now
                turn.set_result(None)
                return
        self.running -= 1

    def __repr__(self) -> str:
        return f"Bulkhead({self.limit}, queue={self.queue})"


@layer
async def concurrency_limit(
    request: Q, ctx: Context, inner: Service[Q, R], *, bulkhead: Annotated[Bulkhead, SHARED]
) -> R:
    """Let a limited number of calls run at the same time; others wait for a slot, or are refused if the queue is full.

    Put it inside a retry and a timeout, so that a pause between tries holds no slot and the wait for one is limited::

        stack(model, retry(), timeout(seconds=60), concurrency_limit(bulkhead=Bulkhead(8)))

    An agent that calls itself through the same bulkhead may wait for its own slot forever: put the limit around models
    and tools rather than agents.

    Args:
        bulkhead: The slots; share one between all layers that use the same resource.

    Raises:
        LimitExceeded: all slots are taken and the queue is full. It is transient, and nothing was called.
        ConfigurationError: a setting has a wrong value.
    """
    if ctx.replayed:
        return await inner(request, ctx)
    if not bulkhead.take():
        if ctx.listens(Queued) and bulkhead.waiting < bulkhead.queue:
            await ctx.emit(Queued(ctx.path, "concurrency", bulkhead.waiting))
        if not bulkhead.take():  # a slot may have become free while the event was emitted
            await bulkhead.wait()
    try:
        return await inner(request, ctx)
    finally:
        bulkhead.release()
