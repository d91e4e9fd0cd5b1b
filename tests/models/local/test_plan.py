"""Tests of splitting requests, and of the tools chosen for their parts."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.models.local.fakes import WordCounter
from ziggurat.models.local.choose import describe
from ziggurat.models.local.plan import clauses_of, plan

EMBED = WordCounter().embed_now


def _tool(name: str, description: str, **properties: Any) -> Any:
    return describe(name, description, {"properties": properties, "required": list(properties)}, EMBED)


TOOLS = [
    _tool("weather", "What the weather is in a city.", city={"type": "string"}),
    _tool("calculator", "What is the value of an expression? Compute it.", expression={"type": "string"}),
]


def _calls(request: str, *results: str) -> list[tuple[str, dict[str, Any], bool]]:
    wishes = plan(request, TOOLS, EMBED, results)
    return [(wish.choices[0].tool, wish.choices[0].filled.arguments, wish.waits) for wish in wishes]


def test_one_wish() -> None:
    assert _calls("What is the weather in Paris?") == [("weather", {"city": "Paris"}, False)]


def test_two_wishes() -> None:
    assert _calls("What is the weather in Paris and what is 3 + 4?") == [
        ("weather", {"city": "Paris"}, False),
        ("calculator", {"expression": "3 + 4"}, False),
    ]


def test_a_wish_that_waits_for_the_result_before_it() -> None:
    request = "What is the value of 3 + 4? Then compute what is 5 times the result."
    assert _calls(request)[1][2]
    assert _calls(request, "7")[1] == ("calculator", {"expression": "5 * 7"}, True)


def test_a_request_whose_parts_do_not_stand_alone_is_one_wish() -> None:
    assert len(_calls("The city is Paris. What is the weather?")) == 1


def test_the_same_thing_is_wished_once() -> None:
    assert len(_calls("What is the weather in Paris? What is the weather in Paris?")) == 1


def test_a_place_that_was_named_before_is_meant_by_there() -> None:
    calls = _calls("What is the weather in Oslo and what is the day there, and what is the weather there?")
    assert [arguments for _, arguments, _ in calls] == [{"city": "Oslo"}]
    tools = [*TOOLS, _tool("roads", "How full the roads of a city are.", city={"type": "string"})]
    wishes = plan("What is the weather in Oslo and how full are the roads of the city there?", tools, EMBED)
    assert [wish.choices[0].tool for wish in wishes] == ["weather", "roads"]
    assert wishes[1].choices[0].filled.arguments == {"city": "Oslo"}


def test_quoted_text_is_never_parted() -> None:
    assert clauses_of('Translate "Wait. And then go" to French') == [('Translate "Wait. And then go" to French', False)]
    assert clauses_of("Do this, then that; and show me") == [("Do this", False), ("that", True), ("and show me", False)]


def test_a_long_text_is_read_at_its_head_and_tail() -> None:
    request = "word " * 5000 + "What is the weather in Paris?"
    assert _calls(request)[0][1]["city"] == "Paris"


@given(st.text(max_size=80))
def test_any_text_can_be_planned(text: str) -> None:
    assert plan(text, TOOLS[1:], EMBED)
