"""Tests of the relevance of a match by meaning and words."""

import asyncio
from random import Random

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from ziggurat.memory import MemoryRecord, Query
from ziggurat.memory.search import relevance
from ziggurat.memory.store import Hit
from ziggurat.memory.stores.sqlite import LocalMemoryStore
from ziggurat.messages.model import pack

cosines = st.floats(-1, 1)
shares = st.floats(0, 1)


@given(cosines, cosines, shares, shares)
def test_more_meaning_and_more_words_are_never_worse(one: float, other: float, few: float, many: float) -> None:
    low, high = sorted((one, other))
    few, many = sorted((few, many))
    assert relevance(low, few) <= relevance(high, few) + 1e-12
    assert relevance(low, few) <= relevance(low, many) + 1e-12
    assert low - 1e-12 <= relevance(low, few) <= 1.0
    assert relevance(low, 0.0) == low


def found(contents: dict[str, float], query: str, floor: float = -1.0) -> list[Hit]:
    """Search memories with these cosines to the query."""

    async def main() -> list[Hit]:
        store = LocalMemoryStore()
        await store.add(
            [
                MemoryRecord(id=text, owner="ann", content=text, embedding=pack([cosine, (1 - cosine**2) ** 0.5]))
                for text, cosine in contents.items()
            ]
        )
        return await store.search(Query(owner="ann", text=query, embedding=pack([1, 0]), floor=floor))

    return asyncio.run(main())


def test_one_word_in_common_proves_nothing_and_several_do() -> None:
    contents = {"The boat is in the harbour.": 0.3, "A dog barked.": 0.29, "The red dog sleeps in a basket.": 0.2}
    first, second, third = found(contents, "Where does the red dog like to stay?")
    assert [hit.record.id for hit in (first, second, third)] == [
        "The red dog sleeps in a basket.",
        "The boat is in the harbour.",
        "A dog barked.",
    ]
    assert third.relevance == pytest.approx(third.similarity)
    assert third.text_score is not None


def test_a_number_or_a_word_asked_alone_proves_something() -> None:
    contents = {"The boat is in the harbour.": 0.3, "Invoice 8841 is paid.": 0.2}
    for query in ("Which one was 8841?", "invoice"):
        assert found(contents, query)[0].record.id == "Invoice 8841 is paid."


def test_the_floor_is_for_each_memory() -> None:
    contents = {"boat": 0.6, "harbour": 0.31, "dog": 0.19, "cat": -0.5}
    assert [hit.record.id for hit in found(contents, "?", 0.2)] == []
    assert [hit.record.id for hit in found(contents, "quay", 0.2)] == ["boat", "harbour"]
    assert found(contents, "quay", 0.61) == []
    assert len(found(contents, "quay")) == 4


@pytest.mark.parametrize("facts", [3, 40, 300])
async def test_kinds_that_are_looked_for_apart_hide_nothing(facts: int) -> None:
    """The hits are those of a search of all and of a search of the other kinds, together in order of relevance."""

    draw, store = Random(facts), LocalMemoryStore()
    kinds = ["episodic"] * 700 + ["semantic"] * facts
    await store.add(
        [
            MemoryRecord(
                id=str(number),
                owner="ann",
                content=f"tea {draw.choice(('hot', 'cold'))} {number}",
                kind=kind,
                embedding=pack([draw.uniform(0.5, 1) if kind == "episodic" else 0.4, 1, draw.random()]),
            )
            for number, kind in enumerate(kinds)
        ]
    )
    for text in (None, "hot tea"):
        query = Query(owner="ann", text=text, embedding=pack([1, 0, 0]), limit=10)
        both = await store.search(replace(query, apart=("episodic",)))
        every, others = await store.search(query), await store.search(replace(query, without=("episodic",)))
        assert {hit.record.id for hit in both} == {hit.record.id for hit in (*every, *others)}
        good = [round(hit.relevance, 6) for hit in both]
        assert good == sorted(good, reverse=True)
