"""Tests that every memory store must pass."""

import asyncio
from collections.abc import AsyncIterator, Callable
from math import exp
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.stores.proxy import Proxy
from tests.stores.server import asked, schema
from ziggurat import ConfigurationError
from ziggurat.core.path import is_id
from ziggurat.errors import StoreError
from ziggurat.memory import MemoryRecord, MemoryStore, Query
from ziggurat.memory.store import MemoryExists
from ziggurat.memory.stores.postgres import PostgresMemoryStore
from ziggurat.memory.stores.sqlite import LocalMemoryStore, SqliteMemoryStore
from ziggurat.messages.model import pack


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[MemoryStore]:
    kinds: dict[str, Callable[[], MemoryStore]] = {
        "memory": LocalMemoryStore,
        "sqlite": lambda: SqliteMemoryStore(tmp_path / "memory.db", synchronous="NORMAL"),
        "postgres": lambda: PostgresMemoryStore(schema()),
    }
    opened = kinds[request.param]()
    yield opened
    await opened.close()


def record(name: str, content: str = "", owner: str = "ann", **more: object) -> MemoryRecord:
    return MemoryRecord(id=name, owner=owner, content=content or name, **more)  # type: ignore[arg-type]


async def names(store: MemoryStore, **asked: object) -> list[str]:
    return [each.id async for each in store.scan(**{"owner": "ann", **asked})]  # type: ignore[arg-type]


async def found(store: MemoryStore, **asked: object) -> list[str]:
    return [hit.record.id for hit in await store.search(Query(**{"owner": "ann", **asked}))]  # type: ignore[arg-type]


FULL = MemoryRecord(
    id="full",
    owner="ann",
    content="Ünïcode\0 and 'quotes'",
    kind="semantic",
    embedding=pack([0.5, -0.25]),
    importance=0.75,
    tags=("a", 'b"c'),
    origin="tool",
    taint=("search",),
    created=12.5,
    used=13.25,
    uses=3,
    supersedes="older",
    archived=True,
    facts={"key": [1, None, {"deep": 1.5}]},
)


async def test_a_record_comes_back_as_it_was(store: MemoryStore) -> None:
    await store.add([FULL, record("plain")])
    assert await store.get(["plain", "unknown", "full"]) == [record("plain"), FULL]


async def test_an_id_is_taken_once(store: MemoryStore) -> None:
    await store.add([record("a")])
    with pytest.raises(MemoryExists, match="id 'a' already exists"):
        await store.add([record("b"), record("a")])
    with pytest.raises(MemoryExists, match="id 'c' already exists"):
        await store.add([record("c"), record("c")])
    both = await asyncio.gather(store.add([record("d")]), store.add([record("a")]), return_exceptions=True)
    assert both[0] is None
    assert isinstance(both[1], MemoryExists)
    assert await names(store) == ["a", "d"]


async def test_scans_go_by_age_and_filter(store: MemoryStore) -> None:
    await store.add([record("b", created=2.0), record("a", created=1.0, tags=("x", "y")), record("c", created=2.0)])
    await store.add([record("d", owner="ben"), record("e", created=3.0, archived=True, kind="semantic")])
    assert await names(store) == ["a", "b", "c"]
    assert await names(store, newest_first=True, limit=2) == ["c", "b"]
    assert await names(store, tags=["x", "y"]) == ["a"]
    assert await names(store, archived=True) == ["e"]
    assert await names(store, archived=None, kind="semantic") == ["e"]
    assert await names(store, owner=None) == ["d", "a", "b", "c"]
    assert await names(store, limit=0) == []
    assert await store.count(owner=None, archived=None) == 5
    assert await store.count(owner="ann", kind="episodic") == 3


