"""Tests of the fields of a schema."""

from typing import Any

import pytest

from ziggurat.models.local.schema import Field, fields_of, words_of


@pytest.mark.parametrize(
    ("name", "words"), [("fromCity", "from city"), ("from_city", "from city"), ("a.b-c", "a b c"), ("URL", "url")]
)
def test_identifiers_as_words(name: str, words: str) -> None:
    assert words_of(name) == words


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "string"}, "text"), ({}, "text"), ({"type": "integer"}, "number"),
        ({"type": ["number", "null"]}, "number"), ({"anyOf": [{"type": "null"}, {"type": "boolean"}]}, "boolean"),
        ({"enum": ["a", "b"]}, "choice"), ({"const": 3}, "choice"), ({"$ref": "#/$defs/Unit"}, "choice"),
        ({"allOf": [{"$ref": "#/$defs/Unit"}]}, "choice"), ({"$ref": "#/$defs/Loop"}, "text"),
        ({"type": "array", "items": {"type": "string"}}, "other"), ({"type": "object"}, "other"),
    ],
)  # fmt: skip
def test_kinds_of_fields(schema: dict[str, Any], kind: str) -> None:
    definitions = {"Unit": {"enum": ["m", "km"]}, "Loop": {"$ref": "#/$defs/Loop"}}
    (field,) = fields_of({"properties": {"x": schema}, "required": ["x"], "$defs": definitions})
    assert (field.kind, field.required) == (kind, True)


def test_the_label() -> None:
    assert Field("streetName", {"description": "Where."}, False).label == "street name: Where"
