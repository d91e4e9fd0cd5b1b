"""FanOut: run several calls at the same time, started in order, until all have ended or enough of them have."""

__all__ = ["FanOut", "raise_suspended"]

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from math import inf
from typing import Any, Generic, TypeVar

from ziggurat.core.containment import in_task
from ziggurat.core.errors import RecordEnds, Suspend
from ziggurat.core.shield import ring

T = TypeVar("T")

Member = Callable[[], Awaitable[T]]
"""Begins a call."""

End = Callable[[Sequence["asyncio.Future[Any]"]], Awaitable[None]]
"""Cancels tasks, and waits until they have ended or their grace is over."""


class FanOut(Generic[T]):
    """Calls that run at the same time; an error of one of them ends all.

    A call that waits for a person gives its `Suspend` as its outcome, so that the others go on.

    Args:
        members: Begin the calls; they are started in this order.
        end: Cancels those that still run.
        limit: How many run at the same time; None for all.
        enough: Called with each outcome; returns why the calls that still run are not needed any more, else "".

    Attributes:
        tasks: The task of each call, None for those that were not started.
    """

    __slots__ = ("_end", "_enough", "_error", "_limit", "_members", "_over", "_running", "_started", "_why", "tasks")

    def __init__(
        self,
        members: Sequence[Member[T]],
        end: End,
        *,
        limit: int | None = None,
        enough: Callable[[T | Suspend], str] | None = None,
    ) -> None:
        self.tasks: list[asyncio.Task[T | Suspend] | None] = [None] * len(members)
        self._members: list[Member[T]] = list(members)
        self._end = end
        self._limit = inf if limit is None else limit
        self._enough = enough
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._started = self._running = 0
        self._why = ""
        self._error: BaseException | None = None

    async def run(self) -> str:
        """Run the calls, and return why those that had not ended were cancelled; empty if all have ended.

        Raises:
            BaseException: the error of a call; the others were cancelled.
        """
        try:
            self._start_more()
            if self._running:
                await self._over
            if self._error is not None:
                raise self._error
        except BaseException:
            await self._end(self._started_tasks())
            raise
        if self._why:
            await self._end(self._started_tasks())
        return self._why

    def stop(self, why: str) -> None:
        """Cancel the calls that still run."""
        if not self._over.done():
            self._why = why
            ring(self._over)

    def fail(self, error: BaseException) -> None:
        """Cancel the calls that still run, and raise an error from `run`."""
        if not self._over.done():
            self._error = error
            ring(self._over)

    def add(self, member: Member[T]) -> None:
        """Run one more call; called by a call that has not ended, such as for what follows from it."""
        self._members.append(member)
        self.tasks.append(None)
        if not self._over.done():
            self._start_more()

    def _started_tasks(self) -> "list[asyncio.Task[T | Suspend]]":
        return [task for task in self.tasks if task is not None]

    def _start_more(self) -> None:
        loop = asyncio.get_running_loop()
        while self._started < len(self._members) and self._running < self._limit:
            task = loop.create_task(_suspend_as_value(self._members[self._started]))
            self.tasks[self._started] = task
            self._started += 1
            self._running += 1
            task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[T | Suspend]") -> None:
        """Take the outcome of a call, and start the next one."""
        self._running -= 1
        if self._over.done():
            return
        try:
            if not task.cancelled():  # one that cancelled itself has no outcome
                if (error := task.exception()) is not None:
                    self.fail(error)
                    return
                if self._enough is not None and (why := self._enough(task.result())):
                    self.stop(why)
                    return
            self._start_more()
        except Exception as error:  # noqa: BLE001 - raised by `run`
            self.fail(error)
            return
        if not self._running:
            ring(self._over)


async def _suspend_as_value(begin: Member[T]) -> T | Suspend:
    try:
        return await in_task(begin)
    except Suspend as suspend:
        return suspend


def raise_suspended(outcomes: Iterable[object]) -> None:
    """Raise one `Suspend` for all calls that wait for a person, if there are any.

    Raises:
        Suspend: it has the pending items of all of them.
    """
    suspends = [outcome for outcome in outcomes if isinstance(outcome, Suspend)]
    for suspend in suspends:
        if isinstance(suspend, RecordEnds):
            raise suspend
    if suspends:
        raise Suspend(tuple(item for suspend in suspends for item in suspend.pending))
