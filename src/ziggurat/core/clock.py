"""Time, ids and randomness, each replaceable, so that any run can be made deterministic."""

__all__ = ["CLOCK", "IDS", "RANDOM", "Clock", "SystemClock", "Timer", "new_id"]

import asyncio
import os
import time
from collections.abc import Callable
from typing import Protocol

from ziggurat.core.scope import Key


class Timer(Protocol):
    """Something that will happen and can be called off."""

    def cancel(self) -> None:
        """Call it off; harmless when it has happened."""
        ...


class Clock(Protocol):
    """Where time comes from."""

    def now(self) -> float:
        """Return POSIX seconds, for people and records."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never run backwards, for measuring and deadlines."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` when `monotonic` reaches `when`."""
        ...


class SystemClock:
    """The machine's clock and the event loop's timers."""

    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)

    async def sleep(self, seconds: float) -> None:
        """Wait on the event loop."""
        await asyncio.sleep(seconds)

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        """Set a timer of the running event loop."""
        return asyncio.get_running_loop().call_later(max(0.0, when - time.monotonic()), callback)


SYSTEM_CLOCK = SystemClock()

CLOCK = Key[Clock]("clock")
"""The clock of a run; the system's where none is given."""

IDS = Key[Callable[[], str]]("ids")
"""Makes the ids of a run."""

RANDOM = Key[Callable[[], float]]("random")
"""Draws a number from [0, 1), for jitter and the like."""


def new_id() -> str:
    """Return 128 random bits as 32 digits and letters, fit for a path, a file name and a URL."""
    return os.urandom(16).hex()
