from typing import Any

import pytest

from ziggurat.models.http.strict_schema import is_strict


def closed(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


TEXT = {"type": "string"}


@pytest.mark.parametrize(
    "schema",
    [
        closed(),
        closed(a=TEXT, b={"type": ["integer", "null"]}),
        closed(a={"type": "array", "items": closed(b={"enum": [1, 2]})}),
        closed(a={"anyOf": [TEXT, {"type": "null"}]}),
        {**closed(a={"$ref": "#/$defs/B"}), "$defs": {"B": closed()}},
    ],
)
def test_strict(schema: dict[str, Any]) -> None:
    assert is_strict(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {}, TEXT, {"type": "object"}, {"properties": {"a": TEXT}, "additionalProperties": False, "required": ["a"]},
        {**closed(a=TEXT), "required": []}, {**closed(a=TEXT), "additionalProperties": True}, closed(a={}),
        closed(a={"type": "object", "additionalProperties": TEXT}), closed(a={**TEXT, "default": "x"}),
        closed(a={"oneOf": [TEXT]}), closed(a={"type": "array", "items": {"type": "object"}}),
        {**closed(a={"$ref": "#/$defs/B"}), "$defs": {"B": {"type": "object"}}},
    ],
)  # fmt: skip
def test_not_strict(schema: dict[str, Any]) -> None:
    assert not is_strict(schema)
