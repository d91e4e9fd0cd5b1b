"""The cost of durability: overhead per step compared with a bare commit loop in one thread, throughput, resume.

A step is one model call and one tool call: three durable entries (the model's answer, the intent, the result).
"""

import asyncio
import logging
import os
import queue
import sqlite3
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from ziggurat.agents.agent import Agent
from ziggurat.core.context import Context
from ziggurat.journal.store import Store
from ziggurat.messages.message import assistant, tool_call
from ziggurat.messages.model import ModelRequest, ModelResponse
from ziggurat.messages.usage import Usage
from ziggurat.stores.file import FileStore
from ziggurat.stores.sqlite import SqliteStore

REPLY = "It will rain in the afternoon; take an umbrella with you. " * 6


class Turns:
    """A model that asks for one tool call in each of `steps - 1` turns, then answers."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    async def __call__(self, request: ModelRequest, ctx: Context, /) -> ModelResponse:
        """Return the reply for the current turn of the conversation."""
        turn = len(request.messages) // 2
        message = assistant(tool_call("look", n=turn)) if turn < self.steps - 1 else assistant("done")
        return ModelResponse(message, "stop", Usage(10, 10, requests=1))


async def look(n: int) -> str:
    """Look."""
    return REPLY


def agent(steps: int, store: Store | None) -> Agent:
    """Return an agent that takes this many steps."""
    return Agent(Turns(steps), tools=[look], max_steps=steps + 1, store=store, name="bench")


async def timed(steps: int, runs: int, store: Store | None) -> float:
    """Return the seconds that this many concurrent runs take."""
    one = agent(steps, store)
    began = time.perf_counter()
    ended = await asyncio.gather(*(one.run("go") for _ in range(runs)))
    seconds = time.perf_counter() - began
    assert all(run.steps == steps for run in ended)
    return seconds


async def bare(folder: Path, synchronous: str, commits: int) -> float:
    """Return the seconds per commit of one row in a thread, as seen by a waiting event loop."""
    work: queue.SimpleQueue[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]] | None] = queue.SimpleQueue()

    def thread() -> None:
        connection = sqlite3.connect(folder / f"bare-{time.monotonic_ns()}.db", isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        connection.execute("CREATE TABLE t (n INTEGER PRIMARY KEY, data BLOB)")
        while (job := work.get()) is not None:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT INTO t (data) VALUES (?)", (REPLY.encode(),))
            connection.execute("COMMIT")
            job[0].call_soon_threadsafe(job[1].set_result, None)
        connection.close()

    worker = threading.Thread(target=thread)
    worker.start()
    loop = asyncio.get_running_loop()
    began = time.perf_counter()
    for _ in range(commits):
        future: asyncio.Future[None] = loop.create_future()
        work.put((loop, future))
        await future
    seconds = (time.perf_counter() - began) / commits
    work.put(None)
    worker.join()
    return seconds


def bare_fsync(folder: Path, times: int = 50) -> float:
    """Return the seconds per write and fsync of 4 kB."""
    at = os.open(folder / "fsync", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    began = time.perf_counter()
    for _ in range(times):
        os.write(at, b"x" * 4096)
        os.fsync(at)
    os.close(at)
    return (time.perf_counter() - began) / times


async def overhead(folder: Path, name: str, make: Callable[[], Store], synchronous: str, rounds: int = 7) -> None:
    """Print the overhead per step of one run and the baseline, measured alternately."""
    store, steps = make(), 100
    ours, floors = [], []
    for _ in range(rounds):
        without = await timed(steps, 1, None)
        ours.append((await timed(steps, 1, store) - without) / steps)
        floors.append(await bare(folder, synchronous, 100))
    await store.close()
    mine, floor = statistics.median(ours) * 1e3, statistics.median(floors) * 1e3
    print(f"{name:14} {mine:7.3f} ms per step; one bare commit {floor:.3f} ms; ratio {mine / floor:.1f}")


async def throughput(folder: Path, name: str, make: Callable[[], Store], runs: int = 100, steps: int = 20) -> None:
    """Print the steps per second of many concurrent runs."""
    store = make()
    took, floors = [], []
    for _ in range(5):
        took.append(await timed(steps, runs, store))
        floors.append(bare_fsync(folder))
    await store.close()
    seconds, floor = statistics.median(took), statistics.median(floors) * 1e3
    print(f"{name:14} {runs} runs at once: {runs * steps / seconds:7.0f} steps/s; fsync {floor:.2f} ms")


async def resume(name: str, make: Callable[[], Store], steps: int = 1000, times: int = 5) -> None:
    """Print the time to open an interrupted run of many steps and go through it to where it stopped."""

    class Cut(Turns):
        async def __call__(self, request: ModelRequest, ctx: Context, /) -> ModelResponse:
            if len(request.messages) // 2 == steps - 1 and self.cut:
                raise ConnectionError("cut")
            return await super().__call__(request, ctx)

        cut = True

    model = Cut(steps)
    took, work = [], []
    for number in range(times):
        for model.cut in (True, False):
            store = make()
            one = Agent(model, tools=[look], max_steps=steps + 1, store=store, name="bench")
            if model.cut:
                await one.run("go", run_id=f"long-{number}")
            else:
                began, worked = time.perf_counter(), time.process_time()
                run = await one.resume(f"long-{number}")
                took.append(time.perf_counter() - began)
                work.append(time.process_time() - worked)
                assert run.steps == steps, run.stop
            await store.close()
    print(
        f"{name:14} resume of {steps} steps: {statistics.median(took) * 1e3:.0f} ms, "
        f"{statistics.median(work) * 1e3:.0f} ms of it work"
    )


async def main() -> None:
    """Measure everything, or only the main figures with ``--quick``; another argument names a folder on the disk."""
    logging.getLogger("ziggurat").setLevel(logging.CRITICAL)  # runs are broken off on purpose
    quick = "--quick" in sys.argv
    places = [each for each in sys.argv[1:] if each != "--quick"]
    with tempfile.TemporaryDirectory(dir=places[0] if places else None) as name:
        folder = Path(name)
        normal = lambda: SqliteStore(folder / "normal.db", synchronous="NORMAL")  # noqa: E731
        full = lambda: SqliteStore(folder / "full.db")  # noqa: E731
        file = lambda: FileStore(folder / "file")  # noqa: E731
        await overhead(folder, "sqlite NORMAL", normal, "NORMAL")
        await throughput(folder, "sqlite FULL", full)
        await resume("sqlite", normal)
        if quick:
            return
        await overhead(folder, "sqlite FULL", full, "FULL")
        await overhead(folder, "file", file, "FULL")
        await throughput(folder, "sqlite NORMAL", normal)
        await throughput(folder, "file", file, runs=20)
        await resume("file", file)


if __name__ == "__main__":
    asyncio.run(main())
