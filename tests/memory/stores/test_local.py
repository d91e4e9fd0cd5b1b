"""Tests of the memory store in this process."""

import pytest

from ziggurat.memory import LocalMemoryStore, MemoryExists, MemoryRecord, MemoryStore, Query
from ziggurat.messages.embedding import pack


def record(name: str, content: str = "", owner: str = "ann", created: float = 0.0, **more: object) -> MemoryRecord:
    return MemoryRecord(id=name, owner=owner, content=content or name, created=created, used=created, **more)  # type: ignore[arg-type]


async def ids(store: MemoryStore, **asked: object) -> list[str]:
    return [each.id async for each in store.scan(**{"owner": "ann", **asked})]  # type: ignore[arg-type]


async def test_an_id_is_taken_once() -> None:
    store: MemoryStore = LocalMemoryStore()
    await store.add([record("a")])
    with pytest.raises(MemoryExists, match="id 'a' already exists"):
        await store.add([record("b"), record("a")])
    with pytest.raises(MemoryExists, match="id 'c' already exists"):
        await store.add([record("c"), record("c")])
    assert await ids(store) == ["a"]
    assert await store.count(owner="ann") == 1


async def test_scans_go_by_age_and_filter() -> None:
    store = LocalMemoryStore()
    await store.add([record("b", created=2), record("a", created=1, tags=("x", "y")), record("c", created=2)])
    await store.add([record("d", owner="ben"), record("e", created=3, archived=True, kind="semantic")])
    assert await ids(store) == ["a", "b", "c"]
    assert await ids(store, newest_first=True, limit=2) == ["c", "b"]
    assert await ids(store, tags=["x", "y"]) == ["a"]
    assert await ids(store, archived=True) == ["e"]
    assert await ids(store, archived=None, kind="semantic") == ["e"]
    assert await ids(store, owner=None) == ["d", "a", "b", "c"]
    assert await store.count(owner=None, archived=None) == 5


async def test_put_touch_get_and_remove() -> None:
    store = LocalMemoryStore()
    await store.add([record("a", importance=0.7)])
    await store.put([record("a", "changed", importance=0.7), record("b")])
    await store.touch(["a", "unknown"], 5.0)
    await store.touch(["a"], 3.0)
    (got,) = await store.get(["unknown", "a"])
    assert (got.content, got.used, got.uses, got.importance) == ("changed", 5.0, 2, 0.7)
    assert await store.remove(["a", "unknown"]) == 1
    assert await ids(store) == ["b"]
    await store.close()


async def test_search_by_words_by_meaning_and_both() -> None:
    store = LocalMemoryStore()
    await store.add(
        [
            record("tea", "tea is hot", embedding=pack([1, 0])),
            record("ice", "ice is cold", embedding=pack([0, 1])),
            record("old", "tea was hot", archived=True),
            record("ben", "tea is hot", owner="ben"),
        ]
    )
    (hit,) = await store.search(Query(owner="ann", text="Hot tea!"))
    assert hit.record.id == "tea"
    assert hit.similarity is None
    assert hit.text_score is not None
    assert hit.text_score > 0
    near, far = await store.search(Query(owner="ann", embedding=pack([0.6, 0.8])))
    assert (near.record.id, near.rank, far.record.id, far.rank) == ("ice", 1, "tea", 2)
    assert near.similarity == pytest.approx(0.8)
    both = await store.search(Query(owner="ann", text="tea", embedding=pack([1, 0]), limit=1))
    assert [each.record.id for each in both] == ["tea"]
    assert await store.search(Query(owner="ann")) == []
