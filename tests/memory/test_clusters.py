"""Tests of TF-IDF, and of clustering similar memories."""

import math
import sys

import pytest

from ziggurat.errors import MissingExtra
from ziggurat.memory import MemoryRecord, TfIdf
from ziggurat.memory.clusters import cluster
from ziggurat.memory.record import pack


def test_weights_by_hand() -> None:
    index: TfIdf[str] = TfIdf()
    index.add("one", "red apple apple")
    index.add("two", "red pear")
    # of two texts: red in both, apple in one
    red, apple = 1 / 3 * math.log(1 + 2 / 3), 2 / 3 * math.log(1 + 2 / 2)
    norm = math.hypot(red, apple)
    assert index.vector("one") == pytest.approx({"red": red / norm, "apple": apple / norm})
    ((key, score),) = index.search("An apple!")
    assert key == "one"
    assert score == pytest.approx(apple / norm)


def test_what_was_kept_early_is_weighed_as_what_was_kept_late() -> None:
    index: TfIdf[str] = TfIdf()
    index.add("early", "tea time")
    before = index.vector("early")
    for place in range(5):
        index.add(f"x{place}", "time and time again")
    index.add("late", "tea time")
    assert index.vector("early") == index.vector("late") != before
    assert [key for key, _ in index.search("tea", 2)] == ["early", "late"]


def test_the_nearest_pet() -> None:
    index: TfIdf[str] = TfIdf()
    index.add("cat_fact", "cats are fluffy pets that purr")
    index.add("dog_fact", "dogs are loyal pets that bark")
    index.add("stock_fact", "stocks fell on Tuesday")
    assert [key for key, _ in index.search("fluffy pets", 3)] == ["cat_fact", "dog_fact"]


def test_nothing_is_found_where_nothing_is() -> None:
    index: TfIdf[int] = TfIdf()
    assert index.search("tea") == []
    index.add(1, "tea")
    index.add(1, "coffee")
    assert len(index) == 1
    assert index.search("tea") == []
    assert index.search("coffee", 0) == []
    index.remove(1)
    index.remove(1)
    assert index.search("coffee") == []
    index.add(2, "the of")
    assert index.search("the coffee") == []
    assert index.vector(2) == {}


def test_without_scikit_learn_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.feature_extraction.text", None)
    index: TfIdf[int] = TfIdf()
    index.add(1, "tea")
    with pytest.raises(MissingExtra) as raised:
        index.search("tea")
    assert raised.value.extra == "memory"


pytest.importorskip("sklearn")


def records(texts: list[str], vectors: list[list[float]] | None = None) -> list[MemoryRecord]:
    return [
        MemoryRecord(
            id=f"{place}", owner="ann", content=text, embedding=pack(vectors[place]) if vectors is not None else None
        )
        for place, text in enumerate(texts)
    ]


def test_words_of_two_letters_and_how_they_are_written_say_nothing() -> None:
    found = cluster(records(["tea tea is hot", "it is at TEA: hot, tea", "at it", "is of"]))
    assert found.labels[0] == found.labels[1]
    assert found.similarities == pytest.approx([1.0, 1.0, 0.0, 0.0])


def test_matters_are_told_apart_by_words_and_the_same_way_each_time() -> None:
    texts = ["green tea with milk", "quarterly tax report", "tea with much milk", "tax report late", "", "milk tea"]
    found = cluster(records(texts), within=0.2)
    first = found.labels[0]
    assert [label == first for label in [*found.labels[:4], found.labels[5]]] == [True, False, True, False, True]
    assert found.labels[1] == found.labels[3]
    assert found.similarities[4] == 0.0
    assert all(cluster(records(texts), within=0.2) == found for _ in range(5))


def test_matters_are_told_apart_by_vectors() -> None:
    vectors = [[1.0, 0.0], [0.0, 1.0], [0.9, 0.1], [0.1, 2.0]]
    found = cluster(records(["x"] * 4, vectors), 2)
    assert found.labels[0] == found.labels[2] != found.labels[1] == found.labels[3]
    # the centre of the first two unit vectors halves the angle between them: cos(atan(1 / 9) / 2)
    assert found.similarities[0] == pytest.approx(math.cos(math.atan(1 / 9) / 2), abs=1e-6)


def test_there_are_no_more_groups_than_different_memories() -> None:
    assert cluster(records(["tea"] * 5), 3).labels == [0] * 5
