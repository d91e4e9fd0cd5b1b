"""Work that is done already, completing work despite cancellation, and waking a waiting future from any thread."""

import asyncio
from collections.abc import Awaitable, Generator
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


class _Done(Awaitable[None]):
    def __await__(self) -> Generator[None, None, None]:
        return
        yield


DONE: Awaitable[None] = _Done()
"""An awaitable that has ended already; one for all, as most entries in memory need no wait."""


async def finished(work: Awaitable[T]) -> T:
    """Await `work` to its end, however often the task is cancelled; the cancellation is raised afterwards."""
    # For work that must not stop half-way, such as taking or releasing a lease, and that ends in bounded time.
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # retrieve it, so that asyncio does not log it
        raise cancelled
    return task.result()


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop that runs in this thread, None if there is none."""
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
