"""Tests of the similarity of texts and memories."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ziggurat.memory.record import MemoryRecord, pack
from ziggurat.memory.similar import Near, duplicates, term_cosine
from ziggurat.memory.words import terms


def record(number: int, content: str, embedding: bytes | None = None) -> MemoryRecord:
    return MemoryRecord(id=f"{number}", owner="ann", content=content, embedding=embedding)


def test_terms_are_words_in_small_letters() -> None:
    assert terms("It isn\u2019t 9:30, Ann!") == ["it", "isn't", "9", "30", "ann"]


def test_the_cosine_of_words_by_hand() -> None:
    assert term_cosine("a a b", "a c") == pytest.approx(0.632456, abs=1e-6)  # 2 / sqrt(5 * 2)
    assert term_cosine("Tea is hot.", "hot is TEA") == pytest.approx(1.0)
    assert term_cosine("", "tea") == 0.0


def test_vectors_are_compared_where_all_have_them() -> None:
    vectors = [pack([1, 0]), pack([0, 1]), pack([2, 0.1]), pack([0, 0])]
    records = [record(number, "same", vector) for number, vector in enumerate(vectors)]
    (near,) = duplicates(records, 0.85)
    assert (near.first, near.second) == (0, 2)
    assert near.similarity == pytest.approx(0.998752, abs=1e-6)
    assert len(duplicates([*records, record(9, "same")], 0.85)) == 10  # by words then


@given(st.lists(st.lists(st.sampled_from("abcde"), max_size=4).map(" ".join), max_size=10))
def test_every_two_are_found_that_the_cosine_finds(texts: list[str]) -> None:
    records = [record(number, text) for number, text in enumerate(texts)]
    expected = [
        Near(one, two, cosine)
        for one in range(len(texts))
        for two in range(one + 1, len(texts))
        if (cosine := term_cosine(texts[one], texts[two])) > 0.7
    ]
    found = duplicates(records, 0.7)
    assert [(near.first, near.second) for near in found] == [(near.first, near.second) for near in expected]
