"""Clock, id source and random source of a run; each can be replaced, so that any run can be made deterministic."""

__all__ = ["CLOCK", "IDS", "RANDOM", "SYSTEM_CLOCK", "Clock", "SystemClock", "Timer", "new_id"]

import asyncio
import os
import time
from collections.abc import Callable
from typing import Protocol

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


class SystemClock:
    """The clock of the machine, with the timers of the event loop."""

    now: "staticmethod[[], float]" = staticmethod(time.time)
    monotonic: "staticmethod[[], float]" = staticmethod(time.monotonic)

    async def sleep(self, seconds: float) -> None:
        """Wait on the event loop."""
        await asyncio.sleep(seconds)

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        """Set a timer on the running event loop."""
        return asyncio.get_running_loop().call_later(when - time.monotonic(), callback)


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
