"""Tests of the similarity of texts and memories."""

import unicodedata

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.samples import amount
from ziggurat.memory import MemoryRecord, find_same
from ziggurat.memory.record import pack
from ziggurat.memory.similar import say_the_same, term_cosine, wording
from ziggurat.memory.words import terms

few = settings(max_examples=amount(30, 300))


def record(number: int, content: str, embedding: bytes | None = None) -> MemoryRecord:
    return MemoryRecord(id=f"{number}", owner="ann", content=content, embedding=embedding)


def test_terms_are_words_in_small_letters() -> None:
    assert terms("It isn\u2019t 9:30, Ann!") == ["it", "isn't", "9", "30", "ann"]


def test_the_cosine_of_words_by_hand() -> None:
    assert term_cosine("a a b", "a c") == pytest.approx(0.632456, abs=1e-6)  # 2 / sqrt(5 * 2)
    assert term_cosine("Tea is hot.", "hot is TEA") == pytest.approx(1.0)
    assert term_cosine("", "tea") == 0.0


def test_memories_that_say_the_same_are_found_in_groups() -> None:
    vectors = [pack([1, 0]), pack([0, 1]), pack([2, 0.1]), pack([0, 0]), None]
    records = [record(number, "same", vector) for number, vector in enumerate(vectors)]
    (group,) = find_same(records[:4])
    assert group.places == [0, 2]
    assert group.similarity == pytest.approx(0.998752, abs=1e-6)
    assert [each.places for each in find_same(records)] == [[0, 2, 4]]  # the last one by words
    assert find_same(records, 1.0) == []
    models = [msgspec.structs.replace(each, embedder=f"model {each.id}") for each in records[:4]]
    assert [each.places for each in find_same(models)] == [[0, 1, 2, 3]]  # vectors of different models


@given(st.lists(st.lists(st.sampled_from(["a", "b", "A", "really", "not"]), max_size=4).map(" ".join), max_size=10))
def test_each_memory_is_in_the_group_of_its_wording(texts: list[str]) -> None:
    records = [record(number, text) for number, text in enumerate(texts)]
    for group in find_same(records, 0.0):
        assert len({wording(texts[place]) for place in group.places}) == 1
        assert sorted(group.places) == group.places
    grouped = [place for group in find_same(records, 0.0) for place in group.places]
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
    assert not say_the_same(one, other)
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
    assert say_the_same(text, f"  {bare}{end}")
