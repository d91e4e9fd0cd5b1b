"""Coroutines and tasks: what is awaited, and how a failure in one call stays the failure of that call alone."""

import asyncio
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from inspect import iscoroutinefunction, unwrap
from types import FunctionType, MethodType, coroutine
from typing import Any, ParamSpec, TypeVar

from ziggurat.core.errors import ConfigurationError, ServiceError, Suspend, described

T = TypeVar("T")
P = ParamSpec("P")


class StopSignal(asyncio.CancelledError):
    """A cancellation that the runtime itself raises in a task that nobody has cancelled."""


class Interruption:
    """A way to cancel what the current task does now, and not the task: until `end`."""

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task: asyncio.Task[object] | None = task
        self._cancels = task.cancelling()  # by others, before
        self._interrupts = False

    def interrupt(self) -> None:
        if self._task is not None and not self._interrupts:
            self._interrupts = self._task.cancel()

    def end(self, error: asyncio.CancelledError | None = None) -> bool:
        """Have no effect any more; return whether an error that the task has caught comes from here only."""
        task, self._task = self._task, None
        if task is None:
            return False
        cancels = task.uncancel() if self._interrupts else task.cancelling()
        return (self._interrupts or isinstance(error, StopSignal)) and cancels <= self._cancels


def contained(error: BaseException, owner: "asyncio.Task[object] | None" = None) -> BaseException:
    """Return a ServiceError in place of SystemExit and the like that a call raised, else the error itself."""
    if isinstance(error, (Exception, Suspend, StopSignal)) or _is_signal(error, owner):
        return error
    if isinstance(error, asyncio.CancelledError):
        text = "the call cancelled itself, or waited for something that was cancelled; the run was not"
    else:
        text = f"the call raised an exception that would end the program: {described(error)}"
    failure = ServiceError(text)
    failure.__cause__ = error
    return failure


def contained_call(raised: BaseException, name: str, path: str) -> BaseException:
    """Return what `contained` does, or a ConfigurationError if a call could not be awaited, or not be made at all."""
    trace = raised.__traceback__
    if not isinstance(raised, TypeError) or trace is None or trace.tb_next is not None:  # raised within the call
        return contained(raised)
    error = ConfigurationError(f"{name} at {path} is made by an async function (request, ctx): {raised}")
    error.__cause__ = raised
    return error


def as_failure(error: BaseException) -> Exception:
    """Return the error of a call to act on: an Exception itself, or what `contained` puts in the place of others."""
    failure = contained(error)
    if isinstance(failure, Exception):
        return failure
    raise failure


async def in_task(begin: Callable[[], Awaitable[T]]) -> T:
    """Begin and await the work of a task of its own; SystemExit, raised out of a task, would end the event loop."""
    try:
        return await begin()
    except (KeyboardInterrupt, SystemExit) as error:
        raise contained(error)  # noqa: B904 - it has its cause already


def swallowed_cancellation(task: "asyncio.Task[object] | None", before: int) -> bool:
    """Return whether the code of a call swallowed a cancellation of its task, which had `before` of them earlier."""
    if task is None or task.cancelling() <= before:
        return False
    if sys.version_info >= (3, 13):
        return True
    while task.uncancel() > before:  # a task group whose task has failed may have left its own one behind
        pass
    return False


def _is_signal(error: BaseException, owner: "asyncio.Task[object] | None") -> bool:
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    if isinstance(error, BaseExceptionGroup):
        return any(isinstance(each, Suspend) or _is_signal(each, owner) for each in error.exceptions)
    if isinstance(error, asyncio.CancelledError):
        return task is None or task.cancelling() > 0
    if isinstance(error, GeneratorExit):
        return owner is None or task is not owner
    if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
        cancelled = task is not None and task.cancelling() > 0  # asyncio.run cancels at the first Ctrl-C
        return cancelled or signal.getsignal(signal.SIGINT) is signal.default_int_handler
    return False


