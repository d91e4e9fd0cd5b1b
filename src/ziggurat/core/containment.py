"""Containment: what ends a task or a program, raised by the code of one call, is a failure of that call alone."""

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine
from types import CoroutineType, GeneratorType
from typing import Any, TypeVar

from ziggurat.core.errors import ConfigurationError, ServiceError, Suspend, described

T = TypeVar("T")


class StopSignal(asyncio.CancelledError):
    """A cancellation that the runtime itself raises in a task that nobody has cancelled."""


def contained(error: BaseException, owner: "asyncio.Task[object] | None" = None) -> BaseException:
    """Return a ServiceError in place of SystemExit and the like that the code of a call raised, else the error
    itself."""
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


class Watched(Coroutine[Any, Any, T]):
    """Work in which task groups of users cancel no more than what they wait for, before Python 3.13."""

    __slots__ = ("_work",)

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work

    def __await__(self) -> "Watched[T]":
        return self

    def __iter__(self) -> "Watched[T]":
        return self

    def __next__(self) -> Any:
        return self._work.send(None)

    def send(self, value: Any, /) -> Any:
        """Resume the work with a value."""
        return self._work.send(value)

    def throw(self, error: Any, *rest: Any) -> Any:
        """Resume the work with an error."""
        if isinstance(error, asyncio.CancelledError) and _is_of_a_group(self._work):
            task = asyncio.current_task()
            assert task is not None
            task.uncancel()  # as the task group does itself from Python 3.13 on
        return self._work.throw(error, *rest)

    def close(self) -> None:
        """End the work."""
        self._work.close()


def _is_of_a_group(work: object) -> bool:
    """Return whether the innermost part of some work is a task group that waits, and has cancelled the task itself."""
    inner = None
    while isinstance(work, (CoroutineType, GeneratorType)):
        inner, work = work, work.cr_await if isinstance(work, CoroutineType) else work.gi_yieldfrom
    if not isinstance(inner, CoroutineType) or inner.cr_code is not asyncio.TaskGroup.__aexit__.__code__:
        return False
    frame: Any = inner.cr_frame
    group = frame.f_locals["self"]
    return bool(group._parent_cancel_requested)  # which no public name says; these versions of Python do not change


def _is_signal(error: BaseException, owner: "asyncio.Task[object] | None") -> bool:
    """Return whether an error comes from outside of the code that raised it."""
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
