"""Tests of follow-ups to the last call."""

from typing import Any

import pytest

from tests.models.local.fakes import WordCounter
from ziggurat.messages.model import ToolSpec
from ziggurat.models.local.choose import describe
from ziggurat.models.local.follow import followed
from ziggurat.tools.arithmetic import evaluate

EMBED = WordCounter().embed_now
S = {"type": "string"}


def _follow(asked: str, name: str, before: dict[str, Any], result: str, **properties: Any) -> dict[str, Any] | None:
    tool = describe(ToolSpec(name, "", {"properties": properties, "required": list(before)}), EMBED)
    return followed(asked, tool, before, result, EMBED)


@pytest.mark.parametrize(
    ("asked", "expression"),
    [
        ("and times two?", "144 * 2"),
        ("plus 6", "144 + 6"),
        ("Now add 5 to that.", "144 + 5"),
        ("then divide by 12", None),
        ("What is half of that?", "144 / 2"),
        ("what about 20% of it?", "144 * 20 / 100"),
        ("thanks for that", None),
        ("and in Rome?", None),
    ],
)
def test_sums_go_on_with_the_last_number(asked: str, expression: str | None) -> None:
    arguments = _follow(asked, "calculator", {"expression": "12 * 12"}, "144", expression=S)
    if expression is None:
        assert arguments is None
    else:
        assert arguments is not None
        assert evaluate(arguments["expression"]) == evaluate(expression)


@pytest.mark.parametrize(
    ("asked", "arguments"),
    [
        ("And in New York?", {"city": "New York", "days": 3}),
        ("what about 5 days?", {"city": "York", "days": 5}),
        ("and thanks", None),
        ("In New York?", None),
        ("and what would the weather be like in New York on another day", None),
    ],
)
def test_what_is_not_said_anew_stays(asked: str, arguments: dict[str, Any] | None) -> None:
    schema = {"city": S, "days": {"type": "integer"}}
    assert _follow(asked, "weather", {"city": "York", "days": 3}, "rain", **schema) == arguments
