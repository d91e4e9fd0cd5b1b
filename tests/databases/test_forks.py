"""Processes that fork after a store was made, as the workers of gunicorn --preload, Celery and multiprocessing do."""

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.stores.server import schema
from ziggurat import Agent
from ziggurat.memory import MemoryRecord
from ziggurat.memory.stores.sqlite import SqliteMemoryStore
from ziggurat.stores import connect
from ziggurat.testing import ScriptedModel

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")

WORKERS = 3
STORES: dict[str, Callable[[Path], str]] = {
    "sqlite": lambda folder: f"sqlite:///{folder}/a.db",
    "file": lambda folder: f"file://{folder}/runs",
    "postgres": lambda folder: schema(),
}


def in_children(work: Callable[[int], object]) -> list[int]:
    """Return the exit codes of processes that fork now and do some work."""
    children = []
    for number in range(WORKERS):
        child = os.fork()
        if not child:
            try:
                work(number)
            except BaseException as error:
                print(f"{type(error).__name__}: {error}", file=sys.__stderr__)
                os._exit(1)
            os._exit(0)
        children.append(child)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("used", [False, True], ids=["unused", "used"])
@pytest.mark.parametrize("kind", STORES)
def test_an_agent_made_before_a_fork_runs_in_each_process(kind: str, used: bool, tmp_path: Path) -> None:
    store = connect(STORES[kind](tmp_path))
    agent = Agent(ScriptedModel(always="hi"), store=store, name="clerk")
    if used:
        agent.run_sync("hello", run_id="before", session="s")

    def work(number: int) -> None:
        for turn in range(5):
            run = agent.run_sync("hello", run_id=f"w{number}-{turn}", session=f"s{number}")
            assert run.text == "hi"

    assert in_children(work) == [0] * WORKERS
    assert agent.run_sync("hello", run_id="after").text == "hi"

    async def read() -> set[str]:
        found = {info.log.removeprefix("run:") for info in await store.logs("run:")}
        await store.close()
        return found

    known = asyncio.run(read())
    assert known == {f"w{each}-{turn}" for each in range(WORKERS) for turn in range(5)} | {"after"} | {
        name for name in ("before",) if used
    }


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_memories_are_stored_by_forked_processes(tmp_path: Path) -> None:
    memories = SqliteMemoryStore(tmp_path / "a.db")

    def add(number: int) -> None:
        asyncio.run(memories.add([MemoryRecord(id=f"m{number}", owner="ann", content="tea")]))

    add(9)
    assert in_children(add) == [0] * WORKERS
    found = asyncio.run(memories.get([*(f"m{each}" for each in range(WORKERS)), "m9"]))
    assert [each is not None for each in found] == [True] * (WORKERS + 1)
    asyncio.run(memories.close())
