"""Tests of the parts of a request that can be copied."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ziggurat.models.local.spans import Span, Words, rarity


def _texts(words: Words, spans: list[Span]) -> list[str]:
    return [words.text[span.start : span.end] for span in spans]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('Say "see you soon", twice!', ["Say", "see you soon", "twice"]),
        ("Say 'it's fine' now", ["Say", "it's fine", "now"]),
        ("Open notes.txt, please.", ["Open", "notes.txt", "please"]),
        ("¿Qué tiempo hace?", ["Qué", "tiempo", "hace"]),
        (" ... ", []),
    ],
)
def test_words_without_what_is_around_them(text: str, found: list[str]) -> None:
    words = Words(text)
    assert _texts(words, words.spans) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Give me 3, 1,500 and 2.5", ["3", "1500", "2.5"]),
        ("$20 or 8kg at -3°C or 20%", ["20", "8", "-3", "20"]),
        ("twelve seats", ["12"]),
        ("KX-451 on 2027-03-14 at 16:30", []),
    ],
)
def test_numbers_but_not_codes_dates_or_times(text: str, found: list[str]) -> None:
    assert [digits for digits, _ in Words(text).numbers()] == found


def test_runs_leave_out_what_is_used_and_cut_no_name() -> None:
    words = Words("Call Ann Lee at 7")
    used = [words.spans[-1]]
    found = ["Call", "Call Ann Lee", "Call Ann Lee at", "Ann Lee", "Ann Lee at", "at"]
    assert _texts(words, list(words.runs(used))) == found
    run = Span(words.spans[1].start, words.spans[2].end)
    assert words.ends(run) == ("Ann", "Lee", 2)
    assert words.around(words.spans[4]) == "Lee at 7"


@given(st.text(max_size=80))
def test_runs_are_parts_of_any_text(text: str) -> None:
    words = Words(text)
    for run in words.runs([]):
        first, last, count = words.ends(run)
        assert first
        assert last
        assert 1 <= count <= 24
        assert text[run.start : run.end].startswith(first)
        assert text[run.start : run.end].endswith(last)
    for _, span in words.numbers():
        assert words.around(span) in text


def test_rare_words_are_told_from_frequent_ones() -> None:
    assert rarity("the") < 0.2 < rarity("kitchen") < rarity("KX-451-B") <= 1.0
    assert rarity("") == rarity("KX-451-B") >= rarity("ratatouille") > 0.9
