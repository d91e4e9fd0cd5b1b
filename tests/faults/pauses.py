"""Processes that are stopped (SIGSTOP) in the middle of a write, at every operation, and go on after a takeover."""

import asyncio
import contextlib
import os
import random
import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from tests.faults.watched import WatchedDisk
from tests.faults.world import QUICK
from ziggurat.core import LogInfo, Row
from ziggurat.core.store import chained
from ziggurat.errors import JournalError, RunNotFound
from ziggurat.stores import FileStore
from ziggurat.testing import HandClock

LOG, OTHER = "run:r", "run:other"
TIMEOUT = 0.05
"""Seconds after which a lock is taken away."""

LIMIT = 5.0
"""Seconds in which everything that one process does must be over."""


class StoppingDisk(WatchedDisk):
    """Stops this process before the k-th operation, counted from 1; operations and their ends count alike."""

    def __init__(self, number: int) -> None:
        self._left = number

    def _count(self) -> None:
        self._left -= 1
        if self._left == 0:
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)

    @contextlib.contextmanager
    def around(self, what: str, *arguments: Any) -> Iterator[None]:
        """Count."""
        self._count()
        yield
        if not what.startswith("sync"):
            self._count()

    def write(self, at: int, data: bytes | memoryview) -> int:
        """Write in two pieces."""
        return super().write(at, data[: max(1, len(data) // 2)])


def _rows(known: Sequence[Row], writer: str, count: int) -> list[Row]:
    """Return the next rows of a log, which say who has written them."""
    made: list[Row] = []
    before, number = (known[-1].digest, known[-1].number) if known else ("", 0)
    for each in range(number + 1, number + count + 1):
        data = b'{"entry":"Test","number":%d,"writer":"%s"}' % (each, writer.encode())
        before = chained(before, data)
        made.append(Row(each, before, data))
    return made


class _Process:
    """A forked process that writes the log and tells which rows are acknowledged."""

    def __init__(self, folder: Path, name: str, stop: int, *, takes: bool) -> None:
        self._reads, writes = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            self._live(folder, name, stop, writes, takes=takes)
        os.close(writes)
        self.ended = False
        self.stopped = self._wait(os.WUNTRACED)

    def _live(self, folder: Path, name: str, stop: int, told: int, *, takes: bool) -> NoReturn:
        async def main() -> None:
            clock = HandClock(1.5e9 if takes else 1e9)  # the lease of each has expired for the next
            store = FileStore(folder, timeout=TIMEOUT, clock=clock, disk=StoppingDisk(stop))
            rows: list[Row] = []
            if takes:
                epoch = await store.lease(LOG)
                rows = await store.read(LOG)
            else:
                epoch, rows = 1, _rows([], name, 2)
                await store.create(LogInfo(LOG, "agent"), rows, {"first": b"large"})
                os.write(told, rows[-1].data + b"\n")
            for number in range(3):
                more = _rows(rows, name, 2)
                await store.append(LOG, epoch, more, {f"{name}{number}": b"large"}, release=number == 2)
                os.write(told, more[-1].data + b"\n")
                rows += more

        code = 1
        try:
            asyncio.run(main())
            code = 0
        except (JournalError, RunNotFound):
            code = 2
        finally:
            os._exit(code)

    def _wait(self, options: int) -> bool:
        """Wait until it has ended or, with the option, is stopped; return whether it is stopped."""
        until = time.monotonic() + LIMIT
        while time.monotonic() < until:
            pid, status = os.waitpid(self.pid, options | os.WNOHANG)
            if pid:
                self.ended = not os.WIFSTOPPED(status)
                self.code = os.waitstatus_to_exitcode(status) if self.ended else 0
                return not self.ended
            time.sleep(0.001)
        self.end()
        raise AssertionError(f"process {self.pid} is neither stopped nor over")

    def go_on(self) -> None:
        if not self.ended:
            os.kill(self.pid, signal.SIGCONT)
            self._wait(0)

    def end(self) -> None:
        if not self.ended:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.ended = True

    def acknowledged(self) -> list[bytes]:
        """Return the last rows of each write that was acknowledged."""
        os.set_blocking(self._reads, False)
        found = b""
        with contextlib.suppress(BlockingIOError):
            while more := os.read(self._reads, 65536):
                found += more
        self._found = getattr(self, "_found", b"") + found
        return self._found.splitlines()


@dataclass
class Pauses:
    """What was found when processes were stopped."""

    stops: int = 0
    lost: list[str] = field(default_factory=list)
    shut_out: list[str] = field(default_factory=list)
    longest: float = 0.0


def stopped_at(first: int, second: int | None, found: Pauses) -> bool:
    """Stop a writer before an operation, take its log over, let it go on, and look at what is left.

    The process that takes over first may be stopped too. Return whether the writer came to the operation.
    """
    where = f"stopped at {first}" + ("" if second is None else f", its successor at {second}")
    with tempfile.TemporaryDirectory(dir=QUICK) as name:
        folder = Path(name) / "runs"
        writers = [_Process(folder, "first", first, takes=False)]
        try:
            came = writers[0].stopped
            if came and second is not None:
                writers.append(_Process(folder, "second", second, takes=True))
            if came:
                found.stops += sum(writer.stopped for writer in writers)
                asyncio.run(_take_over(folder, writers, where, found))
        finally:
            for writer in writers:
                writer.end()
    return came


async def _take_over(folder: Path, writers: Sequence[_Process], where: str, found: Pauses) -> None:
    before = {line for writer in writers for line in writer.acknowledged()}
    store = FileStore(folder, timeout=TIMEOUT)
    began = time.monotonic()
    try:
        await asyncio.wait_for(store.create(LogInfo(OTHER, "agent"), _rows([], "other", 1)), LIMIT)
    except (JournalError, TimeoutError) as error:
        found.shut_out.append(f"{where}: another run: {error}")
    spent = time.monotonic() - began
    if spent > 20 * TIMEOUT:
        found.shut_out.append(f"{where}: another run waited for {spent:.2f} s")
    try:
        epoch = await asyncio.wait_for(store.lease(LOG), LIMIT)
    except RunNotFound:
        if before:
            found.lost.append(f"{where}: the run is gone")
    except (JournalError, TimeoutError) as error:
        found.shut_out.append(f"{where}: {error}")
    else:
        found.longest = max(found.longest, time.monotonic() - began)
        await _continue(store, epoch, before, writers, where, found)
    await store.close()


async def _continue(
    store: FileStore, epoch: int, before: set[bytes], writers: Sequence[_Process], where: str, found: Pauses
) -> None:
    """Write as the new owner, before and after the stopped writers go on."""
    rows = await store.read(LOG)
    found.lost += [f"{where}: {line!r} was lost" for line in before - {row.data for row in rows}]
    try:
        for _ in range(2):
            more = _rows(rows, "third", 2)
            await store.append(LOG, epoch, more)
            rows += more
        for writer in writers:
            await asyncio.to_thread(writer.go_on)
            late = set(writer.acknowledged()) - {row.data for row in rows}
            found.lost += [f"{where}: {line!r} was acknowledged to a writer that had lost its lease" for line in late]
            more = _rows(rows, "third", 2)
            await store.append(LOG, epoch, more)
            rows += more
    except JournalError as error:
        found.lost.append(f"{where}: the new owner was disturbed: {error}")
    if await store.read(LOG) != rows:
        found.lost.append(f"{where}: the log is not what was written")


def every_operation(found: Pauses, stride: int = 1) -> None:
    """Stop a writer before each of its operations."""
    first = 1
    while stopped_at(first, None, found):
        first += stride


def some_pairs(found: Pauses, count: int, seed: int) -> None:
    """Stop a writer and the process that takes over from it, at operations drawn by a seed."""
    draw = random.Random(seed)
    done = 0
    while done < count:
        done += stopped_at(draw.randrange(60, 250), draw.randrange(1, 150), found)
