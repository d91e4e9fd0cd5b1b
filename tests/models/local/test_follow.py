"""Tests of follow-ups to the last call."""

from typing import Any

import pytest

from tests.models.local.fakes import WordCounter
from ziggurat.models.local.choose import THRESHOLD, ToolChoice, describe
from ziggurat.models.local.follow import followed
from ziggurat.tools.arithmetic import evaluate

EMBED = WordCounter().embed_now
S = {"type": "string"}


def _follow(asked: str, name: str, before: dict[str, Any], result: str, **properties: Any) -> ToolChoice | None:
    tool = describe(name, "", {"properties": properties, "required": list(before)}, EMBED)
    return followed(asked, tool, before, result, EMBED)


@pytest.mark.parametrize(
    ("asked", "expression"),
    [
        ("and times two?", "144 * 2"),
        ("plus 6", "144 + 6"),
        ("Now add 5 to that.", "144 + 5"),
        ("then divide by 12", "144 / 12"),
        ("double it", "2 * 144"),
        ("What is half of that?", "144 / 2"),
        ("what about 20% of it?", "144 * 20 / 100"),
        ("thanks for that", None),
        ("and in Rome?", None),
    ],
)
def test_sums_go_on_with_the_last_number(asked: str, expression: str | None) -> None:
    choice = _follow(asked, "calculator", {"expression": "12 * 12"}, "144", expression=S)
    if expression is None:
        assert choice is None
    else:
        assert choice is not None
        assert evaluate(choice.filled.arguments["expression"]) == evaluate(expression)


@pytest.mark.parametrize(
    ("asked", "arguments", "score"),
    [
        ("And in Rome?", {"city": "Rome", "days": 3}, 1.0),
        ("what about 5 days?", {"city": "Oslo", "days": 5}, 1.0),
        ("and what is the time in Rome?", {"city": "Rome", "days": 3}, THRESHOLD),
        ("and thanks", None, None),
        ("In Rome?", None, None),
    ],
)
def test_what_is_not_said_anew_stays(asked: str, arguments: dict[str, Any] | None, score: float | None) -> None:
    schema = {"city": S, "days": {"type": "integer"}}
    choice = _follow(asked, "weather", {"city": "Oslo", "days": 3}, "rain", **schema)
    assert (choice and choice.filled.arguments) == arguments
    assert (choice and choice.score) == score
