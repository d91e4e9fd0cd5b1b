"""Tests of argument values from the words of a request."""

from datetime import date
from typing import Any

import pytest
from msgspec import structs

from tests.models.local.fakes import WordCounter
from ziggurat.models.local.arguments import fill
from ziggurat.models.local.kinds import parameters_of
from ziggurat.models.local.reading import read, stems

S = {"type": "string"}
N = {"type": "number"}


B = {"type": "boolean"}
DAY = {"type": "string", "format": "date"}
TODAY = date(2026, 11, 22)  # a Sunday


def _fill(request: str, properties: dict[str, Any], required: list[str] | None = None, own: str = "") -> Any:
    schema = {"properties": properties, "required": list(properties) if required is None else required}
    reading = structs.replace(read(request, WordCounter().embed_now, TODAY), own=stems(own), purpose=stems(own))
    return fill(parameters_of(schema), reading)


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


@pytest.mark.parametrize(
    ("request_text", "properties", "arguments"),
    [
        ("Was 5 March 2026 a cold day?", {"day": DAY}, {"day": "2026-03-05"}),
        ("Come by tomorrow", {"day": DAY}, {"day": "2026-11-23"}),
        ("See you next Friday", {"day": DAY}, {"day": "2026-11-27"}),
        ("On May 3rd", {"day": DAY}, {"day": "2027-05-03"}),
        ("At 8 pm", {"at": {"type": "string", "format": "time"}}, {"at": "20:00:00"}),
        (
            "Tomorrow at 7:30",
            {"at": {"type": "string", "format": "date-time"}},
            {"at": "2026-11-23T07:30:00"},
        ),
        ("How was business in October 2025?", {"month": S, "year": N}, {"month": "October", "year": 2025}),
        (
            "Pay back 12 on order 1187",
            {"order": {"type": "integer"}, "amount": N},
            {"order": 1187, "amount": 12},
        ),
        ("Lower it by 20%", {"steps": N, "percent": N}, {"percent": 20}),
        ("Rename a.md to b.md", {"path": S, "new_path": S}, {"path": "a.md", "new_path": "b.md"}),
        ("Make a folder called invoices", {"name": S}, {"name": "invoices"}),
        ("Look for *.pdf in Downloads", {"pattern": S, "folder": S}, {"pattern": "*.pdf", "folder": "Downloads"}),
        (
            "Wash the shirt and the blue socks",
            {"items": {"type": "array", "items": S}},
            {"items": ["shirt", "blue socks"]},
        ),
        (
            "Pack a.py, b.py and c.py into all.zip",
            {"files": {"type": "array", "items": S}, "archive": S},
            {"files": ["a.py", "b.py", "c.py"], "archive": "all.zip"},
        ),
        (
            "Tell me of Rome, please",
            {"input": {**S, "description": "What it should do."}},
            {"input": "Tell me of Rome, please"},
        ),
        ("What is 555-1234?", {"expression": S}, {"expression": "555 - 1234"}),
        ("Text 555-1234", {"expression": S}, {}),
        ("Cool it in the bedroom", {"room": S}, {"room": "bedroom"}),
    ],
)
def test_values_of_further_kinds(request_text: str, properties: dict[str, Any], arguments: dict[str, Any]) -> None:
    own = "pack wash rename files folder archive"
    assert _fill(request_text, properties, own=own).arguments == arguments


@pytest.mark.parametrize(
    ("request_text", "schema", "value"),
    [
        ("Turn the lamp on", {**B, "description": "True to turn it on, false to turn it off."}, True),
        ("The lamp off, please", {**B, "description": "True to turn it on, false to turn it off."}, False),
        ("Let him edit it", {**B, "description": "Whether they may edit it."}, True),
        ("Don't let him edit it", {**B, "description": "Whether they may edit it."}, False),
        ("Share it", {**B, "description": "Whether they may edit it."}, None),
    ],
)
def test_yes_and_no(request_text: str, schema: dict[str, Any], value: bool | None) -> None:
    filled = _fill(request_text, {"it_is": schema}, [], own="share lamp")
    assert filled.arguments.get("it_is") == value


def test_a_choice_is_known_by_what_is_said_of_it() -> None:
    modes = {"enum": ["home", "away"], "description": "home while people are in, away while nobody stays."}
    assert _fill("Nobody stays tonight", {"mode": modes}).arguments == {"mode": "away"}


def test_the_verb_of_a_request_names_nothing() -> None:
    assert _fill("Enroll Anna", {"student": S}, own="Enroll a student").arguments == {"student": "Anna"}
    assert _fill("Enroll her", {"name": S}, own="Enroll a student").arguments == {}
    assert _fill("Sam got a prize", {"name": S}).arguments == {"name": "Sam"}


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
