"""Run a coroutine from code that is not async: a plain thread, a tool's thread, or a notebook."""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from threading import Thread
from typing import Any, TypeVar

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
    loop = loop_elsewhere()
    if loop is not None:
        return POOL.run_on(loop, start)
    if running_loop() is None:
        return asyncio.run(start())
    if AMBIENT.get() is not None:
        raise ConfigurationError("run_sync() would block the run it is in: in async code, await run() instead")
    logger.warning(_IN_A_LOOP)
    return _run_in_thread(start)


def loop_elsewhere() -> asyncio.AbstractEventLoop | None:
    """Return the event loop of the run this code belongs to if that loop runs in another thread, otherwise None."""
    loop, ambient = loop_of_this_thread(), AMBIENT.get()
    if loop is None and ambient is not None and (frame := ambient.scope.get(AGENT_CALL)) is not None:
        loop = frame.loop
    if loop is None or loop.is_closed() or loop is running_loop():
        return None
    return loop


def _run_in_thread(start: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine on its own event loop in another thread; an interrupt here cancels it there."""
    outcome: Future[T] = Future()
    task: asyncio.Task[T] | None = None
    given_up = False

    async def main() -> T:
        nonlocal task
        task = asyncio.current_task()
        if given_up:
            raise asyncio.CancelledError
        return await start()

    def work() -> None:
        try:
            outcome.set_result(asyncio.run(main()))
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that asked
            outcome.set_exception(error)

    try:
        Thread(target=contextvars.copy_context().run, args=(work,), name="ziggurat-run-sync").start()
        _wait_for(outcome)
    except BaseException:  # such as KeyboardInterrupt: the caller no longer waits
        given_up = True
        if task is not None and not outcome.done():
            task.get_loop().call_soon_threadsafe(task.cancel)
            _wait_for(outcome)
        raise
    return outcome.result()


def _wait_for(outcome: "Future[Any]") -> None:
    while not wait([outcome], _LOOKS_UP).done:  # not `thread.join`: after an interrupt it treats the thread as ended
        pass
