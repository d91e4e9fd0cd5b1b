"""Tests of arithmetic in plain English as expressions for the calculator."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ziggurat.models.local.arithmetic import expression_in, in_digits
from ziggurat.tools.arithmetic import evaluate


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("What is 12 * (7 + 5)?", "12 * (7 + 5)"),
        ("Compute 3+4", "3 + 4"),
        ("How much is 12 times 7 plus 5?", "12 * 7 + 5"),
        ("What's 15 percent of 80?", "15 / 100 * 80"),
        ("If I take 17 away from 90?", "90 - 17"),
        ("144 shared equally by 9", "144 / 9"),
        ("Give me 2 to the power of 10.", "2 ** 10"),
        ("twelve times the sum of seven and five", "12 * (7 + 5)"),
        ("two hundred and five plus ten", "205 + 10"),
        ("What is -3 + -4?", "-3 + -4"),
        ("1,000 / 8", "1000 / 8"),
        ("(1+2)*(3+4)", "(1 + 2) * (3 + 4)"),
        ("The difference between 20 and 8, please", "20 - 8"),
        ("the square root of 81", "81 ** 0.5"),
        ("7 boxes of 12 eggs", "7 * 12"),
        ("I had 50 apples and ate 8", "50 - 8"),
        ("half of 90", "90 / 2"),
        ("3 x 4", "3 * 4"),
        ("Take 45, add 17 and subtract 9", "(45 + 17) - 9"),
        ("Take 4, add 2, then multiply it by 3, and subtract 1", "((4 + 2) * 3) - 1"),
        ("12 plus 7, times 3", "(12 + 7) * 3"),
        ("144 divided by 12, then add 5", "(144 / 12) + 5"),
        ("the sum of 3, 4, 5 and 6", "3 + 4 + 5 + 6"),
        ("the average of 3, 4 and 8", "(3 + 4 + 8) / 3"),
        ("a third of 90", "1 / 3 * 90"),
        ("3/4 of 100", "3 / 4 * 100"),
        ("20% off 80", "80 - 80 * 20 / 100"),
        ("Increase 200 by 15 percent", "200 + 200 * 15 / 100"),
        ("7 more than 30", "30 + 7"),
        ("the square of 12", "12 ** 2"),
        ("2 to the fifth", "2 ** 5"),
        ("sqrt(81)", "(81) ** 0.5"),
        ("the remainder when 17 is divided by 5", "17 % 5"),
        ("How many times does 6 go into 42?", "42 / 6"),
        ("$12.50 + .75", "12.50 + 0.75"),
        ("[3 + 4] * 2", "(3 + 4) * 2"),
        ("negative 3 times 4", "-3 * 4"),
        ("I have 3 apples and buy 4 more", "3 + 4"),
        ("Three friends pay 24 each, altogether?", "3 * 24"),
    ],
)
def test_sums_that_are_understood(text: str, expression: str) -> None:
    assert expression_in(text) == expression


@pytest.mark.parametrize("text", ["", "Hello!", "There are 5 of us", "Rain in Paris tomorrow?", "7 8 9", "((("])
def test_texts_without_a_sum(text: str) -> None:
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
