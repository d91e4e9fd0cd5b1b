"""A check that code leaves no tasks, threads or files behind."""

import asyncio
import gc
import os
import sys
import threading
from types import TracebackType

from ziggurat.testing.clock import run_until_idle
from ziggurat.tools.guarded_call import ABANDONED_CALLS

POOLS = ("asyncio_", "ziggurat")
"""Prefixes of the names of threads that are kept running on purpose."""


class assert_no_leaks:  # noqa: N801 - reads like a function
    """Assert that no task, thread, open file or socket outlives the block.

    ::

        async with assert_no_leaks():
            await agent.run("...")

        with assert_no_leaks():
            agent.run_sync("...")

    The asynchronous form first lets tasks finish that are just ending. Threads of pools that are kept on purpose do not
    count; files and sockets are checked only on Linux, in ``/proc``.

    Raises:
        AssertionError: something was left; the message names each item and its position in the code. An error raised in
            the block is not masked.
    """

    def __enter__(self) -> None:
        self._tasks = _tasks()
        self._threads = set(threading.enumerate())
        self._files = _files()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            return
        if self._leaks():
            gc.collect()  # objects kept alive only by a reference cycle do not count
        left = self._leaks()
        assert not left, "left behind:\n" + "\n".join(f"- {each}" for each in left)

    async def __aenter__(self) -> None:
        await run_until_idle()
        self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await run_until_idle()
        self.__exit__(kind, error, trace)

    def _leaks(self) -> list[str]:
        tasks = [f"task {_where(task)}" for task in _tasks() - self._tasks]
        threads = [
            f"thread {thread.name!r}"
            for thread in threading.enumerate()
            if thread not in self._threads and not thread.name.startswith(POOLS)
        ]
        files = [
            f"file descriptor {number}: {target}"
            for number, target in _files().items()
            if self._files.get(number) != target
        ]
        return sorted(tasks) + sorted(threads) + files


def _tasks() -> set["asyncio.Task[object]"]:
    try:
        return asyncio.all_tasks() | ABANDONED_CALLS.tasks(asyncio.get_running_loop())
    except RuntimeError:  # no event loop is running
        return set()


def _where(task: "asyncio.Task[object]") -> str:
    coroutine = task.get_coro()
    name = getattr(coroutine, "__qualname__", repr(coroutine))
    stack = task.get_stack(limit=1)
    place = f", at {stack[0].f_code.co_filename}:{stack[0].f_lineno}" if stack else ""
    return f"{task.get_name()!r} ({name}{place})"


def _files() -> dict[int, str]:
    if not sys.platform.startswith("linux"):
        return {}
    files: dict[int, str] = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            files[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:  # closed meanwhile, as the descriptor of the listing itself
            continue
    return {number: target for number, target in files.items() if not target.startswith("/dev/")}
