"""Tests of episodic, semantic and working memory."""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from math import log
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from tests.memory.making import DAY, HOUR, context, embedder_of
from tests.samples import amount
from tests.wrong import wrong
from ziggurat import ConfigurationError, Context
from ziggurat.memory import (
    EpisodicMemory,
    SemanticMemory,
    WorkingMemory,
    half_life,
    hybrid,
    importance,
    lowest,
    oldest,
    open_memory,
    product,
)
from ziggurat.memory.scoring import Eviction
from ziggurat.memory.search import Recalled
from ziggurat.memory.stores.sqlite import LocalMemoryStore
from ziggurat.messages import Embeddings, EmbedRequest
from ziggurat.messages.model import pack
from ziggurat.testing import HandClock


def contents(recalled: Sequence[Recalled]) -> list[str]:
    return [each.content for each in recalled]


async def test_the_more_important_of_two_episodes_comes_first_and_strangers_have_none() -> None:
    store = LocalMemoryStore()
    memory = EpisodicMemory(store, "demo")
    await memory.remember("Urchins are the main grazers of kelp.", importance=0.8)
    await memory.remember("Kelp is tall and salt-tolerant.", importance=0.9)
    recalled = await memory.recall(limit=3)
    assert contents(recalled) == ["Kelp is tall and salt-tolerant.", "Urchins are the main grazers of kelp."]
    assert [each.score for each in recalled] == [0.9, 0.8]
    assert await EpisodicMemory(store, "somebody").recall() == []


async def test_equals_come_in_the_order_they_were_made() -> None:
    memory = EpisodicMemory(LocalMemoryStore(), "ann", ctx=context(HandClock()))
    for name in "abcd":
        await memory.remember(name)
    assert contents(await memory.recall(limit=3)) == ["a", "b", "c"]


async def test_importance_halves_with_the_half_life_however_often_it_is_recalled() -> None:
    clock = HandClock()
    memory = EpisodicMemory(
        LocalMemoryStore(), "ann", score=product(importance, half_life(hours=24)), ctx=context(clock)
    )
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


async def test_what_goes_can_be_the_oldest() -> None:
    clock, store = HandClock(), LocalMemoryStore()
    memory = EpisodicMemory(store, "ann", capacity=1, evict=oldest, ctx=context(clock))
    for name, judged in (("old", 0.9), ("new", 0.1)):
        await memory.remember(name, importance=judged)
        await clock.advance(1)
    assert contents(await memory.recall()) == ["new"]
    assert [each.content async for each in store.scan(owner="ann", archived=True)] == ["old"]


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


async def test_one_word_of_two_brings_a_fact_to_mind_first() -> None:
    memory = SemanticMemory(LocalMemoryStore(), "ann")
    await memory.remember("otters are playful swimmers", key="otter_fact")
    await memory.remember("timetable of the night ferry", key="physics")
    first, *_ = await memory.recall("playful animals", limit=2)
    assert first.record.facts["key"] == "otter_fact"
    assert first.score == pytest.approx(log(3) / (log(3) + log(5)))  # one word of two, in one of two memories


async def test_tags_must_all_be_there_and_narrow_a_search() -> None:
    memory = SemanticMemory(LocalMemoryStore(), "ann")
    for content, tags in (("cats purr", ["animal", "home"]), ("lions purr", ["animal"]), ("cars purr", [])):
        await memory.remember(content, tags=tags)
    assert {each.content for each in await memory.recall(tags=["animal"])} == {"cats purr", "lions purr"}
    assert [each.content for each in await memory.recall(tags=["home", "animal"])] == ["cats purr"]
    assert [each.content for each in await memory.recall("cars cats", tags=["animal"])] == ["cats purr"]


async def test_meaning_is_the_cosine_of_embeddings() -> None:
    embedder = embedder_of(north=(0, 1), east=(1, 0), elsewhere=(3, 4))
    memory = SemanticMemory(LocalMemoryStore(), "ann", embedder=embedder)
    await memory.remember("north")
    await memory.remember("east")
    recalled = await memory.recall("elsewhere")
    assert [(each.content, round(each.score, 6)) for each in recalled] == [("north", 0.8), ("east", 0.6)]


async def test_a_fact_takes_the_place_of_the_one_under_its_key() -> None:
    memory = SemanticMemory(LocalMemoryStore(), "ann")
    blue = await memory.remember("Ann's colour is blue.", key="colour")
    assert await memory.remember("Ann's colour is blue.", key="colour") == blue
    red = await memory.remember("Ann's colour is red.", key="colour", origin="tool", taint=["web"])
    await memory.remember("Ann's town is Rome.", key="town")
    assert red.supersedes == blue.id
    assert await memory.about("colour") == red
    assert await memory.about("shape") is None
    assert await memory.count() == 2
    assert [each.id for each in await memory.history(red.id)] == [red.id, blue.id]


