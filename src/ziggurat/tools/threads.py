"""ThreadPool: runs tools that are not async, and never delays the exit of the process.

The standard pool joins its threads at exit, so one tool that hangs would keep the process alive.
"""

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any, TypeVar

from msgspec import Struct

from ziggurat.core.context import AMBIENT, RUN_ID, Context
from ziggurat.core.errors import ConfigurationError, ToolError
from ziggurat.tools.results import presentable

T = TypeVar("T")


Job = Callable[[], None]

_PATIENCE = 1.0  # seconds between a thread's checks that the event loop it waits for is still open


class ThreadCall(Struct, eq=False):
    """A call made in a thread, and the task on the event loop that the thread waits for, if any."""

    task: "asyncio.Task[object] | None" = None
    given_up: bool = False
    begun: bool = False
    ended: bool = False
    hangs: bool = False
    within: bool = False  # whether it was made in another thread of the pool, which waits for it

    def give_up(self) -> "asyncio.Task[object] | None":
        """Cancel the task that the thread waits for, now or once it exists; return it if it has not ended."""
        self.given_up = True
        if self.task is None or self.task.done():
            return None
        self.task.cancel()
        return self.task


class ThreadPool:
    def __init__(self, size: int) -> None:
        self.size = size
        self.forget()

    def forget(self) -> None:
        """Reset to no threads at all, as in a forked process, where the threads do not exist."""
        self.written_off: int = 0
        self._jobs: SimpleQueue[tuple[Job, ThreadCall]] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._busy = 0
        self._room = self.size  # how many threads may exist: those that hang or only wait are replaced

    def submit(
        self, function: Callable[[], T], call: ThreadCall | None = None, ctx: Context | None = None
    ) -> "asyncio.Future[T]":
        """Run the user's `function` at a context in a thread, in a copy of the caller's context variables."""
        if self.written_off >= self.size:
            raise ToolError(
                f"{self.written_off} tool threads hang and cannot be stopped; no further sync tools are run",
                kind="transient",
            )
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        context = contextvars.copy_context()
        if ctx is not None:
            context.run(AMBIENT.set, ctx)
        call = call or ThreadCall()
        call.within = hasattr(_thread, "loop")

        def job() -> None:
            _thread.loop, _thread.call = loop, call
            try:
                if not call.begun:
                    raise asyncio.CancelledError
                value = context.run(function)
            except BaseException as error:  # noqa: BLE001 - whatever a tool raises goes to its caller
                _deliver(loop, future, None, presentable(error))
            else:
                _deliver(loop, future, value, None)

        with self._lock:
            self._busy += 1
            self._room += call.within  # the submitting thread waits, so its place is free
            try:
                self._grow()
            except RuntimeError as error:
                self._leave(call)
                raise ToolError(f"no thread for the tool: {error}", kind="transient") from error
        self._jobs.put((job, call))
        return future

    def _leave(self, call: ThreadCall) -> None:
        self._busy -= 1
        self._room -= call.within + call.hangs
        self.written_off -= call.hangs
        call.ended = True

    def _grow(self) -> None:
        while self._threads < min(self._busy, self._room):
            try:
                threading.Thread(target=self._work, daemon=True, name=f"ziggurat-tool-{self._threads + 1}").start()
            except RuntimeError:
                if not self._threads:
                    raise
                return
            self._threads += 1

    def _work(self) -> None:
        while True:
            job, call = self._jobs.get()
            with self._lock:
                call.begun = not call.given_up
            job()
            del _thread.call, _thread.loop  # an idle thread must not keep references to a run
            with self._lock:
                self._leave(call)
                del job, call
                if self._threads > self._room:  # the threads it replaced have returned
                    self._threads -= 1
                    return

    def write_off(self, call: ThreadCall) -> None:
        """Give a call up: it will not be started, or if it runs, it counts as hanging until it returns."""
        with self._lock:
            call.given_up = True
            if call.begun and not call.ended and not call.hangs:
                call.hangs = True
                self.written_off += 1
                self._room += 1
                self._grow()

    def run_on(self, loop: asyncio.AbstractEventLoop, start: Callable[[], Coroutine[Any, Any, T]]) -> T:
        call: ThreadCall | None = getattr(_thread, "call", None)
        if call is None:
            return _run_and_wait(loop, start, ThreadCall())
        with self.away():
            return _run_and_wait(loop, start, call)

    @contextmanager
    def away(self) -> Iterator[None]:
        with self._lock:
            self._room += 1
            self._grow()
        try:
            yield
        finally:
            with self._lock:
                self._room -= 1


def _run_and_wait(loop: asyncio.AbstractEventLoop, start: Callable[[], Coroutine[Any, Any, T]], call: ThreadCall) -> T:
    outcome: Future[T] = Future()

    async def run() -> T:
        return await start()  # so that an error of `start` itself is raised in the waiting thread

    def begin() -> None:
        task = loop.create_task(run())
        call.task = task
        task.add_done_callback(lambda task: _copy(task, outcome))
        if call.given_up:
            task.cancel()

    loop.call_soon_threadsafe(begin, context=contextvars.copy_context())
    while True:
        try:
            return outcome.result(_PATIENCE)
        except TimeoutError:
            if outcome.done():
                raise
            if loop.is_closed():  # closed before the task was created or finished
                raise asyncio.CancelledError from None


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
        return  # the loop is closed, so nothing waits for the result


class ThreadRaised(Exception):
    """Carries an error that a future cannot hold (StopIteration, SystemExit ...) out of a thread."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(type(error).__name__)
        self.error = error


_thread = threading.local()


def loop_of_this_thread() -> asyncio.AbstractEventLoop | None:
    return getattr(_thread, "loop", None)


POOL = ThreadPool(min(32, (os.cpu_count() or 1) + 4))


def _reset_in_child() -> None:
    """Reset a process forked by a tool, so that it is not part of any run."""
    POOL.forget()
    _thread.__dict__.clear()
    AMBIENT.set(None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_in_child)


# -- runs in threads of tools ------------------------------------------------------------------------------------------

# A new thread has no context variables, so an agent that is run there does not find the run it may be part of, and
# nothing in Python shows what started the thread. A run without context is therefore refused while a run with approval
# rules or given grants is in progress, unless there is a sign that the application began it: it runs in the main
# thread, or in a thread or with an agent that was used for a run of its own before. The caller can say which it is: by
# copying the context, or with ``detached=True``.

_guarded: set[str] = set()  # ids of runs in progress that have approval rules or given grants
_trust = threading.local()


def rules_hold(ctx: Context) -> None:
    run_id = ctx.scope.get(RUN_ID)
    if run_id is not None:
        _guarded.add(run_id)


def run_ended(run_id: str) -> None:
    _guarded.discard(run_id)


def trust_thread() -> None:
    _trust.trusted = True


def check_thread(agent: str) -> None:
    """Check that a run which is part of no other may start in this thread."""
    if not _guarded or getattr(_trust, "trusted", False):
        return
    thread = threading.current_thread()
    if thread is not threading.main_thread():
        raise ConfigurationError(
            f"{agent} was not run: the thread {thread.name} may have been started by a tool, and it lacks the context "
            "by which the rules of that tool's run would hold. In a tool, start it with asyncio.to_thread(...), or "
            "give the thread or pool contextvars.copy_context().run with your function as its argument. In a thread "
            "that belongs to no run, such as a server's, pass detached=True"
        )
