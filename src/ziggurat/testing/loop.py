"""The event loop of a test: a clock that is moved by hand, a wait until all else waits, and a check for leaks."""

import asyncio
import gc
import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from heapq import heappop, heappush
from types import TracebackType

from ziggurat.core.settings import NonNegativeSeconds, PositiveInt, checked
from ziggurat.core.tasks import ring
from ziggurat.databases.writer import is_busy
from ziggurat.tools.guarded_call import ABANDONED_CALLS

_TURNS = 10_000
_PAUSE = 0.001  # seconds of real time between checks whether a store has finished its work


class _HandTimer:
    __slots__ = ("callback", "when")

    def __init__(self, when: float, callback: Callable[[], None]) -> None:
        self.when: float = when
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


def _is_idle() -> bool | None:
    """Return whether nothing is ready to run; None if the event loop cannot tell."""
    ready = getattr(asyncio.get_running_loop(), "_ready", None)
    return None if ready is None else not ready


async def disk() -> None:
    """Wait while nothing is ready to run and a store's thread is working for this event loop."""
    while is_busy(asyncio.get_running_loop()) and _is_idle():  # noqa: ASYNC110 - the thread sets no event
        await asyncio.sleep(_PAUSE)


@checked
async def run_until_idle(turns: PositiveInt = _TURNS) -> None:
    """Let the event loop run until every task waits for something, for at most `turns` turns.

    It waits for writes of stores, but not for other threads and sockets.
    """
    for turn in range(turns):
        await asyncio.sleep(0)
        await disk()
        idle = _is_idle()
        if idle or (idle is None and turn > 100):
            return


class HandClock:
    """A manual clock for tests: pass it to a run and move it by hand; nothing sleeps for real.

    ::

        clock = HandClock()
        task = asyncio.create_task(service(request, root().within(CLOCK, clock)))
        await clock.advance(30)

    Args:
        now: POSIX seconds at the start; `monotonic` starts at 0.
        auto: Jump to the next timer automatically whenever nothing else is ready to run and no store is writing.
            Pending work of other threads and sockets is ignored.
    """

    @checked
    def __init__(self, now: float = 1_000_000_000.0, *, auto: bool = False) -> None:
        self._start = now
        self._elapsed = 0.0
        self._timers: list[tuple[float, int, _HandTimer]] = []
        self._number = 0
        self._auto = auto
        self._driven: asyncio.AbstractEventLoop | None = None

    def now(self) -> float:
        """Return POSIX seconds."""
        return self._start + self._elapsed

    def monotonic(self) -> float:
        """Return the seconds by which this clock has been moved."""
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock has been moved by `seconds`."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self.call_at(self._elapsed + seconds, partial(ring, over))
        try:
            await over
        finally:
            timer.cancel()

    def call_at(self, when: float, callback: Callable[[], None]) -> _HandTimer:
        """Call `callback` when the clock reaches `when`."""
        timer = _HandTimer(when, callback)
        self._number += 1
        heappush(self._timers, (when, self._number, timer))
        if self._auto and self._driven is not (loop := asyncio.get_running_loop()):
            self._driven = loop
            loop.call_soon(self._drive)
        return timer

    @property
    def waiting(self) -> int:
        """The number of pending timers and sleepers."""
        return sum(timer.callback is not None for _, _, timer in self._timers)

    @checked
    async def advance(self, seconds: NonNegativeSeconds) -> None:
        """Move the clock; timers that fall due run in order of time, and the event loop settles after each."""
        target = self._elapsed + seconds
        await run_until_idle()
        while self._run_next(target):
            await run_until_idle()
        self._elapsed = max(self._elapsed, target)

    def skip(self, seconds: float) -> None:
        """Move the clock at once, as when a call blocks the event loop; timers that fall due run when it goes on."""
        self._elapsed += seconds

    def _run_next(self, until: float) -> bool:
        while self._timers and self._timers[0][0] <= until:
            when, _, timer = heappop(self._timers)
            callback, timer.callback = timer.callback, None
            if callback is not None:
                self._elapsed = max(self._elapsed, when)
                callback()
                return True
        return False

    def _drive(self) -> None:
        loop = asyncio.get_running_loop()
        writing = is_busy(loop)
        if _is_idle() is not False and not writing:
            self._run_next(float("inf"))
        if any(timer.callback is not None for _, _, timer in self._timers):
            loop.call_later(_PAUSE, self._drive) if writing else loop.call_soon(self._drive)
        else:
            self._driven = None


# -- leaks -------------------------------------------------------------------------------------------------------

POOLS = ("asyncio_", "ziggurat")  # prefixes of the names of threads that are kept running on purpose


class assert_no_leaks:  # noqa: N801 - reads like a function
    """Assert that no task, thread, open file or socket outlives the block.

    ::

        async with assert_no_leaks():
            await agent.run("...")

        with assert_no_leaks():
            agent.run_sync("...")

    The asynchronous form first lets tasks finish that are just ending. Threads of pools that are kept on purpose do not
    count; files and sockets are checked only on Linux, in ``/proc``.

    Raises:
        AssertionError: something was left; the message names each item and its position in the code. An error raised in
            the block is not masked.
    """

    def __enter__(self) -> None:
        self._tasks = _tasks()
        self._threads = set(threading.enumerate())
        self._files = _files()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            return
        if self._leaks():
            gc.collect()  # objects kept alive only by a reference cycle do not count
        left = self._leaks()
        assert not left, "left behind:\n" + "\n".join(f"- {each}" for each in left)

    async def __aenter__(self) -> None:
        await run_until_idle()
        self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await run_until_idle()
        self.__exit__(kind, error, trace)

    def _leaks(self) -> list[str]:
        tasks = [f"task {_where(task)}" for task in _tasks() - self._tasks]
        threads = [
            f"thread {thread.name!r}"
            for thread in threading.enumerate()
            if thread not in self._threads and not thread.name.startswith(POOLS)
        ]
        files = [
            f"file descriptor {number}: {target}"
            for number, target in _files().items()
            if self._files.get(number) != target
        ]
        return sorted(tasks) + sorted(threads) + files


def _tasks() -> set["asyncio.Task[object]"]:
    try:
        return asyncio.all_tasks() | ABANDONED_CALLS.tasks(asyncio.get_running_loop())
    except RuntimeError:  # no event loop is running
        return set()


def _where(task: "asyncio.Task[object]") -> str:
    coroutine = task.get_coro()
    name = getattr(coroutine, "__qualname__", repr(coroutine))
    stack = task.get_stack(limit=1)
    place = f", at {stack[0].f_code.co_filename}:{stack[0].f_lineno}" if stack else ""
    return f"{task.get_name()!r} ({name}{place})"


def _files() -> dict[int, str]:
    if not sys.platform.startswith("linux"):
        return {}
    files: dict[int, str] = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            files[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:  # closed meanwhile, as the descriptor of the listing itself
            continue
    return {number: target for number, target in files.items() if not target.startswith("/dev/")}
