"""Tests of answers after a tool's result."""

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


@pytest.mark.parametrize(
    ("request_text", "content", "said"),
    [
        ("What is 12 * 12?", "144", None),
        ("Weather?", '"Rain until the evening."', "Rain until the evening."),
        ("Weather?", "x" * 500, "x" * 500),
        ("Weather?", '{"a": 1}', "Here is what find order says: a: 1."),
        ("Stop it.", "", "Done."),
        ("Lock the front door.", "front door locked", "Done: front door locked."),
        ("Lock the front door.", "the lock did not turn", "The answer was: the lock did not turn."),
        ("Which trains are there?", "one at nine", "Here is what I found: one at nine."),
        ("Which trains are there?", "Oslo 9:04, Bergen 15:57", "Oslo 9:04, Bergen 15:57."),
        ("Is it open?", "true", "Yes."),
        ("Open it.", "true", "Done."),
        ("Open it.", "false", "No."),
    ],
)
def test_what_needs_no_model(request_text: str, content: str, said: str | None) -> None:
    assert plain_answer(request_text, _result(content)) == said


def test_errors_are_told() -> None:
    assert plain_answer("Where is it?", _result("no such order", "not_found")) == (
        "I could not get an answer: find order failed with: no such order"
    )


def test_the_grammar_holds_the_result_and_its_quotes() -> None:
    grammar = answer_grammar("Where is my order?", _result('"on \\"its\\" way"'))
    assert r'verb " on \"its\" way."' in grammar
    assert '"order"' in grammar
    assert '"answer"' in grammar


def test_the_prompt_is_one_line_per_thing() -> None:
    assert answer_prompt("Where\nis it?", _result("here")).endswith(
        "Question: Where is it?\nTool find_order says: here\nAnswer:"
    )