async def test_a_long_scan_is_whole(store: MemoryStore) -> None:
    await store.add([record(f"m{place}", created=float(place // 7)) for place in range(1203)])
    assert await names(store) == [f"m{place}" for place in range(1203)]
    assert await names(store, newest_first=True) == [f"m{place}" for place in reversed(range(1203))]


async def test_put_replaces_in_every_index(store: MemoryStore) -> None:
    await store.add([record("a", "green tea", embedding=pack([1, 0])), record("b", "rain")])
    await store.put([record("a", "black coffee", embedding=pack([0, 1])), record("c", "snow")])
    assert await found(store, text="tea") == []
    assert await found(store, text="coffee") == ["a"]
    (hit,) = await store.search(Query(owner="ann", embedding=pack([1, 0])))
    assert hit.similarity == 0.0
    await store.put([record("a", "black coffee", archived=True)])
    assert await found(store, text="coffee") == []
    assert await names(store, archived=True) == ["a"]
    await store.put([record("a", "black coffee")])
    assert await found(store, text="coffee") == ["a"]
    assert await store.remove(["a", "unknown"]) == 1
    assert await found(store, text="coffee") == []
    assert sorted(await names(store)) == ["b", "c"]


async def test_touches_count_and_never_go_back(store: MemoryStore) -> None:
    await store.add([record("a", importance=0.7), record("b")])
    await store.touch(["a", "unknown"], 5.0)
    await store.touch(["a"], 3.0)
    (got,) = await store.get(["a"])
    assert (got.used, got.uses, got.importance) == (5.0, 2, 0.7)
    await store.put([record("c")])
    (got,) = await store.get(["a"])
    assert (got.used, got.uses) == (5.0, 2)
    assert [each.uses async for each in store.scan(owner="ann", limit=1)] == [2]


async def test_search_by_words_by_meaning_and_both(store: MemoryStore) -> None:
    await store.add(
        [
            record("tea", "drinking hot teas", embedding=pack([1, 0]), tags=("drink",)),
            record("ice", "ice is cold", embedding=pack([0, 1])),
            record("old", "tea was hot", archived=True, embedding=pack([1, 0])),
            record("ben", "tea is hot", owner="ben", embedding=pack([1, 0])),
            record("bare", "nothing to see"),
            record("other", "another length", embedding=pack([1, 0, 0])),
        ]
    )
    assert await found(store, text="Where is the TEA?") == ["tea"]
    assert await found(store, text="drinks") == ["tea"]  # by its tag and its stem
    assert await found(store, text="the of") == []
    assert await found(store, text='"*(:') == []
    near, far = await store.search(Query(owner="ann", embedding=pack([0.6, 0.8])))
    assert (near.record.id, far.record.id) == ("ice", "tea")
    assert near.similarity == pytest.approx(0.8)
    assert near.text_score is None
    first, second = await store.search(Query(owner="ann", text="tea", embedding=pack([0, 1])))
    assert (first.record.id, second.record.id) == ("ice", "tea")  # the same meaning beats one word
    assert first.relevance == pytest.approx(1.0)
    assert second.text_score is not None
    assert second.similarity == pytest.approx(0.0)
    assert second.relevance == pytest.approx(1 - exp(-1.5))
    assert await found(store, embedding=pack([1, 0]), tags=("drink",)) == ["tea"]
    assert await found(store, embedding=pack([1, 0]), kind="semantic") == []
    assert sorted(await found(store, owner=None, embedding=pack([1, 0]))) == ["ben", "ice", "tea"]
    assert await found(store) == []
    assert await found(store, text="tea", limit=0) == []


async def test_the_context_of_a_memory_helps_to_find_it(store: MemoryStore) -> None:
    await store.add(
        [record(f"x{place}", "something else") for place in range(4)]
        + [record("answer", "Yes, last week!", facts={"context": "Did you see the dentist?"})]
        + [record("said", "The dentist was kind.")]
    )
    assert await found(store, text="dentist") == ["said", "answer"]


async def test_what_a_filter_leaves_is_found_among_many(store: MemoryStore) -> None:
    many = [record(f"m{place}", "the same words", embedding=pack([1, 0])) for place in range(600)]
    await store.add([*many, record("rare", "the same words", embedding=pack([0.1, 1]), tags=("rare",))])
    assert await found(store, embedding=pack([1, 0]), tags=("rare",)) == ["rare"]
    assert await found(store, text="words", tags=("rare",)) == ["rare"]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=30).filter(is_id), st.text(max_size=60))
async def test_any_text_can_be_kept_and_asked(owner: str, text: str) -> None:
    text = text.encode("utf-8", "replace").decode()

    store = LocalMemoryStore()
    await store.add([record("a", f"{text} cinnamon", owner=owner)])
    (hit,) = await store.search(Query(owner=owner, text=f"{text} cinnamon"))
    assert hit.record.content == f"{text} cinnamon"


async def test_what_is_closed_is_refused_and_what_was_written_is_there(tmp_path: Path) -> None:
    store = SqliteMemoryStore(tmp_path / "memory.db")
    await store.add([FULL, record("a", "tea", embedding=pack([1, 0]))])
    await store.touch(["a"], 7.0)
    await store.close()
    with pytest.raises(StoreError, match="closed"):
        await store.get(["a"])
    again = SqliteMemoryStore(tmp_path / "memory.db")
    (hit,) = await again.search(Query(owner="ann", text="tea", embedding=pack([1, 0])))
    assert (hit.record.used, hit.record.uses, hit.similarity) == (7.0, 1, 1.0)
    await again.close()


@pytest.mark.parametrize("answered", [False, True])
async def test_a_connection_that_is_lost_over_a_memory_leaves_it_kept_once_and_its_vectors_indexed(
    answered: bool,
) -> None:
    url = schema()

    async with Proxy(url) as proxy:
        store = PostgresMemoryStore(proxy.url)
        assert await store.count(owner="ann") == 0
        proxy.cut(b"COMMIT", answered=answered)
        await store.add([record("a", embedding=pack([1.0, 2.0, 3.0]))])
        assert proxy.cuts
        assert await names(store) == ["a"]
        await store.close()
    assert asked(url, "SELECT to_regclass('memories_near_3')::text") == "memories_near_3"


ODD: list[dict[str, object]] = [
    {"id": "a\0b"},
    {"id": "\ud800"},
    {"id": "x" * 601},
    {"owner": "a\0b"},
    {"kind": "\ud800"},
    {"tags": ("a\0b",)},
    {"taint": ("\ud800",)},
    {"supersedes": "a\0b"},
    {"content": "half \ud800"},
    {"facts": {"half": "\ud800"}},
    {"created": 1e20},
    {"used": float("nan")},
    {"embedding": pack([float("nan"), 1.0])},
    {"embedding": b"xyz"},
]


async def test_what_not_every_store_can_keep_is_refused_by_all_and_harms_nothing(store: MemoryStore) -> None:
    await store.add([record("good")])
    for odd in ODD:
        unfit = record("unfit", **odd) if "id" not in odd else record(str(odd["id"]))  # type: ignore[arg-type]
        for verb in (store.add, store.put):
            with pytest.raises(ConfigurationError, match="memory"):
                await verb([record("other"), unfit])
        await store.touch([unfit.id, "good"], 5.0)
        assert await store.get([unfit.id]) == []
        assert await store.remove([unfit.id]) == 0
    await store.add([record("after")])
    assert await names(store) == ["good", "after"]
    assert (await store.get(["good"]))[0].uses == len(ODD)


def test_a_query_has_a_vector_of_finite_floats() -> None:
    for vector in (b"xyz", pack([float("inf")])):
        with pytest.raises(ConfigurationError, match="query"):
            Query(embedding=vector)


async def test_the_longest_names_are_kept_by_all(store: MemoryStore) -> None:
    letters = [chr(0x1F300 + place % 700) for place in range(600)]
    name, owner = "".join(letters), "".join(reversed(letters))[:500]
    await store.add([record(name, "bricks", owner)])
    assert [each.id for each in await store.get([name])] == [name]
    assert await found(store, owner=owner, text="bricks") == [name]
    assert await store.remove([name]) == 1
