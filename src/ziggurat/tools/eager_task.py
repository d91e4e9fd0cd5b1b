"""Eager tasks: a coroutine starts at once, and becomes a task only if it has to wait.

Python 3.12 has eager tasks built in. Here the task is created in advance, and the coroutine runs its first step as that
task; if it ends without waiting, the unused task is kept for the next coroutine.
"""

__all__ = ["begin"]

import asyncio
import threading
from collections.abc import Coroutine, Generator
from contextvars import Context, copy_context
from typing import Any, TypeVar

T = TypeVar("T")


class _Host(Coroutine[Any, Any, Any]):
    """The coroutine of a task created in advance: runs the work given to it, or nothing if none comes in time."""

    __slots__ = ("bell", "context", "task", "waits_for", "work")

    def __init__(self) -> None:
        self.work: Coroutine[Any, Any, Any] | None = None
        self.task: asyncio.Task[Any] | None = asyncio.Task(self)  # None once the event loop has started it

    def give(self, work: Coroutine[Any, Any, T], context: Context, waits_for: Any) -> "asyncio.Future[None]":
        """Take over work that has begun and waits; return a future that is set when the work ends."""
        self.work, self.context, self.waits_for = work, context, waits_for
        self.bell: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        return self.bell

    def send(self, value: Any, /) -> Any:
        """Run the next step of the work."""
        if self.task is not None:
            self.task = None
            if self.work is None:
                raise StopIteration
            return self.waits_for
        return self._step("send", value)

    def throw(self, error: Any, /, *_: Any) -> Any:
        """Run the next step of the work by raising an error in it."""
        if self.task is not None:
            self.task = None
            if self.work is None:
                raise error
            if asyncio.isfuture(self.waits_for) and self.waits_for.cancel():
                return self.waits_for  # as in every task: the future is cancelled, and raises the error
        return self._step("throw", error)

    def _step(self, how: str, what: Any) -> Any:
        try:
            return self.context.run(getattr(self.work, how), what)
        except BaseException:
            if not self.bell.done():
                self.bell.set_result(None)
            raise

    def close(self) -> None:
        """Close the work where it is."""
        if self.work is not None:
            self.context.run(self.work.close)

    def __await__(self) -> Generator[Any, Any, Any]:
        """Refuse to be awaited: only its own task may run it.

        Raises:
            TypeError: always.
        """
        raise TypeError("what a task runs cannot be awaited; await the task")


class _Here(threading.local):
    """The unused host of each thread."""

    spare: _Host | None = None


_HERE = _Here()


def begin(work: Coroutine[Any, Any, T]) -> "tuple[asyncio.Task[T], asyncio.Future[None]]":
    """Run the first step of `work` immediately, in its own copy of the context variables.

    Returns:
        The task that continues the work, and a future that is set when the work ends, one turn of the event loop
        before awaiting the task would return.

    Raises:
        StopIteration: the work has already ended with this value, so there is no task.
        BaseException: any other error of the first step.
    """
    loop, caller = asyncio.get_running_loop(), asyncio.current_task()
    host, _HERE.spare = _HERE.spare, None
    task = None if host is None else host.task
    if host is None or task is None or task.get_loop() is not loop or task.cancelling():
        host = _Host()
        task = host.task
    assert caller is not None
    assert task is not None
    context = copy_context()
    asyncio.tasks._leave_task(loop, caller)
    asyncio.tasks._enter_task(loop, task)
    try:
        waits_for = context.run(work.send, None)
    except BaseException:
        _HERE.spare = host
        raise
    finally:
        asyncio.tasks._leave_task(loop, task)
        asyncio.tasks._enter_task(loop, caller)
    return task, host.give(work, context, waits_for)
