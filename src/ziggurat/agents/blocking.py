"""Run a coroutine from code that is not async: a plain thread, a tool's thread, or a notebook."""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from threading import Event, Thread
from typing import Any, Generic, TypeVar

from ziggurat.calls.agent_call import AGENT_CALL
from ziggurat.core.context import AMBIENT
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.log import logger
from ziggurat.core.tasks import running_loop
from ziggurat.tools.threads import POOL, loop_of_this_thread

T = TypeVar("T")

_IN_A_LOOP = (
    "run_sync() blocks the event loop of this thread until the run has ended; in async code and in notebooks write "
    "run = await agent.run(...)"
)

_LOOKS_UP = 0.5
"""Seconds between checks for an interrupt; Python misses one that arrives just as a thread begins to wait."""


def blocking(start: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run the coroutine that `start` makes and return its value."""
    loop = loop_elsewhere()
    if loop is not None:
        return POOL.run_on(loop, start)
    if running_loop() is None:
        return asyncio.run(start())
    if AMBIENT.get() is not None:
        raise ConfigurationError("run_sync() would block the run it is in: in async code, await run() instead")
    logger.warning(_IN_A_LOOP)
    return _ThreadedCoroutine(start).run()


def loop_elsewhere() -> asyncio.AbstractEventLoop | None:
    """Return the event loop of the run this code belongs to if that loop runs in another thread, otherwise None."""
    loop, ambient = loop_of_this_thread(), AMBIENT.get()
    if loop is None and ambient is not None and (frame := ambient.scope.get(AGENT_CALL)) is not None:
        loop = frame.loop
    if loop is None or loop.is_closed() or loop is running_loop():
        return None
    return loop


class _ThreadedCoroutine(Generic[T]):
    """A coroutine on its own event loop in another thread; an interrupt here cancels it there."""

    def __init__(self, start: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._start = start
        self._outcome: list[T] = []
        self._failed: BaseException | None = None
        self._given_up = False
        self._ended = Event()
        self._task: asyncio.Task[T] | None = None

    def run(self) -> T:
        thread = Thread(target=contextvars.copy_context().run, args=(self._work,), name="ziggurat-run-sync")
        try:
            thread.start()
            self._wait()
        except BaseException:  # such as KeyboardInterrupt: the caller no longer waits
            self._given_up = True
            if self._task is not None and not self._ended.is_set():
                self._task.get_loop().call_soon_threadsafe(self._task.cancel)
                self._wait()
            raise
        if self._failed is not None:
            raise self._failed
        return self._outcome[0]

    def _wait(self) -> None:
        while not self._ended.wait(_LOOKS_UP):  # not `thread.join`: after an interrupt it treats the thread as ended
            pass

    def _work(self) -> None:
        try:
            self._outcome.append(asyncio.run(self._main()))
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that asked
            self._failed = error
        finally:
            self._ended.set()

    async def _main(self) -> T:
        self._task = asyncio.current_task()
        if self._given_up:
            raise asyncio.CancelledError
        return await self._start()
