"""Guarded calls: the only place where a tool's code runs, as it was approved, its errors and cancellation contained.

Whatever the code raises, including SystemExit and a CancelledError of its own, becomes an error of this call; our own
cancellation and `Suspend` pass through. A tool that ignores cancellation is abandoned after a grace, and counted.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from ziggurat.core import errors
from ziggurat.core.clock import Stopwatch
from ziggurat.core.context import AMBIENT, Context, Key
from ziggurat.core.event import warn_once
from ziggurat.core.log import logger
from ziggurat.core.path import is_beneath
from ziggurat.core.tasks import isolated, ring
from ziggurat.messages.events import ToolAbandoned
from ziggurat.messages.message import ToolCall, ToolResult
from ziggurat.messages.model import Effect
from ziggurat.tools import results, threads

if TYPE_CHECKING:
    from ziggurat.core.fan_out import FanOut, Member

T = TypeVar("T")

GRACE = 1.0  # seconds that a cancelled tool has to clean up before it is abandoned

CANCELLED_ITSELF = "the tool cancelled the task it ran in"


class Frozen(Struct):
    """The approved call, and how often it has been run; if it acts once only, how it failed too."""

    call: ToolCall
    effect: Effect
    path: str
    runs: int = 0
    failure: BaseException | None = None
    unknown: errors.NotRepeatable | None = None
    returned: ToolResult | None = None  # before the process was lost; the function is not run then

    def use(self, call: ToolCall, ctx: Context) -> None:
        """Check that a call is the approved one, at its path, and not a second run of a tool with ``effect="once"``."""
        name, approved = call.name, self.call
        if call is not approved and (name != approved.name or call.arguments != approved.arguments):
            raise errors.ToolError(
                f"{name} was called with other arguments than those that were approved; it was not run"
            )
        if ctx.path != self.path and not is_beneath(ctx.path, self.path):
            raise errors.ToolError(f"{name} was approved at {self.path}, not at {ctx.path}; it was not run")
        if self.effect != "once":
            self.runs += 1
        elif self.runs:
            raise self.unknown or second_run_error(name, self.failure)

    def begin(self) -> None:
        """Count a run of a tool with ``effect="once"`` that begins: others may have been asked for at the same time."""
        if self.runs:
            raise self.unknown or second_run_error(self.call.name, self.failure)
        self.runs += 1


TOOL_DELTAS: Key[Callable[[str, Context], Awaitable[str]]] = Key("tool deltas")  # changes each piece that a tool yields

APPROVED_CALL: Key[Frozen | None] = Key("approved call")


def frozen_in(ctx: Context) -> Frozen | None:
    """Return the approved call of this context, the only one the function may run; None if there is none."""
    return ctx.frozen if isinstance(ctx.frozen, Frozen) else None


def second_run_error(name: str, failure: BaseException | None) -> errors.NotRepeatable:
    """Return the error of a call that acts once only and has been run, with how that failed, if it did."""
    text = f"{name} acts once only and has been run; it was not run again"
    if failure is not None:
        text = f"{results.text_of_error(failure)} ({text})"
    return errors.NotRepeatable(text, kind="permanent")


class _AbandonedCalls:
    """Counts the calls that were abandoned in this process because they did not stop."""

    def __init__(self) -> None:
        self.count: int = 0
        self._running: set[asyncio.Future[object]] = set()

    def add(self, work: "asyncio.Future[object]", name: str) -> None:
        """Count an abandoned call, and keep a reference to it until it ends."""
        # The task is removed from the tasks of its event loop, since `asyncio.run` waits for all of these. With one
        # tool that ignores every cancellation, a process ends 1.5 s after its call began (timeout 0.5 s, grace 1 s),
        # and was still there after 20 s without this, on Python 3.11 and 3.13.
        self.count += 1
        self._running.add(work)
        work.add_done_callback(self._ended)
        if isinstance(work, asyncio.Task):
            work.set_name(name)
            asyncio._unregister_task(work)  # Python documents it, under "Extending asyncio"

    def _ended(self, work: "asyncio.Future[object]") -> None:
        self._running.discard(work)
        if not work.cancelled():
            work.exception()

    @property
    def running(self) -> int:
        return len(self._running)

    def tasks(self, loop: asyncio.AbstractEventLoop) -> "set[asyncio.Task[object]]":
        return {each for each in self._running if isinstance(each, asyncio.Task) and each.get_loop() is loop}


ABANDONED_CALLS = _AbandonedCalls()


_BLOCKING = 0.5  # seconds that an async tool may take without a wait before it is warned of


async def run_guarded(
    function: Callable[..., Awaitable[object]], arguments: dict[str, object], ctx: Context, call: ToolCall
) -> ToolResult:
    """Await a user's function in the current task; SystemExit and similar become a ToolError."""

    async def work() -> object:
        AMBIENT.set(ctx)
        return await function(**arguments)

    def on_blocked() -> None:
        warn_once(
            f"the tool {call.name!r} blocks the event loop, and all runs in it, for over {_BLOCKING} seconds: "
            "await what takes long, or make it a plain def, which runs in a thread"
        )

    try:
        value = await isolated(work(), ctx.clock.monotonic, _BLOCKING, on_blocked)
    except BaseException as error:
        if (readable := results.presentable(error)) is not error:
            raise readable from None
        if isinstance(error, (Exception, errors.Suspend)) or _is_ours(error):
            raise
        if isinstance(error, BaseExceptionGroup) and (waiting := pending_in(error)):
            raise errors.Suspend(waiting) from error
        raise results.ended_by(error) from error
    return results.result_of(value, call)


