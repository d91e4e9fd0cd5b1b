"""Schemas in the form in which providers enforce them, and the values that fit it read back."""

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ziggurat.messages.arguments import left_out, text_left_out
from ziggurat.models.http.strict import OPENAI, strict_schema
from ziggurat.tools import SchemaValidator

Json = dict[str, Any]
TEXT: Json = {"type": "string"}
NODE: Json = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "of": TEXT}, "required": ["of"]}
LEAVES = st.sampled_from(
    [
        TEXT, {"type": "integer", "minimum": 0, "default": 3}, {"type": "boolean"}, {"type": ["number", "null"]},
        {"enum": ["a", "b"]}, {"const": 1}, {"type": "string", "minLength": 1, "title": "Name"}, {"type": "null"},
        {"type": "string", "description": "A day.", "format": "date", "default": "2026-01-01"},
        {"type": "integer", "default": None}, {"allOf": [TEXT], "description": "Said."}, {"$ref": "#/$defs/node"},
        {"$ref": "#/$defs/node", "description": "The first."}, {"oneOf": [TEXT, {"type": "boolean"}]},
    ]
)  # fmt: skip


def _objects(inner: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    def made(properties: Json, required: list[bool], closed: bool) -> Json:
        named = [name for name, needed in zip(properties, required, strict=False) if needed]
        shut: Json = {"additionalProperties": False} if closed else {}
        return {"type": "object", "properties": properties, "required": named, **shut}

    fields = st.dictionaries(st.sampled_from("abcd"), inner, min_size=1, max_size=4)
    return st.builds(made, fields, st.lists(st.booleans(), min_size=4, max_size=4), st.booleans())


def _more(inner: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    arrays = st.builds(lambda items: {"type": "array", "items": items}, inner)
    nullable = st.builds(lambda one: {"anyOf": [one, {"type": "null"}]}, inner)
    return _objects(inner) | arrays | nullable


SCHEMAS = _objects(st.recursive(LEAVES, _more, max_leaves=8)).map(lambda made: {**made, "$defs": {"node": NODE}})


@st.composite
def values(draw: st.DrawFn, schema: Json, root: Json, depth: int = 0) -> Any:
    """Draw a value of a schema in strict form, as a provider would write it."""
    if "$ref" in schema:
        return draw(values(root["$defs"]["node"], root, depth + 1))
    if "anyOf" in schema:
        members = schema["anyOf"]
        return draw(values(members[-1] if depth > 4 else draw(st.sampled_from(members)), root, depth))
    if "enum" in schema or "const" in schema:
        return draw(st.sampled_from(schema.get("enum", [schema.get("const")])))
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    kind = kinds[-1] if depth > 4 else draw(st.sampled_from(kinds))
    if kind == "object":
        return {name: draw(values(each, root, depth + 1)) for name, each in schema["properties"].items()}
    if kind == "array":
        return [draw(values(schema["items"], root, depth + 1)) for _ in range(draw(st.integers(0, 2)))]
    plain = {"string": "2026-02-03", "integer": 7, "number": 1.5, "boolean": True, "null": None}
    return plain[kind]


def _check(node: Json, level: int = 0) -> None:
    """Check the rules of strict mode as OpenAI states them."""
    assert level <= 10
    assert not node.keys() & {"allOf", "oneOf", "not", "if", "then", "else", "default", "patternProperties"}
    assert node.keys() & {"type", "anyOf", "$ref"}
    assert "$ref" not in node or node.keys() == {"$ref"}
    kinds = node.get("type", [])
    if "object" in ([kinds] if isinstance(kinds, str) else kinds):
        assert node["additionalProperties"] is False
        assert node["required"] == [*node["properties"]]
    for each in (*node.get("properties", {}).values(), *node.get("$defs", {}).values()):
        _check(each, level + 1)
    for each in (*node.get("anyOf", ()), *([node["items"]] if "items" in node else ())):
        _check(each, level)


@given(SCHEMAS, st.data())
def test_a_strict_form_has_the_meaning_of_its_schema(schema: Json, data: st.DataObject) -> None:
    made = strict_schema(schema, OPENAI)
    if made is None:
        return
    form = json.loads(made)
    _check(form)
    value = data.draw(values(form, form))
    assert SchemaValidator(form).problems(value) == []
    assert SchemaValidator(schema).problems(left_out(value, schema)) == []
    assert json.loads(text_left_out(json.dumps(value), schema)) == left_out(value, schema)


@given(SCHEMAS)
def test_a_strict_form_is_its_own(schema: Json) -> None:
    made = strict_schema(schema, OPENAI)
    assert made is None or strict_schema(json.loads(made), OPENAI) == made


@pytest.mark.parametrize(
    "field",
    [
        {}, True, {"type": "object"}, {"type": "object", "additionalProperties": TEXT}, {"type": "array"},
        {"type": "object", "properties": {"a": TEXT}, "additionalProperties": True}, {"not": TEXT}, {"type": "any"},
        {"type": ["string", "null"], "default": "x"}, {"allOf": [TEXT, TEXT]}, {"$ref": "https://a.example/b"},
        {"type": "object", "patternProperties": {"a": TEXT}}, {"description": "Anything."}, {"enum": [{"a": 1}]},
    ],
)  # fmt: skip
def test_what_has_no_strict_form(field: Any) -> None:
    assert strict_schema({"type": "object", "properties": {"a": field, "b": TEXT}}, OPENAI) is None


def test_what_is_too_much_has_no_strict_form() -> None:
    deep: Json = TEXT
    for _ in range(12):
        deep = {"type": "object", "properties": {"a": deep}}
    wide = {"type": "object", "properties": {f"a{number}": TEXT for number in range(5_001)}}
    choices = {"type": "object", "properties": {"a": {"enum": [*map(str, range(1_001))]}}}
    assert [strict_schema(each, OPENAI) for each in (deep, wide, choices, TEXT, {"anyOf": [deep]})] == [None] * 5


def test_members_of_a_union_are_told_apart_by_their_constants() -> None:
    maybe = {"type": "object", "properties": {"kind": {"const": "a"}, "x": {"type": "integer"}}, "required": ["kind"]}
    empty = {"type": "object", "properties": {"kind": {"const": "b"}, "x": {"type": "null"}}, "required": ["kind", "x"]}
    schema: Json = {"anyOf": [maybe, empty]}
    assert left_out([{"kind": "a", "x": None}, {"kind": "b", "x": None}], {"type": "array", "items": schema}) == [
        {"kind": "a"},
        {"kind": "b", "x": None},
    ]
