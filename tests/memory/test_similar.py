"""Similarity of texts and memories: the same wording, TF-IDF, and clusters."""

import math
import sys
import unicodedata
from importlib.util import find_spec
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given, settings, strategies as st

from tests.samples import amount
from ziggurat.errors import MissingExtra
from ziggurat.memory import MemoryRecord, TfIdf
from ziggurat.memory.similar import cluster, find_same, wording
from ziggurat.memory.words import terms
from ziggurat.messages.model import pack

few = settings(max_examples=amount(30, 300))


def record(number: int, content: str, embedding: bytes | None = None) -> MemoryRecord:
    return MemoryRecord(id=f"{number}", owner="ann", content=content, embedding=embedding)


def places(records: list[MemoryRecord], *bound: float) -> list[list[int]]:
    return [[int(each.id) for each in group] for group, _ in find_same(records, *bound)]


def test_terms_are_words_in_small_letters() -> None:
    assert terms("It isn\u2019t 9:30, Ann!") == ["it", "isn't", "9", "30", "ann"]


def test_memories_that_say_the_same_are_found_in_groups() -> None:
    vectors = [pack([1, 0]), pack([0, 1]), pack([2, 0.1]), pack([0, 0]), None]
    records = [record(number, "same", vector) for number, vector in enumerate(vectors)]
    ((group, cosine),) = find_same(records[:4])
    assert group == [records[0], records[2]]
    assert cosine == pytest.approx(0.998752, abs=1e-6)
    assert places(records) == [[0, 2, 4]]  # the last one has no vector
    assert find_same(records, 1.0) == []
    models = [msgspec.structs.replace(each, embedder=f"model {each.id}") for each in records[:4]]
    assert places(models) == [[0, 1, 2, 3]]  # vectors of different models


@given(st.lists(st.lists(st.sampled_from(["a", "b", "A", "really", "not"]), max_size=4).map(" ".join), max_size=10))
def test_each_memory_is_in_the_group_of_its_wording(texts: list[str]) -> None:
    records = [record(number, text) for number, text in enumerate(texts)]
    groups = places(records, 0.0)
    for group in groups:
        assert len({wording(texts[place]) for place in group}) == 1
        assert sorted(group) == group
    grouped = [place for group in groups for place in group]
    assert len(grouped) == len(set(grouped))


FRAMES = {
    "en": ["{} paid the rent.", "Since May {} works here.", "The key is with {}, on the left."],
    "de": ["{} hat die Miete bezahlt.", "Der Schlüssel ist bei {}."],
    "fr": ["{} a payé le loyer.", "La clé est chez {}."],
    "es": ["{} pagó el alquiler.", "La llave la tiene {}."],
    "ru": ["{} заплатил за квартиру."],
    "zh": ["{}付了房租。"],
    "ja": ["{}が家賃を払った。"],
}
"""Sentences in which a name can stand."""

names = st.text(st.characters(categories=("Lu", "Ll", "Lo")), min_size=1, max_size=6)
numbers = st.decimals(-9999, 9999, places=2).map(str) | st.integers(-99_999, 99_999).map(str)
units = st.sampled_from(["mg", "Mg", "mW", "MW", "%", "€", "$", "°C", "°F", "m²", "m³", "µg", "C++", "C#", "C"])
OPPOSITES = [
    ("{} is open.", "{} is not open."),
    ("{} is open.", "{} isn't open."),
    ("{} is not really a friend.", "{} is not a friend."),
    ("{} may park here.", "{} may never park here."),
    ("{} was hired before May.", "{} was hired after May."),
    ("{} works here.", "{} worked here."),
    ("{} has a dog.", "{} has dogs."),
    ("{} ist angekommen.", "{} ist nicht angekommen."),
    ("{} hat ein Auto.", "{} hat kein Auto."),
    ("{} ist früh hier.", "{} ist spät hier."),
    ("{} mag die Masse.", "{} mag die Maße."),
    ("{} fume.", "{} ne fume pas."),
    ("{} est grand.", "{} est petit."),
    ("{} come carne.", "{} no come carne."),
    ("{} придёт.", "{} не придёт."),
    ("{}吃肉。", "{}不吃肉。"),
    ("{}は肉を食べる。", "{}は肉を食べない。"),
    ("Did {} pay?", "Did {} pay."),
    ("{} paid more than 5.", "{} paid less than 5."),
    ("{}: x > 5", "{}: x < 5"),
]
ENDINGS = ["a", "e", "i", "y", "s", "ie", "er", "ed", "ing", "al", "ant", "ly", "é", "o", "ы", "ов"]


