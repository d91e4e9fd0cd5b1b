"""Arguments that are repeated in headers."""

from base64 import b64decode
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ziggurat.mcp.headers import header_value, headers_in


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_value_in_a_header_is_safe_and_can_be_read_back(text: str) -> None:
    value = header_value(text)
    assert value.isascii()
    assert value == value.strip()
    assert not set(value) & {"\r", "\n", "\0"}
    if value.startswith("=?base64?") and value.endswith("?="):
        assert b64decode(value[9:-2]).decode() == text
    else:
        assert value == text


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def test_arguments_are_found_at_their_place() -> None:
    text = {"type": "string", "x-mcp-header": "Region"}
    flag = {"type": "boolean", "x-mcp-header": "Dry"}
    found = headers_in(schema(region=text, more=schema(dry=flag), plain={"type": "string"}))
    values = {"region": "eu", "more": {"dry": True}}
    assert dict(header for each in found for header in each.values(values)) == {
        "mcp-param-region": "eu",
        "mcp-param-dry": "true",
    }
    for absent in ({}, {"region": None, "more": 5}):
        assert not [header for each in found for header in each.values(absent)]


@pytest.mark.parametrize(
    "wrong",
    [
        schema(a={"type": "string", "x-mcp-header": ""}),
        schema(a={"type": "string", "x-mcp-header": "a b"}),
        schema(a={"type": "string", "x-mcp-header": "a\r\nb: c"}),
        schema(a={"type": "string", "x-mcp-header": 5}),
        schema(a={"type": "number", "x-mcp-header": "A"}),
        schema(a={"x-mcp-header": "A"}),
        schema(a={"type": "string", "x-mcp-header": "A"}, b={"type": "string", "x-mcp-header": "a"}),
        schema(a={"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}),
        {"anyOf": [schema(a={"type": "string", "x-mcp-header": "A"})]},
        {"$defs": {"a": {"type": "string", "x-mcp-header": "A"}}},
    ],
)
def test_other_places_and_names_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"header|argument"):
        headers_in(wrong)
