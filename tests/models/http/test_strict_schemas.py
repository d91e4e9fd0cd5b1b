from typing import Any

import pytest

from ziggurat.models.http.strict_schema import is_strict


def closed(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


@pytest.mark.parametrize(
    "schema",
    [
        closed(),
        closed(a={"type": "string"}),
        closed(a={"type": "array", "items": closed(b={"type": "integer"})}),
        closed(a={"anyOf": [closed(), {"type": "null"}]}),
        {**closed(a={"$ref": "#/$defs/B"}), "$defs": {"B": closed()}},
    ],
)
def test_closed_schemas(schema: dict[str, Any]) -> None:
    assert is_strict(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"properties": {"a": {}}, "additionalProperties": False},
        closed(a={"type": "array", "items": {"type": "object", "properties": {}}}),
        closed(a={"oneOf": [{"type": "string"}]}),
        {**closed(a={"$ref": "#/$defs/B"}), "$defs": {"B": {"type": "object"}}},
    ],
)
def test_open_schemas(schema: dict[str, Any]) -> None:
    assert not is_strict(schema)
