"""Tests of reading parameters from a schema."""

from typing import Any

import pytest

from ziggurat.models.local.kinds import parameters_of, words_of


def _one(schema: dict[str, Any], name: str = "it", **defined: Any) -> Any:
    return parameters_of({"type": "object", "properties": {name: schema}} | ({"$defs": defined} if defined else {}))[0]


@pytest.mark.parametrize(
    ("name", "schema", "want"),
    [
        ("city", {"type": "string"}, "place"),
        ("fromCity", {"type": "string"}, "place"),
        ("x", {"type": "string", "description": "The expression, for example 2 * 3."}, "expression"),
        ("to", {"type": "string", "format": "email"}, "email"),
        ("day", {"enum": ["today", "tomorrow"]}, "enum"),
        ("n", {"type": "integer"}, "number"),
        ("loud", {"type": "boolean"}, "boolean"),
        ("tags", {"type": "array", "items": {"type": "string"}}, "list"),
        ("rows", {"type": "array", "items": {"type": "object"}}, "other"),
        ("whatever", True, "text"),
        ("q", {"type": "string", "description": "What to search for."}, "query"),
        ("anything", {}, "text"),
        ("when", {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]}, "date"),
        ("count", {"type": ["integer", "null"]}, "number"),
    ],
)
def test_wants(name: str, schema: dict[str, Any], want: str) -> None:
    assert _one(schema, name).want == want


def test_references_are_followed_and_circles_end() -> None:
    colour = {"enum": ["red", "blue"]}
    assert _one({"$ref": "#/$defs/Colour"}, Colour=colour).choices == ("red", "blue")
    assert _one({"$ref": "#/$defs/A"}, A={"$ref": "#/$defs/A"}).want == "text"


def test_sides() -> None:
    schema = {"properties": {"source": {"type": "string"}, "target": {"type": "string"}}, "required": ["source"]}
    first, second = parameters_of(schema)
    assert (first.side, second.side) == ("from", "to")
    assert (first.required, second.required) == (True, False)


def test_words_of_names() -> None:
    assert words_of("fromCity") == words_of("from_city") == words_of("from-city") == "from city"
