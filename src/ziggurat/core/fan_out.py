"""FanOut: run several calls at the same time until all have ended or enough of them have."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

from ziggurat.core.clock import HELD, Slot, Stopwatch, held
from ziggurat.core.context import Context
from ziggurat.core.errors import Suspend
from ziggurat.core.tasks import in_task, ring

T = TypeVar("T")
D = TypeVar("D")

Member = tuple[Callable[[Context], Awaitable[T]], Context]
"""Begins a call, and its context, in which a stopwatch of its own will measure it."""

End = Callable[[Sequence["asyncio.Future[Any]"]], Awaitable[None]]
"""Cancels tasks, and waits until they have ended or their grace is over."""


class FanOut(Generic[T]):
    """Calls that run at the same time; an error of one of them ends all."""

    __slots__ = ("_end", "_enough", "_error", "_members", "_open", "_over", "_slots", "_tasks", "_watch", "_why")

    def __init__(
        self,
        members: Sequence[Member[T]],
        end: End,
        ctx: Context,
        *,
        slots: Any = None,
        enough: Callable[[T | Suspend], str] | None = None,
    ) -> None:
        self._tasks: list[asyncio.Task[T | Suspend] | None] = [None] * len(members)
        self._members = members
        self._end = end
        self._watch = ctx.watch or Stopwatch(ctx.clock)
        self._slots = slots
        self._enough = enough
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._open: dict[asyncio.Task[T | Suspend], Slot | None] = {}
        self._why = ""
        self._error: BaseException | None = None

    async def run(self) -> str:
        """Run the calls, and return why those that had not ended were cancelled; empty if all have ended."""
        try:
            for number, member in enumerate(self._members):
                self._tasks[number] = self._start(member)
            # Without members nothing would ever complete the future.
            if self._open:
                await self._over
            if self._error is not None:
                raise self._error
        # Also if the caller is cancelled: its calls are ended before it ends.
        except BaseException:
            await self._end_all()
            raise
        if self._why:
            await self._end_all()
        return self._why

    def outcomes(self, none: D) -> list[T | Suspend | D]:
        """Return the outcome of each call so far, in order; `none` for one that was cancelled or has not ended."""
        return [none if task is None or not task.done() or task.cancelled() else task.result() for task in self._tasks]

    def add(self, member: Member[T]) -> None:
        """Run one more call; called by a call that has not ended, such as for what follows from it."""
        # A call that was cancelled may still come here before it ends: nothing is started any more.
        self._tasks.append(None if self._over.done() else self._start(member))

    def _start(self, member: Member[T]) -> "asyncio.Task[T | Suspend]":
        watch = self._watch.begin_branch()  # from now on: a call that waits for a slot does not wait for a person
        # Left until it is taken: a call that is cancelled in the queue has none to give back.
        slot = None if self._slots is None else Slot(self._slots, left=True)
        task = asyncio.get_running_loop().create_task(_run(member, watch, slot))
        self._open[task] = slot
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[T | Suspend]") -> None:
        # Judged at once, in the callback: a second outcome of the same turn must not overrule the first.
        if not self._over.done():
            self._judge(task)
        if not self._over.done():  # else the calls around go on, and those that wait for a slot never begin
            self._close(task)
            if not self._open:
                ring(self._over)

    def _judge(self, task: "asyncio.Task[T | Suspend]") -> None:
        if task.cancelled():  # one that cancelled itself has no outcome
            return
        try:
            self._error = task.exception()
            if self._error is None and self._enough is not None:
                self._why = self._enough(task.result())
        except Exception as error:  # noqa: BLE001 - raised by `run`
            self._error = error
        if self._why or self._error is not None:
            ring(self._over)

    def _close(self, task: "asyncio.Task[T | Suspend]") -> None:
        slot = self._open.pop(task)
        self._watch.end_branch()
        if slot is not None:
            slot.end()

    async def _end_all(self) -> None:
        """Cancel the calls that still run, and wait for them; those that do not stop are left alone."""
        self._over.cancel()  # if it is not over yet; from now on nothing is judged and nothing is added
        # Calls that ignore their cancellation longer than `_end` waits give their slots back when they end.
        try:
            await self._end([task for task in self._tasks if task is not None])
        finally:
            for task in [*self._open]:
                if task.done():
                    self._close(task)
                else:
                    task.add_done_callback(self._close)


async def _run(member: Member[T], watch: Stopwatch, slot: Slot | None) -> T | Suspend:
    try:
        if slot is not None:
            if not slot.slots.take(slot):
                await slot.slots.wait(slot)
            slot.left = False
            watch.slots = (slot,)
            # Never set back: the task has a context of its own, which ends with it.
            HELD.set((*held(), slot))
        begin, ctx = member
        return await in_task(lambda: begin(ctx.timed(watch)))
    except Suspend as suspend:
        return suspend  # as a value: the others go on, and all that wait are raised together at the end
