"""Tests of the parts of a request that can be copied."""

import pytest
from hypothesis import given, strategies as st

from ziggurat.models.local.spans import Span, Words, expression_in, in_digits, rarity
from ziggurat.tools.builtin import evaluate


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


def test_rare_words_are_told_from_frequent_ones() -> None:
    assert rarity("the") < 0.2 < rarity("kitchen") < rarity("KX-451-B") <= 1.0
    assert rarity("") == rarity("KX-451-B") >= rarity("ratatouille") > 0.9


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("What is 12 * (7 + 5)?", "12 * (7 + 5)"), ("Compute 3+4", "3 + 4"),
        ("How much is 12 times 7 plus 5?", "12 * 7 + 5"), ("What's 15 percent of 80?", "15 / 100 * 80"),
        ("Give me 2 to the power of 10.", "2 ** 10"), ("two hundred and five plus ten", "205 + 10"),
        ("What is -3 + -4?", "-3 + -4"), ("1,000 / 8", "1000 / 8"), ("(1+2)*(3+4)", "(1 + 2) * (3 + 4)"),
        ("3 x 4", "3 * 4"), ("$12.50 + 0.75", "12.5 + 0.75"), ("9 squared", "9 ** 2"),
    ],
)  # fmt: skip
def test_sums_that_are_understood(text: str, expression: str) -> None:
    assert expression_in(text) == expression


@pytest.mark.parametrize(
    "text",
    [
        "", "Hello!", "There are 5 of us", "Rain in Paris tomorrow?", "7 8 9", "(((", "12 plus 7, then 3",
        "the sum of 3 and 4", "3 + 4 and 5 + 6", "99999999999999999999.5 + 1",
    ],
)  # fmt: skip
def test_texts_without_a_sum_that_uses_all_their_numbers(text: str) -> None:
    assert expression_in(text) is None


def test_numbers_in_words() -> None:
    assert in_digits("twenty-one and three thousand four hundred") == "21 and 3400"


@given(st.text(alphabet="0123456789+-*/() .x", max_size=40))
def test_what_is_found_can_be_read_back(text: str) -> None:
    expression = expression_in(text)
    if expression is not None:
        assert expression_in(expression) is not None


@given(st.integers(1, 99), st.integers(1, 99), st.integers(1, 99), st.sampled_from("+-*"), st.sampled_from("+-*"))
def test_words_and_signs_mean_the_same(a: int, b: int, c: int, one: str, other: str) -> None:
    words = {"+": "plus", "-": "minus", "*": "times"}
    found = expression_in(f"How much is {a} {words[one]} {b} {words[other]} {c}?")
    assert found is not None
    assert evaluate(found) == evaluate(f"{a} {one} {b} {other} {c}")
