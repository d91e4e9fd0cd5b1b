"""Jobs for the writer thread of a store."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Job(Generic[T]):
    """One job for the thread, and the future for its outcome."""

    __slots__ = ("error", "future", "log", "loop", "result", "small", "work")

    def __init__(self, work: Callable[[], T], log: str, small: bool = False) -> None:
        self.work: Callable[[], T] = work
        self.log: str = log
        self.small: bool = small
        self.loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self.future: asyncio.Future[T] = self.loop.create_future()
        self.result: T | None = None
        self.error: BaseException | None = None

    def do(self) -> None:
        """Run it, and store the outcome."""
        try:
            self.result = self.work()
        except Exception as error:  # noqa: BLE001 - raised where the future is awaited
            self.error = error

    def deliver(self) -> None:
        """Pass the outcome to the future; called in the event loop."""
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)  # type: ignore[arg-type]


def one_by_one(jobs: Sequence[Job[Any]]) -> None:
    """Run jobs that need no common transaction."""
    for job in jobs:
        job.do()
