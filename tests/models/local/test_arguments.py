"""Values for parameters, out of the words of a request."""

from typing import Any

import pytest

from tests.models.local.fakes import WordCounter
from ziggurat.models.local.arguments import fill
from ziggurat.models.local.kinds import parameters_of
from ziggurat.models.local.reading import read

S = {"type": "string"}
N = {"type": "number"}


def _fill(request: str, properties: dict[str, Any], required: list[str] | None = None) -> Any:
    schema = {"properties": properties, "required": list(properties) if required is None else required}
    return fill(parameters_of(schema), read(request, WordCounter().embed_now))


@pytest.mark.parametrize(
    ("request_text", "properties", "arguments"),
    [
        ("Umbrella in Paris?", {"city": S}, {"city": "Paris"}),
        (
            "I weigh 150 pounds, and in kilograms?",
            {"value": N, "from_unit": S, "to_unit": S},
            {"value": 150, "from_unit": "pounds", "to_unit": "kilograms"},
        ),
        (
            "How many yen are 20 euros?",
            {"amount": N, "from_currency": S, "to_currency": S},
            {"amount": 20, "from_currency": "euros", "to_currency": "yen"},
        ),
        (
            "Fly to Rome from Oslo",
            {"origin_city": S, "destination_city": S},
            {"origin_city": "Oslo", "destination_city": "Rome"},
        ),
        ("Wait 2 hours", {"minutes": {"type": "integer"}}, {"minutes": 120}),
        ("Add 3 and 4", {"a": N, "b": N}, {"a": 3, "b": 4}),
        (
            "Tell bob@example.com that dinner is ready",
            {"recipient": S, "body": S},
            {"recipient": "bob@example.com", "body": "dinner is ready"},
        ),
        ("Remind me to feed the cat at noon", {"task": S, "time": S}, {"task": "feed the cat", "time": "noon"}),
        ("Translate hello to Spanish", {"text": S, "language": S}, {"text": "hello", "language": "Spanish"}),
        ("Lunch on Monday at 1pm", {"datetime": S}, {"datetime": "Monday at 1pm"}),
        ("Make the lamp blue", {"colour": {"enum": ["red", "blue"]}}, {"colour": "blue"}),
        ("The mean of 3, 4 and 5.5?", {"numbers": {"type": "array", "items": N}}, {"numbers": [3, 4, 5.5]}),
        ("Put 'milk' and 'tea' on it", {"items": {"type": "array", "items": S}}, {"items": ["milk", "tea"]}),
        ("What does serendipity mean?", {"word": S}, {"word": "serendipity"}),
        (
            "How long from 2024-01-01 to 2024-03-01?",
            {"first_date": S, "second_date": S},
            {"first_date": "2024-01-01", "second_date": "2024-03-01"},
        ),
    ],
)
def test_values(request_text: str, properties: dict[str, Any], arguments: dict[str, Any]) -> None:
    filled = _fill(request_text, properties)
    assert filled.arguments == arguments
    assert filled.missing == ()


def test_optional_parameters_are_left_out_unless_the_request_speaks_of_them() -> None:
    properties = {"city": S, "days": {"type": "integer"}, "subject": S}
    assert _fill("Rain in Paris?", properties, ["city"]).arguments == {"city": "Paris"}
    assert _fill("Rain in Paris for 3 days?", properties, ["city"]).arguments == {"city": "Paris", "days": 3}


def test_an_optional_text_is_given_when_it_is_named() -> None:
    filled = _fill(
        'Mail bob@example.com "hi" with the subject "Lunch"',
        {"recipient": S, "body": S, "subject": S},
        ["recipient", "body"],
    )
    assert filled.arguments == {"recipient": "bob@example.com", "body": "hi", "subject": "Lunch"}


def test_what_is_not_there_is_missing_and_lowers_the_fit() -> None:
    filled = _fill("Hello", {"amount": N, "recipient": {"type": "string", "format": "email"}})
    assert filled.missing == ("amount", "recipient")
    assert filled.fit < 0


def test_limits_of_a_schema_hold() -> None:
    assert _fill("Take 50", {"count": {"type": "integer", "maximum": 10}}).missing == ("count",)
    assert _fill("Take 2.5", {"count": {"type": "integer"}}).missing == ("count",)


def test_no_word_is_used_twice() -> None:
    filled = _fill("From Oslo", {"origin_city": S, "destination_city": {**S, "format": "uri"}})
    assert filled.arguments == {"origin_city": "Oslo"}
