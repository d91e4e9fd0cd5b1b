"""Answers after a tool's result."""

import pytest

from ziggurat.messages.parts import ToolResult
from ziggurat.models.local.answers import answer_grammar, answer_prompt, plain_answer, rendered


def _result(content: str, error: str | None = None) -> ToolResult:
    return ToolResult("1", "find_order", content, error)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("144", "144"),
        ('"sunny"', "sunny"),
        ("plain text", "plain text"),
        ("true", "yes"),
        ("null", "nothing"),
        ("[]", "nothing"),
        ('{"orderId": 7, "state": {"sent": true}}', "order id: 7, state: sent: yes"),
        ("[1, 2.5]", "1, 2.5"),
    ],
)
def test_values_in_words(content: str, said: str) -> None:
    assert rendered(_result(content)) == said


def test_what_needs_no_model() -> None:
    assert plain_answer(_result("144")) is None
    assert plain_answer(_result('"Rain until the evening."')) == "Rain until the evening."
    assert plain_answer(_result("x" * 500)) == "x" * 500
    assert plain_answer(_result('{"a": 1}')) == "Here is what find order says: a: 1."
    assert plain_answer(_result("")) == "Done."
    assert plain_answer(_result("no such order", "not_found")) == (
        "I could not get an answer: find order failed with: no such order"
    )


def test_the_grammar_holds_the_result_and_its_quotes() -> None:
    grammar = answer_grammar("Where is my order?", _result('"on \\"its\\" way"'))
    assert r'" on \"its\" way"' in grammar
    assert '" order"' in grammar


def test_the_prompt_is_one_line_per_thing() -> None:
    assert answer_prompt("Where\nis it?", _result("here")).endswith(
        "Question: Where is it?\nTool find_order says: here\nAnswer:"
    )
