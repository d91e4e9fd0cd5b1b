"""Resources held by enclosing calls until they end: slots, trials, calls that others have joined.

A layer that waits, or refuses, because of what is held must know whether that waits for the very call it holds up. The
context does not tell: a detached run, or a service called with ``root()``, has one of its own.
"""

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from typing import Protocol

from msgspec import Struct

from ziggurat.core.containment import ring


class Slots(Protocol):
    """What gives out slots: a `Bulkhead`."""

    def take(self, call: object, /) -> bool:
        """Take a slot if one is free, and return whether it was."""
        ...

    async def wait(self, call: object, /, *, returns: bool = False) -> None:
        """Wait for a slot, before those who had none if the call `returns`."""
        ...

    def release(self, call: object, /) -> None:
        """Give a slot back."""
        ...


class Slot(Struct, eq=False):
    """The slot of one call, which has been taken."""

    slots: Slots
    left: bool = False
    over: bool = False
    waiting: list[asyncio.Future[None]] | None = None

    def leave(self) -> None:
        """Let another call have it."""
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
        """Give it back, because the call has ended."""
        self.over = True
        self.leave()


HELD: ContextVar[tuple[object, ...]] = ContextVar("ziggurat_held", default=())

held: Callable[[], tuple[object, ...]] = HELD.get
"""Returns what the calls around this one hold, the outermost first."""


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
