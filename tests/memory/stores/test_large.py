"""What remembering and recalling cost in a large store: about as much as in a small one."""

import os
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ziggurat import Context
from ziggurat.errors import StoreError
from ziggurat.memory import AgentMemory, EpisodicMemory, MemoryRecord, Query
from ziggurat.memory.search import Candidate
from ziggurat.memory.stores.sqlite import LocalMemoryStore, SqliteMemoryStore
from ziggurat.messages import Embeddings, EmbedRequest
from ziggurat.messages.model import pack

SMALL, LARGE = 2500, 10_000


async def embedder(request: EmbedRequest, ctx: Context) -> Embeddings:
    return Embeddings(tuple(pack([1.0, float(len(text))]) for text in request.texts), "one")


def episodes(count: int) -> list[MemoryRecord]:
    return [
        MemoryRecord(
            id=f"e{n}",
            owner="ann",
            content=f"talk number {n} about w{n % 300}",
            created=float(n),
            embedding=pack([1.0, float(n % 50)]),
            embedder="one",
        )
        for n in range(count)
    ]


class Counting(LocalMemoryStore):
    """Counts the candidates that are read."""

    read = 0

    def candidates(self, query: Query, numbers: Sequence[int]) -> Sequence[Candidate]:
        self.read += len(numbers)
        return super().candidates(query, numbers)


async def test_a_few_facts_among_many_episodes_are_found_without_reading_all() -> None:
    store = Counting()
    await store.add(episodes(LARGE))
    memory = AgentMemory(store, "ann", embedder=embedder)
    await memory.remember("Ann drinks tea", kind="semantic")
    found = await memory.recall("what about a talk number 7?")
    assert "Ann drinks tea" in [each.content for each in found]
    assert 0 < store.read < LARGE / 4


Work = Callable[[AgentMemory, int], Awaitable[object]]
WORKS: dict[str, Work] = {
    "a recall": lambda memory, n: memory.recall(f"talk w{n}"),
    "a plain memory": lambda memory, n: memory.remember(f"plain {n}"),
    "a fact under a new key": lambda memory, n: memory.remember(f"fact {n}", kind="semantic", key=f"key {n}"),
    "a fact under a known key": lambda memory, n: memory.remember(f"fact {n}", kind="semantic", key="home"),
    "a memory with a capacity": lambda memory, n: EpisodicMemory(memory.store, "bob", capacity=20).remember(f"x {n}"),
}


async def test_the_work_of_the_database_does_not_grow_with_the_number_of_memories(tmp_path: Path) -> None:
    steps = 0

    def connect(*args: Any, **options: Any) -> sqlite3.Connection:
        def count() -> int:
            nonlocal steps
            steps += 1
            return 0

        connection: sqlite3.Connection = sqlite3.connect(*args, **options)
        connection.set_progress_handler(count, 20)
        return connection

    async def measure(memories: int) -> dict[str, int]:
        store = SqliteMemoryStore(tmp_path / f"{memories}.db", synchronous="NORMAL", connect=connect)
        await store.add(episodes(memories))
        memory = AgentMemory(store, "ann", embedder=embedder)
        taken = {}
        for what, work in WORKS.items():
            for warm in range(2):
                await work(memory, warm)
                await memory.recall("anything")
            before = steps
            for number in range(5):
                await work(memory, 100 + number)
            taken[what] = steps - before
        await store.close()
        return taken

    small, large = await measure(SMALL), await measure(LARGE)
    assert [what for what in WORKS if large[what] >= 1.5 * small[what] + 20] == []


async def test_a_file_that_is_cut_while_it_is_read_is_an_error_of_that_call(tmp_path: Path) -> None:
    path = tmp_path / "memories.db"
    first = SqliteMemoryStore(path)
    await first.add(episodes(LARGE))
    await first.close()
    store = SqliteMemoryStore(path)
    try:
        assert await store.search(Query(owner="ann", text="w7", limit=5))
        os.truncate(path, path.stat().st_size // 3)
        with pytest.raises(StoreError, match=r"memories\.db"):
            for word in range(300):  # more of the file than is cached yet
                await store.search(Query(owner="ann", text=f"talk w{word}", limit=5))
    finally:
        await store.close()
