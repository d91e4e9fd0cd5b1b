"""Eager tasks: the work starts at once, and becomes a task only if it has to wait.

Python 3.12 has this as eager tasks. Here the task is made before it is known whether it is needed, and the work takes
its first step in the name of that task; what ends without waiting leaves the task to whoever comes next.
"""

__all__ = ["begin"]

import asyncio
import threading
from collections.abc import Coroutine, Generator
from contextvars import Context, copy_context
from typing import Any, TypeVar

T = TypeVar("T")


class _Host(Coroutine[Any, Any, Any]):
    """What a task runs that has been made ahead: the work it is given until the event loop comes to it, or nothing."""

    __slots__ = ("bell", "context", "task", "waits_for", "work")

    def __init__(self) -> None:
        self.work: Coroutine[Any, Any, Any] | None = None
        self.task: asyncio.Task[Any] | None = asyncio.Task(self)  # None from when it is given work, or too late for it

    def give(self, work: Coroutine[Any, Any, T], context: Context, waits_for: Any) -> "asyncio.Future[None]":
        """Continue work that has begun and waits; returns what is rung when it is over."""
        self.work, self.context, self.waits_for = work, context, waits_for
        self.bell: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        return self.bell

    def send(self, value: Any, /) -> Any:
        """Take the next step."""
        if self.task is not None:
            self.task = None
            if self.work is None:
                raise StopIteration
            return self.waits_for
        return self._step("send", value)

    def throw(self, error: Any, /, *_: Any) -> Any:
        """Take the next step, which begins with an error."""
        if self.task is not None:
            self.task = None
            if self.work is None:
                raise error
            if asyncio.isfuture(self.waits_for) and self.waits_for.cancel():
                return self.waits_for  # as every task does: what is waited for is cancelled, and brings the error
        return self._step("throw", error)

    def _step(self, how: str, what: Any) -> Any:
        try:
            return self.context.run(getattr(self.work, how), what)
        except BaseException:
            if not self.bell.done():
                self.bell.set_result(None)
            raise

    def close(self) -> None:
        """End the work where it stands."""
        if self.work is not None:
            self.context.run(self.work.close)

    def __await__(self) -> Generator[Any, Any, Any]:
        """Refuse: it is run by its own task and nobody else.

        Raises:
            TypeError: always.
        """
        raise TypeError("what a task runs cannot be awaited; await the task")


class _Here(threading.local):
    """The host that waits for work in this thread."""

    spare: _Host | None = None


_HERE = _Here()


def begin(work: Coroutine[Any, Any, T]) -> "tuple[asyncio.Task[T], asyncio.Future[None]]":
    """Take the first step of `work` here and now, in its own copy of the context variables.

    Returns:
        The task that continues it, and what is set when it is over: sooner by a turn of the event loop than
        whoever awaits the task would know.

    Raises:
        StopIteration: the work has ended with this value, and there is no task.
        BaseException: whatever else it ended with.
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
