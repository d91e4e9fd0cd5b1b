"""Tests of the choice of a tool."""

from typing import Any

import pytest

from tests.models.local.fakes import WordCounter
from ziggurat.messages import ToolSpec
from ziggurat.models.local.choose import choose, describe

EMBED = WordCounter().embed_now
S: dict[str, Any] = {"type": "string"}


def _tool(name: str, description: str, **properties: Any) -> ToolSpec:
    return ToolSpec(name, description, {"type": "object", "properties": properties, "required": list(properties)})


TOOLS = [
    describe(tool, EMBED)
    for tool in (
        _tool("weather", "The weather in a city.", city=S),
        _tool("set_timer", "Set a timer.", minutes={"type": "integer"}),
        _tool("calculator", "Compute a sum.", expression=S),
        _tool("now", ""),
    )
]


@pytest.mark.parametrize(
    ("request_text", "tool", "values"),
    [
        ("What is the weather in Paris?", "weather", {"city": "Paris"}),
        ("Set a timer of 5 minutes", "set_timer", {"minutes": 5}),
        ("Compute 3 + 4", "calculator", {"expression": "3 + 4"}),
        ("now!", "now", {}),
        ("Paint me a picture", None, {}),
    ],
)
def test_the_tool_that_is_meant_and_can_be_called(request_text: str, tool: str | None, values: dict[str, Any]) -> None:
    choice = choose(request_text, TOOLS, EMBED)
    if tool is None:
        assert choice is None
    else:
        assert choice is not None
        assert (choice.tool, choice.copied.values, choice.copied.missing) == (tool, values, ())


def test_the_best_tool_may_lack_values() -> None:
    choice = choose("Set a timer", TOOLS, EMBED)
    assert choice is not None
    assert (choice.tool, choice.copied.missing) == ("set_timer", ("minutes",))


def test_one_must_be_chosen() -> None:
    choice = choose("Paint me a picture", TOOLS[1:2], EMBED, must=True)
    assert choice is not None
    assert choice.copied.missing == ("minutes",)
