"""WriteQueue: which run of this process may write a session next, first come, first served."""

import asyncio
import threading
from collections import deque

from ziggurat.core.clock import Clock

_Waiting = tuple[asyncio.AbstractEventLoop, "asyncio.Future[None]"]


class WriteQueue:
    """WriteQueue by name, for any number of event loops in any number of threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queues: dict[str, deque[_Waiting]] = {}  # one per name that is taken

    def take(self, name: str) -> bool:
        """Take the turn if it is free; return whether that succeeded."""
        with self._lock:
            if name in self._queues:
                return False
            self._queues[name] = deque()
            return True

    async def wait(self, name: str, seconds: float, clock: Clock) -> bool:
        """Wait for the turn; return whether it came within some seconds."""
        loop = asyncio.get_running_loop()
        mine: asyncio.Future[None] = loop.create_future()
        with self._lock:
            if name not in self._queues:
                self._queues[name] = deque()
                return True
            self._queues[name].append((loop, mine))

        def give_up() -> None:
            mine.cancel()

        timer = clock.call_at(clock.monotonic() + seconds, give_up)
        try:
            await asyncio.wait([mine])
        except asyncio.CancelledError:
            if not mine.cancel():
                self.leave(name)  # the turn came at the same moment
            raise
        finally:
            timer.cancel()
        return not mine.cancelled()

    def leave(self, name: str) -> None:
        """Pass the turn to the one that has waited longest."""
        while True:
            with self._lock:
                queue = self._queues[name]
                if not queue:
                    del self._queues[name]
                    return
                loop, theirs = queue.popleft()
            try:
                loop.call_soon_threadsafe(self._give, name, theirs)
            except RuntimeError:  # that event loop is closed
                continue
            return

    def _give(self, name: str, theirs: "asyncio.Future[None]") -> None:
        if theirs.done():  # it no longer waits
            self.leave(name)
        else:
            theirs.set_result(None)
