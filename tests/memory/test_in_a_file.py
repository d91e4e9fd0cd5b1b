"""Tests of the kinds of memory, consolidation and leases on a store in a file, opened twice."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.memory.making import HOUR, context
from ziggurat.errors import LeaseHeld
from ziggurat.memory import (
    AgentMemory,
    EpisodicMemory,
    MemoryRecord,
    MergeRequest,
    WorkingMemory,
    audit,
    consolidation,
    open_memory,
)
from ziggurat.memory.merging import leased
from ziggurat.memory.stores.sqlite import SqliteMemoryStore
from ziggurat.testing import HandClock


async def test_all_kinds_work_on_a_file_and_are_there_when_it_is_opened_again(tmp_path: Path) -> None:
    url, clock = f"sqlite:///{tmp_path}/memory.db", HandClock()
    ctx = context(clock)
    store = open_memory(url)
    memory = AgentMemory(store, "ann", episodic=EpisodicMemory(store, "ann", capacity=2, ctx=ctx), ctx=ctx)
    for number, text in enumerate(("went to Rome", "went to Oslo", "went to Bern")):
        await memory.remember(f"Ann {text}", importance=number / 10)
    await memory.remember("Ann lives in Rome", kind="semantic", key="home")
    fact = await memory.remember("Ann lives in Oslo", kind="semantic", key="home")
    await memory.remember("the safe opens with two keys", kind="longterm")
    merged = await memory.remember("the safe really opens with two keys", kind="longterm")
    await memory.longterm.consolidate()
    await memory.working.set("goal", "pack")
    await memory.working.set("seat", "window")
    await memory.working.get("goal")
    await store.close()

    store = open_memory(url)
    memory = AgentMemory(store, "ann", ctx=context(clock))
    assert [each.content for each in await memory.episodic.recall()] == ["Ann went to Bern", "Ann went to Oslo"]
    assert [each.content for each in await memory.history(fact.id)] == ["Ann lives in Oslo", "Ann lives in Rome"]
    (safe,) = await memory.longterm.recall("keys of the safe")
    assert merged.id in {each.id for each in await memory.history(safe.record.id)}
    assert list(await memory.working.items()) == ["seat", "goal"]
    assert (await audit(store, "ann")).archived == 4
    await store.close()


async def test_working_memory_is_bounded_by_use_in_a_file(tmp_path: Path) -> None:
    store = open_memory(f"sqlite:///{tmp_path}/memory.db")
    memory = WorkingMemory(store, "ann", capacity=2, ctx=context(HandClock()))
    for name in "ab":
        await memory.set(name, name)
    await memory.get("a")
    await memory.set("c", "c")
    assert list(await memory.items()) == ["a", "c"]
    await store.close()


async def test_of_two_who_opened_one_file_one_holds_the_lease(tmp_path: Path) -> None:
    url, ctx = f"sqlite:///{tmp_path}/memory.db", context(HandClock())
    one, other = open_memory(url), open_memory(url)
    async with leased(one, "ann", "work", ctx, 10):
        with pytest.raises(LeaseHeld):
            async with leased(other, "ann", "work", ctx, 10):
                pass
    async with leased(other, "ann", "work", ctx, 10):
        pass
    await one.close()
    await other.close()


async def test_consolidation_archives_in_a_file(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")

    clock = HandClock()
    store, ctx = open_memory(f"sqlite:///{tmp_path}/memory.db"), context(clock)
    memory = EpisodicMemory(store, "ann", ctx=ctx)
    for _ in range(5):
        await memory.remember("ann drinks green tea with milk")
        await clock.advance(1)
    await clock.advance(HOUR)
    report = await consolidation(store)(MergeRequest("ann"), ctx)
    assert (report.archived, await memory.count()) == (3, 2)
    assert len(await memory.history(report.summaries[0].id)) == 4
    assert (await consolidation(store)(MergeRequest("ann"), ctx)).archived == 0
    await store.close()


async def test_uses_are_written_together_and_not_with_each_recall(tmp_path: Path) -> None:
    statements: list[str] = []

    def connect(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = sqlite3.connect(*args, **kwargs)
        connection.set_trace_callback(statements.append)
        return connection

    store = SqliteMemoryStore(tmp_path / "m.db", connect=connect)
    await store.add([MemoryRecord(id=str(number), owner="ann", content="tea") for number in range(10)])
    statements.clear()
    for _ in range(50):
        await store.touch([str(number) for number in range(10)], 5.0)
    assert [record.uses for record in await store.get(["3"])] == [50]
    assert statements.count("COMMIT") < 25  # one a second
    await store.close()
    store = SqliteMemoryStore(tmp_path / "m.db")
    assert [record.uses for record in await store.get(["3"])] == [50]
    await store.close()
