"""Tests of clustering similar memories."""

import math

import pytest

from ziggurat.memory import MemoryRecord
from ziggurat.memory.clusters import cluster
from ziggurat.memory.record import pack

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
