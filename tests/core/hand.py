"""A clock that does not move until a test advances it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


class HandTimer:
    def __init__(self, when: float, callback: Callable[[], None]) -> None:
        self.when = when
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class HandClock:
    def __init__(self, at: float = 1000.0) -> None:
        self.at = at
        self.timers: list[HandTimer] = []

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        awake = asyncio.get_running_loop().create_future()
        self.call_at(self.at + seconds, lambda: None if awake.done() else awake.set_result(None))
        await awake

    def call_at(self, when: float, callback: Callable[[], None]) -> HandTimer:
        timer = HandTimer(when, callback)
        self.timers.append(timer)
        return timer

    async def advance(self, seconds: float) -> None:
        """Advance the time, call each timer when it is due, and run the tasks that it wakes."""
        await settle()
        end = self.at + seconds
        while due := [timer for timer in self.timers if not timer.cancelled and timer.when <= end]:
            timer = min(due, key=lambda each: each.when)
            self.timers.remove(timer)
            self.at = max(self.at, timer.when)
            timer.callback()
            await settle()
        self.at = end
        await settle()

    def set_timers(self) -> int:
        return sum(not timer.cancelled for timer in self.timers)


async def settle(rounds: int = 20) -> None:
    """Run the event loop until no task can continue."""
    for _ in range(rounds):
        await asyncio.sleep(0)


def run(awaitable: Awaitable[T]) -> T:
    """Await something in a new event loop."""

    async def main() -> T:
        return await awaitable

    return asyncio.run(main())
