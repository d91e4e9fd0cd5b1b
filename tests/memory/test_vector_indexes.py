"""Tests of the index files beside a database: saved, loaded, rebuilt, and never the only copy of data."""

import random
import stat
from pathlib import Path

import pytest

from ziggurat.memory import MemoryRecord, Query
from ziggurat.memory.stores.sqlite import SqliteMemoryStore
from ziggurat.memory.vectors import VectorIndexes
from ziggurat.messages.embedding import pack


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
    store._rows.vectors = VectorIndexes(Path(f"{store.path}-vectors"), store._database, exact=100)
    return store


def count(folder: Path) -> int:
    return len(list(folder.iterdir()))


def forget(store: SqliteMemoryStore) -> None:
    store.path.unlink()


def spoil(folder: Path) -> None:
    for path in folder.iterdir():
        path.write_bytes(b"nonsense")


async def first(store: SqliteMemoryStore, wanted: MemoryRecord) -> str:
    hits = await store.search(Query(owner="ann", embedding=wanted.embedding, limit=1))
    return hits[0].record.id


async def test_an_index_is_kept_taken_up_and_made_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    kept = records(300)

    store = small(SqliteMemoryStore(tmp_path / "m.db", synchronous="NORMAL"))
    await store.add(kept)
    assert await first(store, kept[7]) == "m7"
    await store.close()
    folder = tmp_path / "m.db-vectors"
    assert count(folder) == 1
    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.iterdir())] == [0o700, 0o600]

    later = records(50, 1000)
    store = small(SqliteMemoryStore(tmp_path / "m.db", synchronous="NORMAL"))
    await store.add(later)
    await store.remove(["m8"])
    await store.put([kept[9].__class__(id="m9", owner="ann", content="moved", embedding=kept[3].embedding)])
    assert await first(store, later[20]) == "m1020"
    assert await first(store, kept[8]) != "m8"
    assert await first(store, kept[9]) != "m9"
    hits = await store.search(Query(owner="ann", embedding=kept[3].embedding, limit=2))
    assert {hit.record.id for hit in hits} == {"m3", "m9"}
    await store.close()
    assert count(folder) == 1

    spoil(folder)
    store = small(SqliteMemoryStore(tmp_path / "m.db", synchronous="NORMAL"))
    assert await first(store, kept[7]) == "m7"
    await store.close()

    forget(store)
    store = small(SqliteMemoryStore(tmp_path / "m.db", synchronous="NORMAL"))
    await store.add(kept[10:])  # other memories under the numbers of the old ones, beside the old index
    assert await first(store, kept[250]) == "m250"
    await store.close()
    assert "cannot be read and is made again" in caplog.text


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
