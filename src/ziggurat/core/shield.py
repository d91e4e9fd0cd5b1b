"""What is begun is seen through, also by who is told to stop meanwhile; and who waits is told, in whichever thread."""

__all__ = ["finished", "ring"]

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


async def finished(work: Awaitable[T]) -> T:
    """Await `work` to its end, however often one is told to stop; that is heard when it has ended.

    For what must not be left half-done, such as taking or giving back a lease, and ends by itself in bounded time.

    Raises:
        CancelledError: one was told to stop; what became of the work is not said.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # seen, so that nobody is told that it was not
        raise cancelled
    return task.result()


def ring(waiting: "asyncio.Future[None]") -> None:
    """Let who waits for a future go on, also in the event loop of another thread; harmless when that has ended."""
    loop = waiting.get_loop()
    if loop is asyncio._get_running_loop():
        _ring(waiting)
    else:
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_ring, waiting)


def _ring(waiting: "asyncio.Future[None]") -> None:
    if not waiting.done():
        waiting.set_result(None)
