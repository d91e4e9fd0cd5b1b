"""Schemas that the Messages API can enforce."""

import json
from typing import Any

import pytest

from ziggurat.models.anthropic.schema import strict_schema


def strict(schema: dict[str, Any]) -> Any:
    made = strict_schema(schema)
    return None if made is None else json.loads(made)


def test_objects_are_closed_everywhere() -> None:
    inner = {"type": "object", "properties": {"x": {"type": "integer"}}}
    made = strict({"type": "object", "properties": {"a": inner, "b": {"type": "array", "items": inner}}})
    closed = {**inner, "additionalProperties": False}
    assert made["properties"] == {"a": closed, "b": {"type": "array", "items": closed}}
    assert made["additionalProperties"] is False


def test_what_is_not_enforced_is_told() -> None:
    made = strict(
        {
            "type": "object",
            "properties": {
                "age": {"type": "integer", "minimum": 0, "maximum": 9, "description": "In years."},
                "code": {"type": "string", "pattern": "a+", "format": "uuid"},
                "colour": {"type": "string", "format": "colour"},
                "few": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 3},
            },
        }
    )["properties"]
    assert made["age"] == {"type": "integer", "description": "In years. (minimum: 0, maximum: 9)"}
    assert made["code"] == {"type": "string", "format": "uuid", "description": '(pattern: "a+")'}
    assert made["colour"] == {"type": "string", "description": '(format: "colour")'}
    assert made["few"]["minItems"] == 1
    assert made["few"]["description"] == "(maxItems: 3)"


def test_choices_and_definitions() -> None:
    point = {"type": "object", "properties": {"x": {"type": "number"}}, "additionalProperties": True}
    made = strict(
        {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {"at": {"oneOf": [{"$ref": "#/$defs/point"}, {"type": "null"}]}, "description": {"const": 1}},
            "$defs": {"point": point},
        }
    )
    assert made["properties"]["at"] == {"anyOf": [{"$ref": "#/$defs/point"}, {"type": "null"}]}
    assert made["properties"]["description"] == {"const": 1}
    assert made["$defs"]["point"]["additionalProperties"] is False
    assert "$schema" not in made


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "object", "properties": {"any": {}}},
        {"type": "object", "properties": {"any": True}},
        {"type": "object", "properties": {"a": {"$ref": "https://a.example/b"}}},
        {
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/node"}},
            "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
        },
        {"type": "object", "properties": {"self": {"$ref": "#"}}},
    ],
)
def test_what_cannot_be_said(schema: dict[str, Any]) -> None:
    assert strict(schema) is None


def test_an_object_without_fields() -> None:
    assert strict({"type": "object", "properties": {}, "additionalProperties": False}) is not None
