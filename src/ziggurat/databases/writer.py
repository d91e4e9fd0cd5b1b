"""The one thread of a store that touches its files: what comes while it writes is written together next."""

__all__ = ["Job", "Writer", "is_busy", "one_by_one"]

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from ziggurat.core.errors import StoreError

T = TypeVar("T")

logger = logging.getLogger("ziggurat")

_under_way: "WeakKeyDictionary[asyncio.AbstractEventLoop, int]" = WeakKeyDictionary()
"""How many jobs of each event loop have been given to a thread and not been told of; touched in that loop only."""


def is_busy(loop: asyncio.AbstractEventLoop) -> bool:
    """Tell whether a store's thread is at work for an event loop, which will hear of it."""
    return _under_way.get(loop, 0) > 0


class Job(Generic[T]):
    """One thing to do in the thread, and where to tell how it went.

    Attributes:
        work: Does it, in the thread.
        log: The log that it writes; empty when it only reads, and shares no transaction with others.
    """

    __slots__ = ("error", "future", "log", "loop", "result", "work")

    def __init__(self, work: Callable[[], T], log: str) -> None:
        self.work = work
        self.log = log
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[T] = self.loop.create_future()
        self.result: T | None = None
        self.error: BaseException | None = None

    def do(self) -> None:
        """Do it, keeping what comes of it until it is told."""
        try:
            self.result = self.work()
        except Exception as error:  # noqa: BLE001 - whoever waits for it hears of it
            self.error = error

    def told(self) -> None:
        """Tell whoever waits; called in the event loop."""
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)  # type: ignore[arg-type]


def one_by_one(jobs: Sequence[Job[Any]]) -> None:
    """Do jobs that need not be done together."""
    for job in jobs:
        job.do()


class Writer:
    """Takes jobs from any number of event loops and does them in order in one thread.

    Args:
        name: Of the thread.
        together: Does jobs that write, all in one transaction, and keeps each one's outcome.
        idle: Called between jobs, at least every `pause` seconds.
        pause: In seconds.
        ended: Called last, in the thread.
    """

    def __init__(
        self,
        name: str,
        together: Callable[[Sequence[Job[Any]]], None],
        idle: Callable[[], None],
        pause: float,
        ended: Callable[[], None],
    ) -> None:
        self.name = name
        self._together = together
        self._idle = idle
        self._pause = pause
        self._ended = ended
        self._jobs: SimpleQueue[list[Job[Any]] | None] = SimpleQueue()
        self._ready: dict[asyncio.AbstractEventLoop, list[Job[Any]]] = {}
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._closed = False
        self._pid = os.getpid()

    @property
    def closed(self) -> bool:
        """Whether it takes no more."""
        return self._closed

    def submit(self, work: Callable[[], T], log: str = "") -> "asyncio.Future[T]":
        """Have something done in the thread.

        Raises:
            StoreError: the store is closed, or belongs to the process that this one was forked from.
        """
        if self._thread is None:
            self._begin()
        if self._closed or self._pid != os.getpid():
            why = "is closed" if self._closed else "belongs to the process before the fork"
            raise StoreError(f"the store {self.name} {why}; connect to it again")
        job = Job(work, log)
        ready = self._ready.get(job.loop)
        if ready is None:
            ready = self._ready[job.loop] = []
            _under_way.setdefault(job.loop, 0)
            job.loop.call_soon(self._hand_over, job.loop)
        ready.append(job)
        _under_way[job.loop] += 1
        return job.future

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        """Give the thread all that became ready in one turn of an event loop."""
        ready = self._ready.pop(loop, None)
        if ready:
            self._jobs.put(ready)

    def _begin(self) -> None:
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name=self.name, daemon=True)
                thread.start()
                self._thread = thread

    def _run(self) -> None:
        while True:
            given: list[list[Job[Any]] | None] = []
            try:
                given.append(self._jobs.get(timeout=self._pause))
                while True:
                    given.append(self._jobs.get_nowait())
            except Empty:
                pass
            last = None in given
            self._do([job for jobs in given if jobs is not None for job in jobs])
            if last:
                self._ended()
                return
            try:
                self._idle()
            except Exception as error:  # noqa: BLE001 - it is tried again, and who needs it hears then
                logger.warning("%s: %s", self.name, error)

    def _do(self, jobs: list[Job[Any]]) -> None:
        """Do jobs in order; those that write and stand next to each other, together."""
        start = 0
        while start < len(jobs):
            end = start + 1
            if jobs[start].log:
                while end < len(jobs) and jobs[end].log:
                    end += 1
                self._together(jobs[start:end])
            else:
                jobs[start].do()
            self._tell(jobs[start:end])
            start = end

    @staticmethod
    def _tell(jobs: list[Job[Any]]) -> None:
        by_loop: dict[asyncio.AbstractEventLoop, list[Job[Any]]] = {}
        for job in jobs:
            by_loop.setdefault(job.loop, []).append(job)
        for loop, told in by_loop.items():
            try:
                loop.call_soon_threadsafe(_told, told)
            except RuntimeError:  # that loop has ended, and nobody waits there any more
                continue

    def close(self) -> None:
        """Do what is left and end the thread; what is given later is refused."""
        with self._lock:
            thread, was = self._thread, self._closed
            self._closed = True
        if thread is not None and not was and self._pid == os.getpid():
            for loop in list(self._ready):
                self._hand_over(loop)
            self._jobs.put(None)
            thread.join()


def _told(jobs: list[Job[Any]]) -> None:
    _under_way[jobs[0].loop] -= len(jobs)
    for job in jobs:
        job.told()