@coroutine
def isolated(
    work: Coroutine[Any, Any, T], monotonic: Callable[[], float], longest: float, on_longer: Callable[[], None]
) -> Generator[Any, Any, T]:
    """Do work whose changes of context variables end with it, as those of a task do, but in the task that awaits it."""
    # `on_longer` is called after each time it has worked for more than `longest` seconds without a wait.
    context = copy_context()
    step: Callable[[Any], Any] = work.send
    given: Any = None
    while True:
        began = monotonic()
        try:
            waited_for = context.run(step, given)
        except StopIteration as ended:
            value: T = ended.value
            return value
        finally:
            if monotonic() - began > longest:
                on_longer()
        try:
            step, given = work.send, (yield waited_for)
        except GeneratorExit:
            context.run(work.close)
            raise
        except BaseException as error:  # noqa: BLE001 - a cancellation, raised where the work waits
            step, given = work.throw, error


class _Done(Awaitable[None]):
    def __await__(self) -> Generator[None, None, None]:
        return
        yield


DONE: Awaitable[None] = _Done()
"""An awaitable that has ended already; one for all, as most entries in memory need no wait."""


class _Unstopped(asyncio.Task[T]):
    """A task that `asyncio.run` does not cancel as it ends, but waits for."""

    def cancel(self, msg: object = None) -> bool:
        return running_loop() is not None and super().cancel(msg)  # a time limit within cancels while the loop runs


async def finished(work: Awaitable[T], undo: Callable[[T], Awaitable[None]] | None = None) -> T:
    """Await `work` to its end, however often the task is cancelled; the cancellation is raised afterwards."""
    # For work that must not stop half-way, such as taking a lease, and that ends in bounded time. If the task was
    # cancelled, nobody gets what the work has returned: `undo` is awaited with that.
    task = _Unstopped(work) if isinstance(work, Coroutine) else asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        # The error is retrieved, so that asyncio does not log it.
        if not task.cancelled() and task.exception() is None and undo is not None:
            await finished(undo(task.result()))
        raise cancelled
    return task.result()


async def end_all(tasks: "Iterable[asyncio.Future[Any]]") -> None:
    """Cancel tasks and wait until they have ended, even if this wait itself is cancelled."""
    cancelled: asyncio.CancelledError | None = None
    while running := [task for task in tasks if not task.done()]:
        for task in running:
            task.cancel()
        try:
            await asyncio.wait(running)
        except asyncio.CancelledError as error:
            cancelled = error
    for task in tasks:
        if not task.cancelled():
            task.exception()  # retrieve it, so that asyncio does not log it
    if cancelled is not None:
        raise cancelled


async def first_of(*works: Awaitable[Any]) -> None:
    """Await several works until one has ended, and cancel the others; raise the error of one that has failed."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await end_all(tasks)
    for task in tasks:
        if not task.cancelled():
            task.result()


def running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def ring(waiting: "asyncio.Future[None]") -> None:
    """Complete a future, also in the event loop of another thread; no effect if that loop is closed."""
    loop = waiting.get_loop()
    if loop is running_loop():
        _ring(waiting)
    else:
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_ring, waiting)


def _ring(waiting: "asyncio.Future[None]") -> None:
    if not waiting.done():
        waiting.set_result(None)


def without_await(value: object) -> str:
    """Return what is wrong with a value that is a coroutine; empty for any other."""
    if not isinstance(value, Coroutine):
        return ""
    name = getattr(value, "__qualname__", type(value).__name__)
    return f"{name}(...) is not awaited: write await {name}(...)"


def closed(value: T) -> T:
    """Return a value that is not awaited; a coroutine is closed, or Python would warn that it never was."""
    if isinstance(value, Coroutine):
        value.close()
    return value


def is_awaited(value: Any) -> bool:
    """Return whether what a function returns can surely be awaited: it is async, or annotated to return that."""
    while isinstance(value, partial):
        value = value.func
    function = value if isinstance(value, (FunctionType, MethodType)) else type(value).__call__
    written = unwrap(getattr(function, "__func__", function))
    returns = getattr(written, "__annotations__", {}).get("return", "")
    words = returns.__name__ if isinstance(returns, type) else str(returns)
    return iscoroutinefunction(written) or any(each in words for each in ("Awaitable", "Coroutine", "Future", "Task"))
