"""Tests of episodic memory: recall, fading, and eviction beyond the capacity."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.memory.making import DAY, HOUR, context
from tests.samples import amount
from tests.wrong import wrong
from ziggurat import ConfigurationError
from ziggurat.memory import EpisodicMemory, LocalMemoryStore, Recalled, decayed, half_life, hybrid, lowest, oldest
from ziggurat.memory.eviction import Eviction
from ziggurat.testing import HandClock


def contents(recalled: Sequence[Recalled]) -> list[str]:
    return [each.content for each in recalled]


async def test_the_more_important_of_two_episodes_comes_first_and_strangers_have_none() -> None:
    store = LocalMemoryStore()
    memory = EpisodicMemory(store, "demo")
    await memory.remember("Tokio is an async runtime for Rust.", importance=0.8)
    await memory.remember("Rust is fast and memory-safe.", importance=0.9)
    recalled = await memory.recall(limit=3)
    assert contents(recalled) == ["Rust is fast and memory-safe.", "Tokio is an async runtime for Rust."]
    assert [each.score for each in recalled] == [0.9, 0.8]
    assert await EpisodicMemory(store, "somebody").recall() == []


async def test_equals_come_in_the_order_they_were_made() -> None:
    memory = EpisodicMemory(LocalMemoryStore(), "ann", ctx=context(HandClock()))
    for name in "abcd":
        await memory.remember(name)
    assert contents(await memory.recall(limit=3)) == ["a", "b", "c"]


async def test_importance_halves_with_the_half_life_however_often_it_is_recalled() -> None:
    clock = HandClock()
    memory = EpisodicMemory(LocalMemoryStore(), "ann", score=decayed(half_life(hours=24)), ctx=context(clock))
    made = await memory.remember("x", importance=0.8)
    await clock.advance(24 * HOUR)
    scores = [(await memory.recall())[0].score for _ in range(5)]
    assert scores == [pytest.approx(0.4)] * 5
    (now,) = await memory.store.get([made.id])
    assert (now.importance, now.uses, now.used - now.created) == (0.8, 5, 24 * HOUR)


async def test_hybrid_recall_weighs_recency_and_use() -> None:
    clock = HandClock()
    score = hybrid(recency_weight=0.5, frequency_weight=0.4)
    memory = EpisodicMemory(LocalMemoryStore(), "ann", score=score, ctx=context(clock))
    await memory.remember("often", importance=0.5, tags=["often"])
    await clock.advance(24 * HOUR)
    await memory.remember("new", importance=0.5)
    assert contents(await memory.recall()) == ["new", "often"]  # 0.5 + 0.5 beside 0.5 + 0.5 / e
    await memory.recall(tags=["often"])
    await memory.recall(tags=["often"])
    # uses are 3 and 1, the most 3: 0.5 + 0.5 / e + 0.4 * 3 / 4 beside 0.5 + 0.5 + 0.4 * 1 / 4
    assert [each.score for each in await memory.recall()] == pytest.approx([1.1, 0.983940], abs=1e-6)


async def test_only_what_was_recalled_counts_as_used() -> None:
    memory = EpisodicMemory(LocalMemoryStore(), "ann")
    first = await memory.remember("first", importance=0.9)
    second = await memory.remember("second", importance=0.1)
    await memory.recall(limit=1)
    assert [record.uses for record in await memory.store.get([first.id, second.id])] == [1, 0]


async def test_beyond_the_capacity_the_least_important_goes_but_never_the_newcomer() -> None:
    store = LocalMemoryStore()
    memory = EpisodicMemory(store, "ann", capacity=2)
    await EpisodicMemory(store, "ben").remember("ben's", importance=0.0)
    await memory.remember("low", importance=0.3)
    await memory.remember("high", importance=0.9)
    await memory.remember("lowest", importance=0.1)
    assert contents(await memory.recall()) == ["high", "lowest"]
    assert [each.content async for each in store.scan(owner="ann", archived=True)] == ["low"]
    assert await store.count(owner="ben") == 1


async def test_what_goes_can_be_the_oldest_and_can_be_deleted() -> None:
    clock, store = HandClock(), LocalMemoryStore()
    memory = EpisodicMemory(store, "ann", capacity=1, evict=oldest, keep_evicted=False, ctx=context(clock))
    for name, importance in (("old", 0.9), ("new", 0.1)):
        await memory.remember(name, importance=importance)
        await clock.advance(1)
    assert contents(await memory.recall()) == ["new"]
    assert await store.count(owner="ann", archived=None) == 1


async def test_beyond_the_maximal_age_nothing_is_recalled_and_pruning_archives_it() -> None:
    clock = HandClock()
    memory = EpisodicMemory(LocalMemoryStore(), "ann", max_age=DAY, ctx=context(clock))
    await memory.remember("tea long ago")
    await clock.advance(DAY)
    assert contents(await memory.recall()) == ["tea long ago"]
    await clock.advance(1)
    await memory.remember("tea now")
    assert contents(await memory.recall()) == contents(await memory.recall("tea")) == ["tea now"]
    assert await memory.prune() == 1
    assert await memory.prune() == 0
    assert await memory.count() == 1


async def test_a_query_narrows_what_is_weighed() -> None:
    memory = EpisodicMemory(LocalMemoryStore(), "ann")
    await memory.remember("The deployment of Monday failed.", importance=0.2)
    await memory.remember("The deployment of Friday went well.", importance=0.6)
    await memory.remember("Lunch was good.", importance=1.0)
    assert contents(await memory.recall("deployment")) == [
        "The deployment of Friday went well.",
        "The deployment of Monday failed.",
    ]


@pytest.mark.parametrize(
    ("setting", "value"), [("capacity", 0), ("capacity", "9"), ("max_age", 0), ("owner", ""), ("embedder", 3)]
)
def test_wrong_arguments_raise_at_once(setting: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=f"{setting}=.*{value!r}"):
        EpisodicMemory(LocalMemoryStore(), **wrong({"owner": "ann", setting: value}))
    with pytest.raises(ConfigurationError, match="open_memory"):
        EpisodicMemory(wrong("memory:"), "ann")


@settings(max_examples=amount(30, 300))
@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=25),
    st.integers(1, 6),
    st.sampled_from([lowest(), oldest]),
    st.data(),
)
async def test_capacity_holds_the_newcomer_stays_and_order_is_by_score(
    worths: list[float], capacity: int, evict: Eviction, data: st.DataObject
) -> None:
    clock, store = HandClock(), LocalMemoryStore()
    memory = EpisodicMemory(store, "ann", capacity=capacity, evict=evict, ctx=context(clock))
    for number, worth in enumerate(worths, start=1):
        made = await memory.remember(f"{number}", importance=worth)
        kept = [record.id async for record in memory.scan()]
        assert len(kept) == min(number, capacity)
        assert made.id in kept
        assert await store.count(owner="ann", archived=None) == number  # nobody is lost
        await clock.advance(data.draw(st.sampled_from([0.0, 1.0])))
    recalled = await memory.recall(limit=30)
    assert [each.score for each in recalled] == sorted((each.score for each in recalled), reverse=True)
    assert [each.record for each in recalled] == sorted(
        (each.record for each in recalled), key=lambda record: (-record.importance, record.created, int(record.content))
    )
