"""Threads for tools that are not async: few, reused, and never in the way of the process's exit.

The standard pool is not used because it joins its threads at exit, so one tool that hangs would hold the process.
"""

__all__ = ["POOL", "ThreadCall", "ThreadPool", "ThreadRaised", "loop_of_this_thread"]

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any, TypeVar

from ziggurat.core.errors import ToolError
from ziggurat.tools.results import presentable

T = TypeVar("T")
Job = Callable[[], None]


class ThreadCall:
    """A call that a thread makes, and the task on the event loop that it waits for, if any."""

    def __init__(self) -> None:
        self.task: asyncio.Task[object] | None = None
        self.given_up = False

    def give_up(self) -> "asyncio.Task[object] | None":
        """Cancel what the thread waits for, now or when it comes to it; return what is to be waited for."""
        self.given_up = True
        if self.task is None or self.task.done():
            return None
        self.task.cancel()
        return self.task


class ThreadPool:
    """At most `size` threads at work.

    A thread whose call was given up is written off and replaced; after `size` write-offs further calls are
    refused rather than queued behind threads that may never come back.

    Args:
        size: How many calls may run at once.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.written_off = 0
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._busy = 0
        self._away = 0

    def submit(self, function: Callable[[], T], call: ThreadCall | None = None) -> "asyncio.Future[T]":
        """Run `function` in a thread, in a copy of the caller's context variables.

        Args:
            function: What is run.
            call: By which the caller may give it up.

        Raises:
            ToolError: too many calls hang already.
        """
        if self.written_off >= self.size:
            raise ToolError(
                f"{self.written_off} tool threads hang and cannot be stopped; no further sync tools are run",
                kind="transient",
            )
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        context = contextvars.copy_context()

        def job() -> None:
            _thread.loop, _thread.call = loop, call or ThreadCall()
            try:
                value = context.run(function)
            except BaseException as error:  # noqa: BLE001 - whatever a tool raises goes to who awaits it
                _deliver(loop, future, None, presentable(error))
            else:
                _deliver(loop, future, value, None)

        with self._lock:
            self._busy += 1
            if self._threads < min(self._busy, self.size + self.written_off + self._away):
                self._threads += 1
                threading.Thread(target=self._work, daemon=True, name=f"ziggurat-tool-{self._threads}").start()
        self._jobs.put(job)
        return future

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            del job, _thread.call, _thread.loop  # an idle thread keeps nothing of the run it worked for
            with self._lock:
                self._busy -= 1

    def write_off(self) -> None:
        """Count a call that was given up while its thread still runs."""
        with self._lock:
            self.written_off += 1

    def return_write_off(self) -> None:
        """Count a call that was given up and has ended after all."""
        with self._lock:
            self.written_off -= 1

    def run_on(self, loop: asyncio.AbstractEventLoop, start: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """From a tool's thread, run a coroutine on the event loop that waits for the tool, and wait for it.

        When the tool's call is given up, so is the coroutine.
        """
        outcome: Future[T] = Future()
        call: ThreadCall = _thread.call

        def begin() -> None:
            task = loop.create_task(start())
            call.task = task
            task.add_done_callback(lambda task: _copy(task, outcome))
            if call.given_up:
                task.cancel()

        with self.away():
            loop.call_soon_threadsafe(begin, context=contextvars.copy_context())
            return outcome.result()

    @contextmanager
    def away(self) -> Iterator[None]:
        """Free this thread's place while it waits for something else."""
        with self._lock:
            self._away += 1
        try:
            yield
        finally:
            with self._lock:
                self._away -= 1


def _copy(task: "asyncio.Task[T]", outcome: "Future[T]") -> None:
    if task.cancelled():
        outcome.set_exception(asyncio.CancelledError())
    elif (error := task.exception()) is not None:
        outcome.set_exception(error)
    else:
        outcome.set_result(task.result())


def _deliver(
    loop: asyncio.AbstractEventLoop, future: "asyncio.Future[T]", value: T | None, error: BaseException | None
) -> None:
    def settle() -> None:
        if future.done():
            return
        if error is None:
            future.set_result(value)  # type: ignore[arg-type]
        elif isinstance(error, Exception) and not isinstance(error, StopIteration):
            future.set_exception(error)
        else:
            future.set_exception(ThreadRaised(error))

    try:
        loop.call_soon_threadsafe(settle)
    except RuntimeError:
        return  # the loop is closed; nobody waits any more


class ThreadRaised(Exception):
    """Carries what a future may not hold (StopIteration, SystemExit ...) out of a thread."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(type(error).__name__)
        self.error = error


_thread = threading.local()


def loop_of_this_thread() -> asyncio.AbstractEventLoop | None:
    """Return the event loop that waits for the tool in this thread; None in any other thread."""
    return getattr(_thread, "loop", None)


POOL = ThreadPool(min(32, (os.cpu_count() or 1) + 4))
"""The threads of this process."""
