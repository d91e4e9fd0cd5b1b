"""Tests of contradictions, as far as words show them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.samples import amount
from ziggurat.memory import MemoryRecord
from ziggurat.memory.contradiction import contradict, contradictions


def fact(text: str, key: str | None = None) -> MemoryRecord:
    return MemoryRecord(id=text, owner="ann", content=text, facts={} if key is None else {"key": key})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The user lives in Paris.", "The user lives in Rome."),
        ("The user is vegetarian.", "The user is not vegetarian."),
        ("Ann likes green tea.", "Ann doesn't like green tea."),
        ("The meeting starts at 5 pm.", "The meeting starts at 6 pm."),
        ("The budget is 1,000 euros.", "The budget is 2,000 euros."),
        ("Ann's favourite colour is blue.", "Ann's favourite colour is dark green."),
        ("She works at Acme.", "She works for Umbrella."),
    ],
)
def test_these_exclude_each_other(one: str, other: str) -> None:
    assert contradict(fact(one), fact(other))
    assert contradict(fact(other), fact(one))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The user lives in Paris.", "the user lives in Paris!"),
        ("The user likes tea.", "The user likes coffee."),
        ("Ann is not tall.", "Ben is not tall."),
        ("Ann has 2 cats.", "Ben owns 3 dogs."),
        ("The user lives in Paris.", "The user lives in the centre of Paris."),
        ("Ann does not eat meat.", "Ann went to the market and bought bread."),
        ("It is raining.", "Rome is old."),
        ("Day 3: the release is on track.", "Day 4: the release is on track."),
    ],
)
def test_these_do_not(one: str, other: str) -> None:
    assert not contradict(fact(one), fact(other))
    assert not contradict(fact(other), fact(one))


def test_one_key_has_one_fact() -> None:
    assert contradict(fact("blue", "colour"), fact("any but blue", "colour"))
    assert not contradict(fact("blue", "colour"), fact("blue", "colour"))


WORDS = ("ann", "lives", "likes", "like", "is", "not", "doesn't", "in", "rome", "oslo", "tea", "5", "6", "the")
texts = st.lists(st.sampled_from(WORDS), max_size=7).map(" ".join)


@settings(max_examples=amount(30, 500))
@given(st.lists(texts, max_size=8))
def test_every_two_are_met_that_contradict(said: list[str]) -> None:
    records = [fact(text) for text in said]
    assert contradictions(records) == [
        (one, other)
        for one in range(len(said))
        for other in range(one + 1, len(said))
        if contradict(records[one], records[other])
    ]