def apart(one: str, other: str) -> None:
    assert wording(one) != wording(other)
    records = [record(0, one, pack([1, 0])), record(1, other, pack([1, 0]))]
    assert find_same(records, 0.5) == []


def as_read(text: str) -> str:
    return unicodedata.normalize("NFC", text).lower()


@given(st.sampled_from([each for frames in FRAMES.values() for each in frames]), names, names)
def test_another_name_is_never_the_same(frame: str, one: str, other: str) -> None:
    assume(as_read(one) != as_read(other))
    apart(frame.format(one), frame.format(other))


@given(st.sampled_from([each for frames in FRAMES.values() for each in frames]), names, st.sampled_from(ENDINGS))
def test_a_name_that_only_ends_differently_is_never_the_same(frame: str, name: str, ending: str) -> None:
    assume(as_read(name + ending) != as_read(name))
    apart(frame.format(name), frame.format(name + ending))


@given(
    st.sampled_from(["It takes {} {} of it.", "Ann: {} {}", "{} {}", "温度是{}{}。"]), numbers, numbers, units, units
)
def test_another_number_or_unit_is_never_the_same(frame: str, one: str, other: str, unit: str, other_unit: str) -> None:
    if one != other:
        apart(frame.format(one, unit), frame.format(other, unit))
    if unit != other_unit:
        apart(frame.format(one, unit), frame.format(one, other_unit))


@given(st.sampled_from(OPPOSITES), names)
def test_an_opposite_is_never_the_same(pair: tuple[str, str], name: str) -> None:
    apart(pair[0].format(name), pair[1].format(name))


@given(
    st.sampled_from([each for frames in FRAMES.values() for each in frames]),
    names,
    st.sampled_from(["!", "", " .", "\n"]),
)
def test_punctuation_and_spaces_say_nothing(frame: str, name: str, end: str) -> None:
    text = frame.format(name)
    bare = text.rstrip(".。").replace(" ", "  ")
    assert wording(text) == wording(f"  {bare}{end}")


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


def test_the_nearest_animal() -> None:
    index: TfIdf[str] = TfIdf()
    index.add("otter_fact", "otters are playful swimmers that dive")
    index.add("seal_fact", "seals are lazy swimmers that bask")
    index.add("stock_fact", "stocks fell on Tuesday")
    assert [key for key, _ in index.search("playful swimmers", 3)] == ["otter_fact", "seal_fact"]


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


if find_spec("sklearn") is None:  # which takes a second to import
    pytest.skip("scikit-learn is not installed", allow_module_level=True)


def records(texts: list[str], vectors: list[list[float]] | None = None) -> list[MemoryRecord]:
    return [
        MemoryRecord(
            id=f"{place}", owner="ann", content=text, embedding=pack(vectors[place]) if vectors is not None else None
        )
        for place, text in enumerate(texts)
    ]


def clustered(*given: Any, **settings: Any) -> tuple[list[int], list[float]]:
    found = cluster(*given, **settings)
    return [label for label, _ in found], [cosine for _, cosine in found]


def test_words_of_two_letters_and_how_they_are_written_say_nothing() -> None:
    labels, cosines = clustered(records(["tea tea is hot", "it is at TEA: hot, tea", "at it", "is of"]))
    assert labels[0] == labels[1]
    assert cosines == pytest.approx([1.0, 1.0, 0.0, 0.0])


def test_matters_are_told_apart_by_words_and_the_same_way_each_time() -> None:
    texts = ["green tea with milk", "quarterly tax report", "tea with much milk", "tax report late", "", "milk tea"]
    labels, cosines = clustered(records(texts), within=0.2)
    first = labels[0]
    assert [label == first for label in [*labels[:4], labels[5]]] == [True, False, True, False, True]
    assert labels[1] == labels[3]
    assert cosines[4] == 0.0
    assert all(clustered(records(texts), within=0.2) == (labels, cosines) for _ in range(5))


def test_matters_are_told_apart_by_vectors() -> None:
    vectors = [[1.0, 0.0], [0.0, 1.0], [0.9, 0.1], [0.1, 2.0]]
    labels, cosines = clustered(records(["x"] * 4, vectors), 2)
    assert labels[0] == labels[2] != labels[1] == labels[3]
    # the centre of the first two unit vectors halves the angle between them: cos(atan(1 / 9) / 2)
    assert cosines[0] == pytest.approx(math.cos(math.atan(1 / 9) / 2), abs=1e-6)


def test_there_are_no_more_groups_than_different_memories() -> None:
    assert clustered(records(["tea"] * 5), 3)[0] == [0] * 5
