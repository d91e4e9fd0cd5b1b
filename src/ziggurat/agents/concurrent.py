"""Run agents concurrently inside one tool call: if one waits for a person, the others finish first."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from ziggurat.core.errors import Suspend

T = TypeVar("T")


class ConcurrentAgents:
    """The agents that one tool call runs at the same time."""

    def __init__(self) -> None:
        self._count = 0
        self._going = 0
        self._pending: dict[int, tuple[object, ...]] = {}
        self._all_ended = asyncio.Event()

    async def run(self, work: Awaitable[T]) -> T:
        """Await one of them."""
        self._count += 1
        self._going += 1
        self._all_ended.clear()
        number = self._count
        try:
            return await work
        except Suspend as suspend:
            self._pending[number] = suspend.pending
        finally:
            self._going -= 1
            if not self._going:
                self._all_ended.set()
        await asyncio.sleep(0)  # lets agents that were created at the same time start
        while self._going:
            await self._all_ended.wait()
        raise Suspend(tuple(item for _, pending in sorted(self._pending.items()) for item in pending))
