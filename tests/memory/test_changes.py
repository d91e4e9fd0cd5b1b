"""Random changes of a memory, compared with a small model: nothing is destroyed, and what is put away can come back."""

import random
from pathlib import Path

import pytest

from tests.memory.making import context
from tests.samples import amount
from ziggurat import ConfigurationError
from ziggurat.memory import AgentMemory, EpisodicMemory, MemoryRecord, MemoryStore, Query, open_memory
from ziggurat.memory.agent_memory import Kind
from ziggurat.memory.record import predecessors
from ziggurat.testing import HandClock

CAPACITY = 4
KINDS: tuple[Kind, ...] = ("episodic", "semantic", "semantic", "longterm")
SAYINGS = ("Ann paid {} euros", "Ann really paid {} euros", "Ann lives in town {}", "Ann does not live in town {}")


class Model:
    """What a memory should hold.

    Attributes:
        contents: The text of every memory ever made, by id.
        used: The ids in use, in the order they were made.
        kinds: The kind of each.
        keys: The key of each fact that has one.
    """

    def __init__(self) -> None:
        self.contents: dict[str, str] = {}
        self.used: list[str] = []
        self.kinds: dict[str, str] = {}
        self.keys: dict[str, str] = {}

    def make(self, record: MemoryRecord, key: str | None) -> None:
        if record.id in self.contents:
            assert key is not None  # the same fact under its key is stored once
            assert record.id in self.used
            return
        if key is not None:
            self.used = [each for each in self.used if self.keys.get(each) != key]
            self.keys[record.id] = key
        self.used = [each for each in self.used if each != record.supersedes]
        self.contents[record.id], self.kinds[record.id] = record.content, record.kind
        self.used.append(record.id)

    def restore(self, undone: str, back: list[str]) -> None:
        assert not set(back) & set(self.used)
        if undone in self.used and back:
            self.used.remove(undone)
        self.used += back


async def everything(store: MemoryStore) -> dict[str, MemoryRecord]:
    return {record.id: record async for record in store.scan(owner="ann", archived=None)}


class Changes:
    """A memory that is changed at random, beside its model."""

    def __init__(self, store: MemoryStore, seed: int) -> None:
        self.draw = random.Random(seed)
        self.store = store
        self.model = Model()
        ctx = context(HandClock())
        episodic = EpisodicMemory(store, "ann", capacity=CAPACITY, ctx=ctx)
        self.memory = AgentMemory(store, "ann", episodic=episodic, ctx=ctx)

    async def change(self) -> None:
        known = [*self.model.contents]
        name = self.draw.choice(known) if known else ""
        verb = self.draw.choice(["remember"] * 4 + ["forget", "undo", "undo", "consolidate"] if known else ["remember"])
        if verb == "remember":
            await self.remember()
        elif verb == "forget":
            assert await self.memory.forget(name) == (name in self.model.used)
            self.model.used = [each for each in self.model.used if each != name]
        elif verb == "undo":
            await self.undo(name)
        else:
            await self.consolidate()
        await self.check()

    async def remember(self) -> None:
        kind, text = self.draw.choice(KINDS), self.draw.choice(SAYINGS).format(self.draw.randint(1, 3))
        key = self.draw.choice([None, "town", "bill"]) if kind == "semantic" else None
        old = self.draw.choice(self.model.used) if self.model.used and self.draw.random() < 0.2 else None
        before = list(self.model.used)
        record = await self.memory.remember(text, kind=kind, key=key, supersedes=old)
        self.model.make(record, key)
        if kind == "episodic":  # beyond the capacity, one of the least important is put away, never the new one
            there = await everything(self.store)
            self.model.used = [
                each for each in self.model.used if self.model.kinds[each] != kind or not there[each].archived
            ]
            assert record.id in self.model.used
            assert sum(self.model.kinds[each] == kind for each in self.model.used) <= CAPACITY
        elif self.draw.random() < 0.3 and set(before) - set(self.model.used) and record.supersedes:
            await self.undo(record.id)
            assert sorted(self.model.used) == sorted(before)

    async def undo(self, name: str) -> None:
        there, refused = await everything(self.store), ""
        try:
            back = [record.id for record in await self.memory.undo(name)]
        except ConfigurationError as error:
            refused = str(error)
        if refused:
            assert any(each in refused for each in self.model.used) or "undone" in refused
            assert await everything(self.store) == there
            return
        if name not in self.model.used:
            assert back == [name]
        self.model.restore(name, back)

    async def consolidate(self) -> None:
        for record in await self.memory.longterm.consolidate():
            sources = predecessors(record)
            assert len(sources) > 1
            assert len({self.model.contents[each].replace("really ", "") for each in sources}) == 1
            self.model.used = [each for each in self.model.used if each not in sources]
            self.model.contents[record.id], self.model.kinds[record.id] = record.content, record.kind
            self.model.used = [*dict.fromkeys([*self.model.used, record.id])]

    async def check(self) -> None:
        there = await everything(self.store)
        assert {name: record.content for name, record in there.items()} == self.model.contents
        assert {name for name, record in there.items() if not record.archived} == set(self.model.used)
        for key in ("town", "bill"):
            assert sum(self.model.keys.get(each) == key for each in self.model.used) <= 1
        for name in self.model.used:
            hits = await self.store.search(Query(owner="ann", text=there[name].content, limit=200))
            assert name in [hit.record.id for hit in hits]
            found = await self.memory.find(there[name].content, limit=200)
            assert there[name].content.replace("really ", "") in [each.content.replace("really ", "") for each in found]


@pytest.mark.parametrize(("place", "runs"), [("memory", amount(5, 200)), ("sqlite", amount(1, 10))])
async def test_nothing_is_destroyed_and_what_is_put_away_can_come_back(place: str, runs: int, tmp_path: Path) -> None:
    for seed in range(runs):
        url = "memory:" if place == "memory" else f"sqlite:///{tmp_path}/{seed}.db?synchronous=NORMAL"
        store = open_memory(url)
        changes = Changes(store, seed)
        for _ in range(30):
            await changes.change()
        await store.close()


async def test_what_was_forgotten_comes_back_unless_its_place_is_taken() -> None:
    memory = AgentMemory(open_memory("memory:"), "ann", ctx=context(HandClock()))
    old = await memory.remember("Ann lives in Rome.", kind="semantic", key="home")
    await memory.forget(old.id)
    assert [each.id for each in await memory.undo(old.id)] == [old.id]
    await memory.forget(old.id)
    new = await memory.remember("Ann lives in Oslo.", kind="semantic", key="home")
    with pytest.raises(ConfigurationError, match=f"{new.id!r} has taken"):
        await memory.undo(old.id)
    newer = await memory.remember("Ann lives in Bern.", kind="semantic", key="home")
    with pytest.raises(ConfigurationError, match=f"replaced by {newer.id!r}"):
        await memory.undo(new.id)
    await memory.undo(newer.id)
    with pytest.raises(ConfigurationError, match="it was undone"):
        await memory.undo(newer.id)