def pending_in(group: BaseExceptionGroup[BaseException]) -> tuple[object, ...]:
    """Return the pending items of agents that a tool ran concurrently in a task group."""
    pending: list[object] = []
    for error in group.exceptions:
        if isinstance(error, errors.Suspend):
            pending.extend(item for item in error.pending if item not in pending)  # each holds those of the others too
        elif isinstance(error, BaseExceptionGroup):
            pending.extend(item for item in pending_in(error) if item not in pending)
    return tuple(pending)


def _is_ours(error: BaseException) -> bool:
    """Return whether an error is our cancellation or a coroutine being closed, not raised by the function itself."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    if isinstance(error, asyncio.CancelledError):
        return task is not None and task.cancelling() > 0
    return isinstance(error, GeneratorExit) and task is None


async def run_in_thread(
    function: Callable[..., object], arguments: dict[str, object], ctx: Context, call: ToolCall
) -> ToolResult:
    """Run a user's sync function in a thread; if it returns an awaitable, await that here."""
    thread = threads.ThreadCall()
    future = threads.POOL.submit(lambda: function(**arguments), thread, ctx)
    try:
        value = await asyncio.shield(future)
    except asyncio.CancelledError:
        if not future.done():
            threads.POOL.write_off(thread)
            future.add_done_callback(asyncio.Future.exception)  # retrieved, so that asyncio does not log it
        if (waited_for := thread.give_up()) is not None:
            await end_tasks([waited_for], ctx, name=call.name)
        raise
    except threads.ThreadRaised as raised:
        if isinstance(raised.error, errors.Suspend):
            raise raised.error from None
        raise results.ended_by(raised.error) from raised.error
    if hasattr(type(value), "__await__"):  # looked up on the type: a value's own attributes may run its code
        awaited: Any = value
        return await run_guarded(lambda: awaited, {}, ctx, call)
    return results.result_of(value, call)


async def run_bounded(work: Awaitable[T], ctx: Context, *, name: str, seconds: float | None) -> T:
    """Await `work` in a task of its own, so that control returns even if it ignores cancellation."""
    watch = ctx.watch or Stopwatch(ctx.clock)
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    if sys.version_info >= (3, 12):  # it begins before this returns
        task = asyncio.eager_task_factory(loop, _ringing(work, ended))
    else:
        task = loop.create_task(_ringing(work, ended))
    try:
        if sys.version_info < (3, 12):
            await asyncio.sleep(0)  # the turn of the event loop in which it begins, and ends if it never waits
        if not task.done():
            await _wait_until_done(ended, watch, seconds)
    except asyncio.CancelledError:
        await end_tasks([task], ctx, name=name)
        raise
    if not task.done():
        await end_tasks([task], ctx, name=name)
        if task.done() and not task.cancelled() and isinstance(task.exception(), errors.Suspend):
            task.result()
        raise errors.Timeout(f"the tool {name} timed out after {seconds:g} s", seconds=seconds)
    if (deadline := watch.deadline) is not None and watch.clock.monotonic() >= deadline:
        await asyncio.sleep(0)  # otherwise a run that never waits would never notice its deadline
    if task.cancelled():  # not by us, so by itself
        raise errors.ToolError(CANCELLED_ITSELF) from asyncio.CancelledError()
    return task.result()


async def _ringing(work: Awaitable[T], ended: "asyncio.Future[None]") -> T:
    """Await `work` and say that it has ended; a callback of its task would say so a turn of the event loop later."""
    try:
        return await work
    finally:
        if not ended.done():
            ended.set_result(None)


async def _wait_until_done(ended: "asyncio.Future[None]", watch: Stopwatch, seconds: float | None) -> None:
    alarm = None if seconds is None else watch.after(seconds - watch.elapsed, lambda: ring(ended))
    try:
        await ended
    finally:
        if alarm is not None:
            alarm.cancel()


def fan_out(
    members: "Sequence[Member[T]]",
    ctx: Context,
    *,
    name: str,
    limit: int | None = None,
    enough: Callable[[T | errors.Suspend], str] | None = None,
    grace: float = GRACE,
) -> "FanOut[T]":
    """Prepare calls that run at the same time, at most `limit` of them; one that does not stop is abandoned."""
    from ziggurat.core.fan_out import FanOut  # many runs make one call at a time

    slots = None
    if limit is not None:
        from ziggurat.layers.concurrency_limit import Bulkhead  # most have no limit

        slots = Bulkhead(limit, queue=len(members))
    return FanOut(members, partial(end_tasks, ctx=ctx, name=name, grace=grace), ctx, slots=slots, enough=enough)


async def end_tasks(tasks: "list[asyncio.Future[T]]", ctx: Context, *, name: str, grace: float = GRACE) -> None:
    """Cancel tasks and wait up to `grace` seconds; those that still run are abandoned, counted and reported."""
    waiting = [task for task in tasks if not task.done()]
    for task in waiting:
        task.cancel()
    grace_over: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    timer = ctx.clock.call_at(ctx.clock.monotonic() + grace, lambda: ring(grace_over))
    cancelled: asyncio.CancelledError | None = None
    try:
        while waiting and not grace_over.done():
            try:
                await asyncio.wait([*waiting, grace_over], return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError as error:  # cancelled again while waiting: the grace still applies
                cancelled = error
            waiting = [task for task in waiting if not task.done()]
    finally:
        timer.cancel()
        grace_over.cancel()
    for task in tasks:
        if task.done() and not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not log it as lost
    for task in waiting:
        ABANDONED_CALLS.add(task, f"{name} at {ctx.path}")  # type: ignore[arg-type]
        logger.warning("%s at %s did not stop within %g s and was abandoned", name, ctx.path, grace)
        if ctx.listens(ToolAbandoned):
            await ctx.emit(ToolAbandoned(ctx.path, name, ABANDONED_CALLS.count))
    if cancelled is not None:
        raise cancelled
