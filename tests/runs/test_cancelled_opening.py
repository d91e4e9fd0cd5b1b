"""Runs that are cancelled while they are opened: nobody drives them, and the store says so."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.samples import sample
from tests.stores.server import schema
from ziggurat import Agent, AgentRun
from ziggurat.databases.writer import closed_when_unused
from ziggurat.errors import RunExists
from ziggurat.journal import LogInfo, Row, Store
from ziggurat.journal.entries import Ended
from ziggurat.journal.store import run_log
from ziggurat.messages import stops
from ziggurat.runs.runs import runs_of
from ziggurat.stores import FileStore, InMemoryStore, PostgresStore, SqliteStore
from ziggurat.testing import ScriptedModel

OPENS: dict[str, Callable[[Path], Store]] = {
    "memory": lambda folder: InMemoryStore(),
    "file": lambda folder: FileStore(folder / "runs"),
    "sqlite": lambda folder: SqliteStore(folder / "runs.db"),
    "normal": lambda folder: SqliteStore(folder / "runs.db", synchronous="NORMAL"),
    "postgres": lambda folder: PostgresStore(schema()),
}


class _Slow:
    """Delays the answer of a store's method, so that a run is cancelled when it is done but not reported.

    Attributes:
        done: Set when the work is done.
        answer: The answer waits for it.
    """

    def __init__(self, store: Any, method: str) -> None:
        self.done, self.answer = asyncio.Event(), asyncio.Event()
        work: Callable[..., Awaitable[Any]] = getattr(store, method)

        async def slow(*arguments: Any, **options: Any) -> Any:
            try:
                return await work(*arguments, **options)
            finally:
                self.done.set()
                await self.answer.wait()

        setattr(store, method, slow)

    async def cancel(self, run: Coroutine[Any, Any, object], times: int) -> None:
        """Start a run and cancel it while the method is under way."""
        task = asyncio.ensure_future(run)
        await self.done.wait()
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0)
        self.answer.set()
        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.fixture(params=sample(OPENS, 2))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Return a store of each kind; the test closes it."""
    return OPENS[request.param](tmp_path)


def _agent(store: Store) -> Agent:
    return Agent(ScriptedModel("Done."), store=store)


async def _end(store: Any) -> Ended:
    entry = (await runs_of(store).read("r")).entries[-1]
    assert isinstance(entry, Ended)
    return entry


async def _check_cancelled(store: Store, run_id: str = "r") -> None:
    """Check that a run is listed as cancelled, nobody has its lease, and another agent can resume it."""
    info = await store.find(run_log(run_id))
    assert info is not None
    assert (info.status, info.owner) == ("Cancelled", "")
    run = await _agent(store).resume(run_id)
    assert (run.stop, run.text) == (stops.Completed(), "Done.")


async def _stream(agent: Agent, **options: Any) -> None:
    async with agent.stream("q", run_id="r", **options) as events:
        async for _ in events:
            pass


WAYS: dict[str, Callable[[Agent], Coroutine[Any, Any, object]]] = {
    "run": lambda agent: agent.run("q", run_id="r"),
    "stream": _stream,
    "session": lambda agent: agent.run("q", run_id="r", session="s"),
    "streamed session": lambda agent: _stream(agent, session="s"),
}


@pytest.mark.parametrize(("way", "times"), sample(product(WAYS, [1, 3]), 4))
async def test_a_run_that_is_cancelled_while_it_is_created_is_cancelled(store: Any, way: str, times: int) -> None:
    if "session" in way:  # the session's log is created first
        await _agent(store).run("q", session="s")
    await _Slow(store, "create").cancel(WAYS[way](_agent(store)), times)
    await _check_cancelled(store)
    await store.close()


async def test_a_run_that_another_has_created_is_left_alone(store: Any) -> None:
    async def taken(info: LogInfo, rows: Sequence[Row] = (), blobs: Mapping[str, bytes] | None = None) -> int:
        epoch: int = await create(info, rows, blobs)
        assert epoch == 1
        raise RunExists("another process was quicker")

    create, store.create = store.create, taken
    await _Slow(store, "create").cancel(_agent(store).run("q", run_id="r"), 1)
    info = await store.find(run_log("r"))
    assert info.status == "running"
    assert info.owner
    await store.close()


async def test_a_stream_that_is_left_before_the_run_begins_leaves_nothing(store: Any) -> None:
    async with _agent(store).stream("q", run_id="r"):
        pass
    assert await store.find(run_log("r")) is None
    await store.close()


@pytest.mark.parametrize("method", ["lease", "append", "read"])
async def test_a_run_that_is_cancelled_while_it_is_resumed_is_cancelled(store: Any, method: str) -> None:
    await _Slow(store, "create").cancel(_agent(store).run("q", run_id="r"), 1)
    slow = _Slow(store, method)
    resuming: Coroutine[Any, Any, AgentRun] = _agent(store).resume("r")
    await slow.cancel(resuming, 1)
    await _check_cancelled(store)
    await store.close()


@pytest.mark.parametrize("kind", ["file", "sqlite"])
async def test_a_run_that_is_created_as_the_event_loop_ends_is_cancelled(kind: str, tmp_path: Path) -> None:
    """`asyncio.run` cancels all tasks as it ends, also those in which a store works."""

    async def begin() -> None:
        store: Any = OPENS[kind](tmp_path)
        create, created = store.create, asyncio.Event()

        async def slow(*arguments: Any, **options: Any) -> int:
            epoch: int = await create(*arguments, **options)
            created.set()
            for _ in range(100):
                await asyncio.sleep(0)
            return epoch

        store.create = slow
        _agent(store).start("q", run_id="r")
        await created.wait()

    with closed_when_unused():
        await asyncio.to_thread(asyncio.run, begin())
    store = OPENS[kind](tmp_path)
    assert (await _end(store)).interrupted, "recover(cancelled=True) finds it"
    await _check_cancelled(store)
    await store.close()


async def test_a_run_that_its_handle_cancels_while_it_is_created_is_not_recovered(store: Any) -> None:
    slow = _Slow(store, "create")
    handle = _agent(store).start("q", run_id="r")
    await slow.done.wait()
    assert await handle.cancel()
    slow.answer.set()
    assert isinstance((await handle.result()).stop, stops.Cancelled)
    assert not (await _end(store)).interrupted, "recover() leaves it alone"
    await _check_cancelled(store)
    await store.close()
