"""Tests of audits, and of exports and imports."""

import asyncio
import random
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from tests.memory.making import DAY, context
from tests.memory.stores.test_agreement import answers, change, memories, query
from tests.samples import amount, sample
from tests.stores.server import schema
from ziggurat import ConfigurationError
from ziggurat.errors import StoreError
from ziggurat.memory import (
    AgentMemory,
    EpisodicMemory,
    MemoryRecord,
    MemoryStore,
    SemanticMemory,
    audit,
    export_memories,
    import_memories,
)
from ziggurat.memory.merging import leased
from ziggurat.memory.stores.postgres import PostgresMemoryStore
from ziggurat.memory.stores.sqlite import LocalMemoryStore, SqliteMemoryStore
from ziggurat.memory.upkeep import Imported
from ziggurat.testing import HandClock

SOUND = [
    "Ann prefers trains to planes.",
    "The quarterly report is due in the first week of May.",
    "Ben's sister studies chemistry in Leeds.",
    "The team decided to use one database for both services.",
    "Ann is allergic to peanuts.",
    "The garden needs water every second day in summer.",
    "Clara plays the violin in an orchestra.",
    "The printer on the third floor jams with thick paper.",
    "Ann reads crime stories before going to sleep.",
    "The user likes tea.",
    "The user likes coffee.",
    "The user is tall.",
    "The user is a baker.",
]
SAME = [
    ("Daniel keeps three chickens in his garden.", "Daniel keeps three chickens in his garden"),
    ("Eva works from home on Mondays and Fridays.", "Eva really works from home on Mondays and Fridays!"),
]


async def test_it_finds_what_was_planted_and_nothing_else() -> None:
    clock, store = HandClock(), LocalMemoryStore()
    ctx = context(clock)
    memory = EpisodicMemory(store, "ann", ctx=ctx)
    ids: dict[str, str] = {}
    for first, second in SAME:
        ids[first] = (await memory.remember(first)).id
        ids[second] = (await memory.remember(second, origin="tool")).id
    for text in SOUND:
        ids[text] = (await memory.remember(text)).id
    before = [record async for record in store.scan(owner="ann")]
    async with leased(store, "ann", "consolidation", ctx, 10):
        found = await audit(store, "ann")
    assert [finding.texts for finding in found.duplicates] == SAME
    assert [finding.ids for finding in found.duplicates] == [(ids[first], ids[second]) for first, second in SAME]
    assert (found.examined, found.archived, found.tainted) == (17, 0, 2)
    assert [record async for record in store.scan(owner="ann")] == before


async def test_what_is_archived_or_another_s_is_not_compared() -> None:
    store = LocalMemoryStore()
    memory = SemanticMemory(store, "ann")
    await memory.remember("Ann lives in Rome.", key="home")
    await memory.remember("Ann lives in Oslo.", key="home")
    await SemanticMemory(store, "ben").remember("Ann lives in Bern.")
    found = await audit(store)
    assert (found.doubts, found.duplicates) == ((), ())
    assert (found.examined, found.archived, found.kinds) == (2, 1, {"semantic": 2})


async def test_growth_is_told_by_day() -> None:
    clock = HandClock(1_000_000_000.0)  # 2001-09-09 01:46:40 UTC
    ctx, store = context(clock), LocalMemoryStore()
    memory = EpisodicMemory(store, "ann", ctx=ctx)
    for days in (0, 0, 8, 1, 5):
        await clock.advance(days * DAY)
        await memory.remember("Ann likes tea.")
    growth = (await audit(store, "ann")).growth
    assert growth == {"2001-09-09": 2, "2001-09-17": 1, "2001-09-18": 1, "2001-09-23": 1}


PLACES = ("memory", "sqlite", "postgres")


def opened(place: str, folder: Path) -> MemoryStore:
    if place == "memory":
        return LocalMemoryStore()
    if place == "postgres":
        return PostgresMemoryStore(schema())
    return SqliteMemoryStore(folder / f"{random.random()}.db", synchronous="NORMAL")


