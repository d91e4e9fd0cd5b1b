"""Tests of the indexes of vectors, which are made of what a database holds."""

import random
from pathlib import Path

from ziggurat.memory import MemoryRecord, Query
from ziggurat.memory.stores.sqlite import SqliteMemoryStore
from ziggurat.memory.vectors import VectorIndexes
from ziggurat.messages.model import pack


def records(count: int, start: int = 0) -> list[MemoryRecord]:
    draw = random.Random(start)
    return [
        MemoryRecord(
            id=f"m{place}", owner="ann", content=f"m{place}", embedding=pack([draw.gauss(0, 1) for _ in range(16)])
        )
        for place in range(start, start + count)
    ]


def small(store: SqliteMemoryStore) -> SqliteMemoryStore:
    """Use codes from a hundred vectors on."""
    store.vectors = VectorIndexes(store._database, exact=100)
    return store


async def first(store: SqliteMemoryStore, wanted: MemoryRecord) -> str:
    hits = await store.search(Query(owner="ann", embedding=wanted.embedding, limit=1))
    return hits[0].record.id


async def test_an_index_is_made_anew_and_follows_changes(tmp_path: Path) -> None:
    kept = records(300)

    store = small(SqliteMemoryStore(tmp_path / "m.db", synchronous="NORMAL"))
    await store.add(kept)
    assert await first(store, kept[7]) == "m7"
    await store.close()

    later = records(50, 1000)
    store = small(SqliteMemoryStore(tmp_path / "m.db", synchronous="NORMAL"))
    assert await first(store, kept[7]) == "m7"
    await store.add(later)
    await store.remove(["m8"])
    await store.put([kept[9].__class__(id="m9", owner="ann", content="moved", embedding=kept[3].embedding)])
    assert await first(store, later[20]) == "m1020"
    assert await first(store, kept[8]) != "m8"
    assert await first(store, kept[9]) != "m9"
    hits = await store.search(Query(owner="ann", embedding=kept[3].embedding, limit=2))
    assert {hit.record.id for hit in hits} == {"m3", "m9"}
    await store.close()


async def test_two_that_write_see_what_the_other_wrote(tmp_path: Path) -> None:
    kept = records(400)

    one, other = (small(SqliteMemoryStore(tmp_path / "m.db", synchronous="NORMAL")) for _ in range(2))
    for place, each in enumerate(kept):
        await (one if place % 2 else other).add([each])
    for each in kept[::37]:
        assert await first(one, each) == await first(other, each) == each.id
    await one.remove(["m5"])
    assert await first(other, kept[5]) != "m5"
    await one.close()
    await other.close()
