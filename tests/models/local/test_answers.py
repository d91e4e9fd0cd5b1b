"""Tests of answers after a tool's result, and of what is said without one."""

import pytest

from ziggurat import ToolResult
from ziggurat.messages import ToolSpec
from ziggurat.models.local.answers import answer, declined, rendered, unfound


def _result(content: str, error: str | None = None) -> ToolResult:
    return ToolResult("1", "find_order", content, error)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("144", "144"), ('"sunny"', "sunny"), ("plain text", "plain text"), ("true", "yes"), ("null", "nothing"),
        ("[]", "nothing"), ('{"orderId": 7, "state": {"sent": true}}', "order id: 7, state: sent: yes"),
        ("[1, 2.5]", "1, 2.5"),
    ],
)  # fmt: skip
def test_values_in_words(content: str, said: str) -> None:
    assert rendered(_result(content)) == said


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("144", "The answer is 144."), ("true", "The answer is yes."), ('"sunny"', "The answer is sunny."),
        ('"Rain until the evening."', "Rain until the evening."),
        ("Oslo 9:04, Bergen 15:57", "Oslo 9:04, Bergen 15:57."), ("x" * 500, "x" * 500),
        ('{"a": 1}', "Here is what find order says: a: 1."), ("", "Done."),
    ],
)  # fmt: skip
def test_the_result_is_in_the_answer(content: str, said: str) -> None:
    assert answer(_result(content)) == said


def test_errors_are_told() -> None:
    assert answer(_result("no such order", "not_found")) == (
        "I could not get an answer: find order failed with: no such order"
    )


def test_what_a_demo_says_for_itself() -> None:
    tools = [ToolSpec(name, "", {}) for name in "abcdefg"]
    assert "demo model that only calls tools, and none of them (a, b, c, d, e, ...)" in declined(tools)
    assert "(a)" in declined(tools[:1])
    assert "none for 'city', 'days' of weather" in unfound("weather", ["city", "days"])
