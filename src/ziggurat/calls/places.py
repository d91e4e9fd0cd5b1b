"""Places: the calls of a function are numbered below it in the order in which it makes them, as the record needs it."""

import asyncio

from ziggurat.core.context import Context, running
from ziggurat.core.errors import ConfigurationError, Suspend


class Places:
    """The task whose calls get numbered places below one context, and how many steps it has called there."""

    __slots__ = ("left", "steps", "task")

    def __init__(self) -> None:
        self.task = asyncio.current_task()
        self.steps = 0
        self.left: BaseException | None = None


def program_at(ctx: Context) -> running:
    """Return a block for code whose calls take their places below a context; only the current task may call steps."""
    ctx.state(Places, Places)
    return running(ctx)


def counted_steps(ctx: Context) -> int:
    """Return how many steps were called below a context so far."""
    return ctx.state(Places, Places).steps


def place_of(ctx: Context, name: str) -> Context:
    """Return the context of the next call of `name` below the function that is running: ``name``, ``name#2`` ..."""
    places = ctx.state(Places, Places)
    if places.task is not asyncio.current_task():
        raise ConfigurationError(
            f"{name} is awaited at {ctx.path} in a task of its own, so its place in the record would depend on timing: "
            "start concurrent work with gather() of ziggurat.flows, and limit its time with a timeout layer"
        )
    if places.left is not None:
        _refuse_after(places.left, name, ctx)
    places.steps += 1
    return ctx.under(name)


def note_left(ctx: Context | None, error: BaseException) -> None:
    """Note that a call below a context waits or was cancelled: its function must not make another one."""
    if ctx is not None and isinstance(error, (Suspend, asyncio.CancelledError)):
        ctx.state(Places, Places).left = error


def check_left(ctx: Context) -> None:
    """Raise what ends the function at a context, such as a Suspend, and what it has caught or dropped."""
    left = ctx.state(Places, Places).left
    if left is not None and not isinstance(left, asyncio.CancelledError):
        raise left


def _refuse_after(left: BaseException, name: str, ctx: Context) -> None:
    """Raise if a function goes on that waits or ends, or with what is not on record: that a call was cancelled."""
    if not isinstance(left, asyncio.CancelledError):
        raise left
    task = asyncio.current_task()
    if task is not None and not task.cancelling():  # else the run itself is cancelled, and this cleans up
        raise ConfigurationError(
            f"{name} at {ctx.path} comes after a call that was cancelled, which is not on record, so it would be made "
            "again when the run is resumed: limit the time of a call with a timeout layer, not with asyncio.timeout or "
            "wait_for"
        )


def place_at(ctx: Context, name: str) -> Context:
    """Return the context of a call below a program that numbers its calls itself, so that any task may make them."""
    ctx.state(Places, Places).steps += 1
    return ctx.at(name)
