"""The writer thread of a store: jobs that arrive while it writes form the next batch.

A store that is no longer used ends its thread and closes its files, whether or not it was closed; its user is warned.
"""

import asyncio
import atexit
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import wraps
from inspect import currentframe
from queue import Empty, SimpleQueue
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar
from weakref import WeakKeyDictionary, WeakSet, finalize, ref

from msgspec import Struct

from ziggurat.core.errors import StoreError
from ziggurat.core.log import logger
from ziggurat.core.tasks import finished, running_loop

T = TypeVar("T")
P = ParamSpec("P")
S = TypeVar("S")


class Job(Struct, Generic[T], eq=False):
    work: Callable[[], T]
    log: str
    future: "asyncio.Future[T]"
    result: T | None = None
    error: BaseException | None = None

    def do(self) -> None:
        try:
            self.result = self.work()
        except Exception as error:  # noqa: BLE001 - raised where the future is awaited
            self.error = error


def one_by_one(jobs: Sequence[Job[Any]]) -> None:
    for job in jobs:
        job.do()


_Batch = tuple["Writer", "list[Job[Any]]"] | None
"""What is passed to the thread: jobs, with the writer, which must live until they are done; None to end it."""

_Place = tuple[str, int]  # a file and a line of code

_PATIENCE = 10.0  # seconds that the end of the process waits for a store that was not closed

_under_way: dict[asyncio.AbstractEventLoop, int] = {}  # jobs that are not reported; accessed in that loop only


def is_busy(loop: asyncio.AbstractEventLoop) -> bool:
    """Return whether an event loop has jobs in a store's thread that will wake it."""
    return loop in _under_way


def _count(loop: asyncio.AbstractEventLoop, change: int) -> None:
    left = _under_way.get(loop, 0) + change
    if left:
        _under_way[loop] = left
    else:
        _under_way.pop(loop, None)


_shared: ContextVar[bool] = ContextVar("ziggurat_shared_store", default=False)

_open: "WeakSet[Writer]" = WeakSet()  # the writers that have a thread


@contextmanager
def closed_when_unused() -> Iterator[None]:
    """Open stores that nobody has to close: they close when they are no longer used, or when the process ends."""
    # For stores that are opened by their address and may be shared, so that no single user could close them.
    token = _shared.set(True)
    try:
        yield
    finally:
        _shared.reset(token)


class Writer:
    def __init__(
        self,
        name: str,
        together: Callable[[Sequence[Job[Any]]], object],
        idle: Callable[[], None],
        pause: float,
        ended: Callable[[], None],
    ) -> None:
        self.name = name
        self._together = together
        self._idle = idle
        self._pause = pause
        self._ended = ended
        self._jobs: SimpleQueue[_Batch] = SimpleQueue()
        self._turns: dict[asyncio.AbstractEventLoop, list[Job[Any]]] = {}  # submitted in one turn of an event loop
        self._thread: threading.Thread | None = None
        self._collected: finalize[..., Writer] | None = None
        self._lock = threading.Lock()
        self.closed: bool = False  # whether it accepts no more jobs
        self._over = False
        self._pid = os.getpid()
        self._opened = None if _shared.get() else _caller()

    def submit(self, work: Callable[[], T], log: str = "") -> "asyncio.Future[T]":
        """Run a function in the thread; return a future for its result. One that writes a log names it."""
        if self._thread is None:
            self._begin()
        if self.closed or self._pid != os.getpid():
            raise self._refusal()
        loop = asyncio.get_running_loop()
        job = Job(work, log, loop.create_future())
        turn = self._turns.get(loop)
        if turn is None:
            turn = self._turns[loop] = []
            loop.call_soon(self._hand_over, loop)
        turn.append(job)
        _count(loop, 1)
        return job.future

    def _refusal(self) -> StoreError:
        why = "is closed" if self.closed else "belongs to the process before the fork"
        return StoreError(f"the store {self.name} {why}; connect to it again")

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        jobs = self._turns.pop(loop, None)
        if jobs:
            self._jobs.put((self, jobs))
            if self._over:  # the thread ended meanwhile
                self._refuse_rest()

    def _begin(self) -> None:
        with self._lock:
            if self._thread is None and not self.closed:
                arguments = (ref(self), self._jobs, self._pause, self._ended)
                thread = threading.Thread(target=_work, args=arguments, name=self.name, daemon=True)
                thread.start()
                self._thread = thread
                _open.add(self)
                self._collected = finalize(self, _end_unclosed, self.name, self._jobs, self._pid, self._opened)
                self._collected.atexit = False

    def _turn(self, batches: "list[_Batch]") -> bool:
        """Run the jobs that the thread received, then `idle`; return whether the writer was closed."""
        self._do([job for batch in batches if batch is not None for job in batch[1]])
        if None in batches:
            self._ended()
            self._over = True
            self._refuse_rest()
            return True
        try:
            self._idle()
        except Exception as error:  # noqa: BLE001 - it is retried, and the next job meets the error itself
            logger.warning("%s: %s", self.name, error)
        return False

    def _do(self, jobs: list[Job[Any]]) -> None:
        start = 0
        while start < len(jobs):
            end = start + 1
            if jobs[start].log:
                while end < len(jobs) and jobs[end].log:
                    end += 1
                self._together(jobs[start:end])
            else:
                jobs[start].do()
            self._tell(jobs[start:end])
            start = end

    def _refuse_rest(self) -> None:
        with suppress(Empty):
            while True:
                batch = self._jobs.get_nowait()
                jobs = [] if batch is None else batch[1]
                for job in jobs:
                    job.error = self._refusal()
                self._tell(jobs)

    @staticmethod
    def _tell(jobs: list[Job[Any]]) -> None:
        by_loop: dict[asyncio.AbstractEventLoop, list[Job[Any]]] = {}
        for job in jobs:
            by_loop.setdefault(job.future.get_loop(), []).append(job)
        for loop, batch in by_loop.items():
            try:
                loop.call_soon_threadsafe(_deliver, batch)
            except RuntimeError:  # that event loop is closed, so no one waits there
                _under_way.pop(loop, None)

    async def finish(self) -> None:
        """Run the remaining jobs and end the thread; jobs submitted later or concurrently are refused."""
        thread = self._stop()
        if thread is not None:
            loop = asyncio.get_running_loop()
            _count(loop, 1)
            try:
                await finished(asyncio.to_thread(thread.join))
            finally:
                _count(loop, -1)

    def _stop(self) -> threading.Thread | None:
        """Refuse further jobs; return the thread to wait for, if there is one: it runs the remaining jobs first."""
        with self._lock:
            thread, was = self._thread, self.closed
            self.closed = True
            if self._collected is not None:
                self._collected.detach()
        _open.discard(self)
        if thread is not None and not was and self._pid == os.getpid():
            here = running_loop()
            for loop in list(self._turns):
                if loop is here or not loop.is_running():  # other running loops pass on their own jobs
                    self._hand_over(loop)
            self._jobs.put(None)
            return thread
        return None

    def _close_at_exit(self) -> None:
        if self._pid == os.getpid():
            thread = self._stop()
            if thread is not None:
                thread.join(_PATIENCE)
            _warn_unclosed(self.name, self._opened)


