"""Tests of leaving out optional arguments that a conversation does not state."""

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ziggurat.messages import ToolSpec
from ziggurat.models.local.spans import Statements

PROPERTIES: dict[str, Any] = {
    "dish": {"type": "string", "description": "The dish."},
    "quantity": {"type": "integer", "description": "How many.", "default": 1},
    "size": {"enum": ["small", "regular", "family"], "description": "Which size."},
    "vegan": {"type": "boolean", "description": "Without anything from animals."},
    "remark": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None, "description": "For the kitchen."},
    "discount": {"type": "number", "description": "A share of the price."},
    "sides": {"type": "array", "items": {"type": "string"}, "description": "What goes with it."},
}
ORDER = ToolSpec("order", "Order a dish.", {"type": "object", "properties": PROPERTIES, "required": ["dish"]})
LOOSE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)
ARGUMENTS = st.dictionaries(st.sampled_from([*PROPERTIES, "unknown"]), LOOSE)


def stated(text: str, **arguments: Any) -> set[str]:
    """Return the names of the optional arguments that are left of a call for soup."""
    return Statements(text).only({"dish": "soup", **arguments}, ORDER).keys() - {"dish"}


@pytest.mark.parametrize(
    ("text", "arguments", "left"),
    [
        ("Soup.", {"quantity": 3, "size": "small", "vegan": True, "remark": "no salt", "sides": ["rice"]}, ""),
        ("Three soups.", {"quantity": 3}, "quantity"),
        ("1,200 soups.", {"quantity": 1200}, "quantity"),
        ("Soup at 20 percent off.", {"discount": 0.2}, "discount"),
        ("A regular-sized soup.", {"size": "regular"}, "size"),
        ("A soup of another size.", {"size": "family"}, "size"),
        ("A soup without animal products.", {"vegan": True, "quantity": 1}, "vegan"),
        ("A soup without animal products.", {"vegan": False}, ""),
        ("A soup, it need not be vegan.", {"vegan": False}, "vegan"),
        ("Soup. As a remark: hurry.", {"remark": "please be quick"}, "remark"),
        ("Soup with not too much salt, please.", {"remark": "Not too much salt."}, "remark"),
        ("Soup with rice.", {"sides": ["rice", "bread"], "remark": "soup"}, "sides"),
        ("Soup.", {"remark": None, "sides": [], "size": ""}, ""),
    ],
)
def test_what_is_stated(text: str, arguments: dict[str, Any], left: str) -> None:
    assert stated(text, **arguments) == set(left.split())


@given(st.text(), ARGUMENTS)
def test_nothing_is_added_or_changed(text: str, arguments: dict[str, Any]) -> None:
    statements = Statements(text)
    left = statements.only(arguments, ORDER)
    assert list(left.items()) == [item for item in arguments.items() if item[0] in left]
    assert arguments.keys() - left.keys() <= PROPERTIES.keys() - {"dish"}
    assert statements.only(left, ORDER) == left


@given(st.text(), st.integers(0, 10**9), st.text("abcdefghij", min_size=1), st.text())
def test_what_occurs_is_left(before: str, number: int, word: str, after: str) -> None:
    text = f"{before} {number} {word} {after}"
    assert stated(text, quantity=number, remark=word, sides=[word]) == {"quantity", "remark", "sides"}


def test_a_number_states_one_argument() -> None:
    table = ToolSpec(
        "table",
        "Reserve a table.",
        {
            "type": "object",
            "properties": {"guests": {"type": "integer"}, "hour": {"type": "integer"}, "number": {"type": "integer"}},
            "required": ["guests"],
        },
    )
    arguments = {"hour": 8, "guests": 8, "number": 8}
    assert Statements("For 8 people.").only(arguments, table) == {"guests": 8}
    assert Statements("For 8 people at 8.").only(arguments, table) == {"hour": 8, "guests": 8}
    assert json.dumps(Statements("8, 8, 8").only(arguments, table)) == json.dumps(arguments)