async def exported(store: MemoryStore, owner: str | None = None) -> list[bytes]:
    return [line async for line in export_memories(store, owner=owner)]


def records_in(lines: Sequence[bytes]) -> list[MemoryRecord]:
    return [msgspec.json.decode(line, type=MemoryRecord) for line in lines]


async def in_use(store: MemoryStore) -> list[str]:
    return sorted([record.content async for record in store.scan(owner=None)])


@pytest.mark.parametrize(("source", "target"), sample(product(PLACES, PLACES), 2))
async def test_an_imported_store_holds_and_answers_the_same(source: str, target: str, tmp_path: Path) -> None:
    draw = random.Random(5)
    records, queries = memories(draw), [query(draw) for _ in range(amount(20, 60))]

    one, other = opened(source, tmp_path), opened(target, tmp_path)
    await change(one, records, random.Random(11))
    lines = await exported(one)
    assert await import_memories(other, lines) == Imported(len(lines), 0)
    assert records_in(await exported(other)) == records_in(lines)
    assert await answers(other, queries) == await answers(one, queries)
    assert await import_memories(other, lines) == Imported(0, len(lines))
    assert await import_memories(other, lines, overwrite=True) == Imported(len(lines), 0)
    assert records_in(await exported(other)) == records_in(lines)
    await one.close()
    await other.close()


async def test_history_and_undo_work_after_an_import() -> None:
    ctx = context(HandClock())
    one, other = LocalMemoryStore(), LocalMemoryStore()
    memory = AgentMemory(one, "ann", ctx=ctx)
    await memory.remember("Ann lives in Rome", kind="semantic", key="home", taint=["web"])
    oslo = await memory.remember("Ann lives in Oslo", kind="semantic", key="home")
    await AgentMemory(one, "ben", ctx=ctx).remember("Ben swims")
    async with leased(one, "ann", "consolidation", ctx, 60):
        lines = await exported(one, "ann")
    assert len(lines) == 2  # without the lease and without what is Ben's
    await import_memories(other, lines)
    moved = AgentMemory(other, "ann", ctx=ctx)
    assert await moved.history(oslo.id) == await memory.history(oslo.id)
    (rome,) = await moved.undo(oslo.id)
    assert (rome.content, rome.taint) == ("Ann lives in Rome", ("web",))


async def test_without_vectors_the_names_of_their_models_are_left_out_too() -> None:
    store, other = LocalMemoryStore(), LocalMemoryStore()
    await store.add([MemoryRecord(id="1", owner="ann", content="tea", embedding=bytes(8), embedder="one")])
    await import_memories(other, [line async for line in export_memories(store, vectors=False)])
    assert await other.get(["1"]) == [MemoryRecord(id="1", owner="ann", content="tea")]
    assert await other.stale("ann", "two", 9) == await other.get(["1"])


