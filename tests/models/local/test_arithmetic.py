"""Tests of arithmetic in plain English as expressions for the calculator."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ziggurat.models.local.arithmetic import expression_in, in_digits
from ziggurat.tools.builtin import evaluate


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