def _deliver(jobs: list[Job[Any]]) -> None:
    _count(jobs[0].future.get_loop(), -len(jobs))
    for job in jobs:
        if job.future.done():
            continue
        if job.error is not None:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.result)


def _work(writer: "ref[Writer]", queue: "SimpleQueue[_Batch]", pause: float, ended: Callable[[], None]) -> None:
    """Run a writer's jobs; between them the thread holds no reference to it, so that an unused one is collected."""
    while True:
        batches: list[_Batch] = []
        try:
            batches.append(queue.get(timeout=pause))
            while True:
                batches.append(queue.get_nowait())
        except Empty:
            pass
        here = writer()
        if here is None:
            ended()
            return
        if here._turn(batches):
            return
        del here, batches


def _end_unclosed(name: str, queue: "SimpleQueue[_Batch]", pid: int, opened: _Place | None) -> None:
    """End the thread of a writer that was collected before it was closed; the thread may have noticed it first."""
    if pid == os.getpid():
        queue.put(None)
        _warn_unclosed(name, opened)


def _warn_unclosed(name: str, opened: _Place | None) -> None:
    if opened is not None:
        file, line = opened
        text = f"unclosed store {name!r}, opened at {file}:{line}; call `await store.close()` when it is no longer used"
        warnings.warn_explicit(text, ResourceWarning, file, line)


def _caller() -> _Place:
    frame = currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "ziggurat":
        frame = frame.f_back
    return ("<unknown>", 1) if frame is None else (frame.f_code.co_filename, frame.f_lineno)


@atexit.register
def _close_all() -> None:
    for writer in list(_open):
        writer._close_at_exit()


# -- stores in a forked process, such as a worker of gunicorn, Celery or multiprocessing -----------------------------

_stores: "WeakKeyDictionary[Any, Callable[[Any], None]]" = WeakKeyDictionary()
_abandoned: list[dict[str, Any]] = []


def reopened_after_fork(init: Callable[Concatenate[S, P], None]) -> Callable[Concatenate[S, P], None]:
    """Make a store open its own connection in a forked process: decorate its `__init__`, which runs there again."""

    @wraps(init)
    def opened(store: S, /, *args: P.args, **options: P.kwargs) -> None:
        init(store, *args, **options)
        _stores[store] = lambda again: init(again, *args, **options)

    return opened


def _reopen() -> None:
    for store, init in list(_stores.items()):
        # Connections and locks of the parent are kept and never closed: closing them here would end them there, too.
        _abandoned.append(vars(store).copy())
        with closed_when_unused():
            init(store)


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_reopen)