async def test_a_key_is_text_and_tags_are_words() -> None:
    store = LocalMemoryStore()
    wrong: list[dict[str, Any]] = [{"key": 3}, {"key": ""}, {"tags": "travel"}, {"tags": 3}, {"tags": None}]
    for options in wrong:
        with pytest.raises(ConfigurationError, match="".join(options)):
            await SemanticMemory(store, "ann").remember("Ann lives in Rome.", **options)
    assert await store.count(owner="ann") == 0


async def test_a_fact_is_found_by_its_key_too() -> None:
    """By words, and by the vector: its text then begins with the key."""
    embedded: list[str] = []

    async def embedder(request: EmbedRequest, ctx: Context) -> Embeddings:
        embedded.extend(request.texts)
        return Embeddings(tuple(pack([1.0, float(len(text))]) for text in request.texts))

    memory = SemanticMemory(LocalMemoryStore(), "ann")
    await memory.remember("Ann drinks tea.")
    rome = await memory.remember("Ann lives in Rome.", key="home town")
    assert [each.record.id for each in await memory.recall("What is her home town?")] == [rome.id]
    memory = SemanticMemory(memory.store, "ann", embedder=embedder)
    await memory.remember("Ann moved to Oslo.", key="home town")
    assert embedded == [
        *("home town: Ann moved to Oslo.", "home town"),
        *("Ann drinks tea.", "home town: Ann lives in Rome.", "home town"),
    ]


async def test_reading_a_value_keeps_it_and_the_least_recently_used_goes() -> None:
    store = LocalMemoryStore()
    memory = WorkingMemory(store, "ann", capacity=2, ctx=context(HandClock()))
    await memory.set("goal", "fly to Rome")
    await memory.set("seat", "window")
    assert await memory.get("goal") == "fly to Rome"
    await memory.set("meal", "pasta")
    assert await memory.items() == {"goal": "fly to Rome", "meal": "pasta"}
    assert await memory.get("seat") is None
    await memory.set("goal", "fly to Oslo", origin="tool")
    assert await memory.items() == {"meal": "pasta", "goal": "fly to Oslo"}
    assert [record.taint async for record in store.scan(owner="ann", newest_first=True, limit=1)] == [("tool",)]
    assert await WorkingMemory(store, "an").items() == {}
    assert (await memory.discard("goal"), await memory.discard("goal")) == (True, False)
    await memory.clear()
    assert await memory.items() == {}


def test_a_wrong_capacity_of_working_memory_raises() -> None:
    with pytest.raises(ConfigurationError, match="capacity"):
        WorkingMemory(LocalMemoryStore(), "ann", capacity=0)
    with pytest.raises(ConfigurationError, match="owner"):
        WorkingMemory(LocalMemoryStore(), "")


@settings(max_examples=amount(30, 300))
@given(st.integers(1, 4), st.lists(st.tuples(st.booleans(), st.sampled_from("abcdef"), st.sampled_from([0.0, 1.0]))))
async def test_it_does_what_an_ordered_dictionary_would(capacity: int, acts: list[tuple[bool, str, float]]) -> None:
    clock, expected = HandClock(), OrderedDict[str, str]()
    memory = WorkingMemory(LocalMemoryStore(), "ann", capacity=capacity, ctx=context(clock))
    for number, (is_set, name, wait) in enumerate(acts):
        if is_set:
            expected[name] = f"{number}"
            await memory.set(name, f"{number}")
        else:
            assert await memory.get(name) == expected.get(name)
        if name in expected:
            expected.move_to_end(name)
        while len(expected) > capacity:
            expected.popitem(last=False)
        await clock.advance(wait)
    assert list((await memory.items()).items()) == list(expected.items())


@pytest.mark.parametrize(("capacity", "values"), [(3, 20), (10, 12), (64, 66)])
async def test_concurrent_writers_evict_no_more_than_the_surplus(capacity: int, values: int, tmp_path: Path) -> None:
    for url in (f"sqlite:///{tmp_path}/m.db", "memory:"):
        store = open_memory(url)
        memory = WorkingMemory(store, "ann", capacity=capacity)
        await asyncio.gather(*(memory.set(f"k{number}", "v") for number in range(values)))
        assert len(await memory.items()) == capacity
        await store.close()