def line(content: str, **more: str) -> bytes:
    fields = "".join(f',"{name}":"{value}"' for name, value in more.items())
    return f'{{"id":"7","owner":"a","content":"{content}"{fields}}}\n'.encode()


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda line: line[: len(line) // 2],
    "empty": lambda line: b"\n",
    "not UTF-8": lambda line: line.replace(b'"', b'"\xff', 2),
    "another": lambda line: b'{"id": 7}\n',
    "deep": lambda line: b'{"a":' * 100_000,
    "half a character": lambda _: line("\\ud800"),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("at", [0, 199, 200, 399])
async def test_a_damaged_line_is_named_and_no_memory_of_its_batch_is_stored(damage: str, at: int) -> None:
    source, target = LocalMemoryStore(), LocalMemoryStore()
    await source.add([MemoryRecord(id=f"{n}", owner="ann", content=f"tea {n}") for n in range(400)])
    lines = await exported(source)
    lines[at] = DAMAGES[damage](lines[at])
    with pytest.raises(ConfigurationError, match=f"line {at + 1} "):
        await import_memories(target, lines)
    assert await target.count(owner=None, archived=None) == at // 200 * 200


async def test_an_id_of_another_owner_is_refused_before_anything_is_stored() -> None:
    source, target = LocalMemoryStore(), LocalMemoryStore()
    await source.add([MemoryRecord(id=f"{n}", owner="ann", content="tea") for n in range(3)])
    await target.add([MemoryRecord(id="2", owner="ben", content="tea")])
    with pytest.raises(ConfigurationError, match="line 3"):
        await import_memories(target, await exported(source))
    assert await target.count(owner="ann") == 0


class Failing(LocalMemoryStore):
    """Fails at the third write, once."""

    writes = 0

    async def add(self, records: Sequence[MemoryRecord], /) -> None:
        self.writes += 1
        if self.writes == 3:
            raise StoreError("the disk is full")
        await super().add(records)


async def test_an_interrupted_import_is_completed_by_importing_again() -> None:
    source, target = LocalMemoryStore(), Failing()
    await source.add([MemoryRecord(id=f"{n}", owner="ann", content="tea", created=float(n)) for n in range(1000)])
    lines = await exported(source)
    with pytest.raises(StoreError):
        await import_memories(target, lines)
    assert await target.count(owner="ann") == 400
    assert await import_memories(target, lines) == Imported(600, 400)
    assert records_in(await exported(target)) == records_in(lines)


@settings(max_examples=amount(30, 300))
@given(st.lists(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3)), max_size=6), min_size=1, max_size=5))
async def test_a_newer_export_that_overwrites_completes_an_older_one(rounds: list[list[tuple[str, int]]]) -> None:
    """Facts are written under keys or superseded by id, and exported every now and then."""
    clock = HandClock()
    source, target = LocalMemoryStore(), LocalMemoryStore()
    memory = AgentMemory(source, "ann", ctx=context(clock))
    number = 0
    for some in rounds:
        for key, how in some:
            number += 1
            await clock.advance(how)
            old = await memory.semantic.about(key) if how == 3 else None
            if old is None:
                await memory.remember(f"{key} is {number}", kind="semantic", key=key)
            else:
                new = await memory.remember(f"{key} is {number}", kind="semantic", supersedes=old.id)
                assert new.supersedes == old.id
        lines = await exported(source)
        await import_memories(target, lines, overwrite=True)
        assert await in_use(target) == await in_use(source)
        assert await target.count(owner="ann", archived=None) == len(lines)


COUNT = amount(5_000, 20_000)


class Forgetful(LocalMemoryStore):
    """Counts what is added, and keeps nothing."""

    added = 0

    async def add(self, records: Sequence[MemoryRecord], /) -> None:
        self.added += len(records)

    def scan(self, **_: object) -> AsyncIterator[MemoryRecord]:
        return self._made()

    async def _made(self) -> AsyncIterator[MemoryRecord]:
        for number in range(COUNT):
            yield MemoryRecord(id=f"{number}", owner="ann", content="tea " * 50)


def test_memory_does_not_grow_with_the_number_of_memories() -> None:
    async def exported_lines(store: MemoryStore) -> int:
        return sum([len(line) async for line in export_memories(store)])

    def lines(count: int) -> Iterable[bytes]:
        for number in range(count):
            yield b'{"id":"%d","owner":"ann","content":"%s"}\n' % (number, b"tea " * 50)

    def peak(work: Callable[[], object]) -> int:
        tracemalloc.start()
        work()
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    store = Forgetful()
    assert peak(lambda: asyncio.run(import_memories(store, lines(COUNT)))) < 400_000 + 20 * COUNT
    assert store.added == COUNT
    assert peak(lambda: asyncio.run(exported_lines(store))) < 450 * COUNT  # a list of the length of its lines

    def one_by_one() -> Iterator[bytes]:
        yield from lines(3)

    assert asyncio.run(import_memories(LocalMemoryStore(), one_by_one())).stored == 3
