"""Slots: how many calls run at the same time; while one only waits for a person, another may have its slot."""

import asyncio
from typing import Protocol

from msgspec import Struct

from ziggurat.core.shield import ring


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
