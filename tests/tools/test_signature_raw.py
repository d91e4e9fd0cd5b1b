"""RawSchema: hand-written schemas are enforced strictly, with the same wording of errors as typed tools."""

import asyncio
import json
import re
import sys
from typing import Any, Literal

import pydantic
import pytest
from msgspec import Struct

from ziggurat import ConfigurationError, Context, Toolbox, ToolCall, raw_tool, tool
from ziggurat.calls.tool_call import act
from ziggurat.core.context import JOURNAL, Scope
from ziggurat.errors import InvalidArguments, MissingExtra
from ziggurat.journal import LocalJournal
from ziggurat.tools import FunctionTool

LEG = {"type": "object", "properties": {"to": {"type": "string"}, "seats": {"type": "integer"}}, "required": ["to"]}
TRIP: dict[str, Any] = {
    "type": "object",
    "properties": {
        "kind": {"enum": ["train", "boat"]},
        "days": {"type": "integer"},
        "legs": {"type": "array", "items": LEG},
    },
    "required": ["kind"],
    "additionalProperties": False,
}


class Leg(Struct):
    to: str
    seats: int = 1


class Person(pydantic.BaseModel):
    name: str


def _tool(schema: dict[str, Any]) -> FunctionTool:
    return raw_tool(lambda arguments: str(arguments), name="trip", description="", parameters=schema)


def _said(made: FunctionTool, arguments: str | bytes) -> list[str]:
    try:
        made.arguments.decode(arguments)
    except InvalidArguments as error:
        return str(error).splitlines()
    return []


def test_arguments_that_fit_come_as_they_are() -> None:
    assert _tool(TRIP).arguments.decode('{"kind": "boat", "days": 3}') == {"arguments": {"kind": "boat", "days": 3}}
    assert _tool({"type": "object"}).arguments.decode(" ") == {"arguments": {}}
    assert _tool({}).arguments.decode('{"any": 1}') == {"arguments": {"any": 1}}
    assert _said(_tool(TRIP), '{"kind": "boat", "days": "3"}') == ["days: expected an integer, got '3'"]
    assert _said(_tool(TRIP), '{"kind": "boat", "days": null}') == ["days: expected an integer, got null"]
    assert _said(_tool(TRIP), "3") == ["the arguments must be a JSON object, got 3"]
    assert _said(_tool({"minProperties": 1}), "{}")[0].startswith("arguments: ")


def test_every_problem_is_told_at_once_with_its_path() -> None:
    said = _said(_tool(TRIP), '{"days": "three", "dayz": 1, "legs": [{"to": "Oslo"}, {"seats": 1.5}]}')
    assert sorted(said) == [
        "days: expected an integer, got 'three'",
        "dayz: unknown parameter",
        "kind: missing (required)",
        "legs[1].seats: expected an integer, got 1.5",
        "legs[1].to: missing (required)",
    ]


def test_typed_and_raw_tools_say_the_same() -> None:
    @tool
    async def typed(
        kind: Literal["train", "boat"], days: int = 1, legs: list[Leg] | None = None, by: Person | None = None
    ) -> str:
        return kind

    raw = _tool(typed.spec.parameters)
    for arguments in (
        "{}",
        '{"kind": "boat", "days": "many"}',
        '{"kind": "car"}',
        '{"kind": "boat", "dais": 3}',
        '{"kind": "boat", "legs": [{}]}',
        '{"kind": "boat", "legs": [{"to": 7}]}',
        '{"kind": "boat", "by": {}}',
        '{"kind": "boat", "kind": "boat"}',
        '{"kind": "boat"',
        "[]",
        '{"kind": NaN}',
    ):
        assert _said(raw, arguments) == _said(typed, arguments) != []


@pytest.mark.parametrize(
    ("schema", "value", "said"),
    [
        ({"type": ["null", "integer"]}, "s", "x: expected an integer or null, got 's'"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "s", "x: expected an integer or null, got 's'"),
        ({"anyOf": [LEG, {"type": "null"}]}, {}, "x.to: missing (required)"),
        (
            {"oneOf": [{"minimum": 0}, {"maximum": 9}]},
            3,
            "x: fits more than one of 2 alternatives, expected exactly one; got 3",
        ),
        ({"prefixItems": [True], "items": False}, [1, 2], "x[1]: not allowed, leave it out"),
        ({"unevaluatedProperties": False}, {"a": 1}, "x.a: unknown field"),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, "x.b: missing (required)"),
        (False, 1, "x: not allowed, leave it out"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_types_and_names_are_told_as_by_typed_tools(schema: Any, value: Any, said: str) -> None:
    assert _said(_tool({"properties": {"x": schema}}), json.dumps({"x": value})) == [said]


@pytest.mark.parametrize(
    ("schema", "value", "said"),
    [
        ({"minimum": 2}, 1, "x: .*2.*, got 1"),
        ({"exclusiveMaximum": 2}, 2, "x: .*2.*, got 2"),
        ({"multipleOf": 0.5}, 0.7, r"x: .*0\.5, got 0\.7"),
        ({"minLength": 3}, "ab", "x: .*3.*, got 'ab'"),
        ({"maxItems": 1}, [1, 2], "x: .*1"),
        ({"maxProperties": 0}, {"a": 1}, "x: .*0"),
        ({"pattern": "^a+$"}, "b", r"x: .*\^a\+\$.*, got 'b'"),
        ({"const": {"a": 1}}, 1, "x: .*, got 1"),
        ({"not": {"type": "string"}}, "s", "x: .*, got 's'"),
        ({"contains": {"const": 1}}, [2], "x: "),
        ({"prefixItems": [True], "unevaluatedItems": False}, [1, 2], "x: "),
        ({"propertyNames": {"maxLength": 2}}, {"abc": 1}, "x: .*abc.*2"),
        ({"oneOf": [{"const": 1}, {"minimum": 5}]}, 3, r"x: .*x: .*1.* \| x: .*5"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_all_else_names_the_limit_and_the_value(schema: Any, value: Any, said: str) -> None:
    (line,) = _said(_tool({"properties": {"x": schema}}), json.dumps({"x": value}))
    assert re.match(said, line), line


def test_problems_are_bounded_in_number_and_length_and_never_echo_what_is_huge() -> None:
    schema = {
        "properties": {"x": {"items": {"type": "integer"}}, "y": {"const": "z" * 9_000}},
        "required": ["r" * 9_000],
    }
    value = {"x": ["w" * 5_000] * 100, "y": 1, "k" * 9_000: 1}
    said = _said(_tool(schema), json.dumps(value))
    assert len(said) == 21
    assert said[-1] == "and 82 more"
    assert max(map(len, said)) <= 300
    closed = {"additionalProperties": False, "properties": {"k" * 400: True}}
    assert max(map(len, _said(_tool(closed), json.dumps(value)))) <= 300
    choices = {"properties": {"x": {"enum": [f"choice {number}" for number in range(1_000)]}}}
    assert len(_said(_tool(choices), '{"x": 1}')[0]) == 300
    assert len(_said(_tool({"properties": {"x": {"pattern": "a" * 5_000}}}), '{"x": "b"}')[0]) < 200


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ('{"a": 1, "a": 2}', "a: given more than once"), ('{"a": {"b": 1, "b": 1}}', "b: given more than once"),
        ('{"a": NaN}', "NaN is not a JSON number"), ('{"a": 1e999}', "number that is too large"),
        ('{"a": ' + "9" * 5_000 + "}", "not valid JSON"), ('{"a": "\\ud83d"}', "surrogate"),
        (b'{"a": "\xff"}', "not valid JSON"), ('{"a": ' + "[" * 101 + "]" * 101 + "}", "nested more than 100 levels"),
        ("[" * 100_000, "nested more than 100 levels"),
    ],
    ids=lambda value: str(value)[:12],
)  # fmt: skip
def test_what_two_readers_could_read_differently_is_refused(arguments: str | bytes, why: str) -> None:
    said = _said(_tool({}), arguments)
    assert len(said) == 1
    assert why in said[0]


def test_an_unknown_tool_and_a_wrong_argument_are_told_to_the_model() -> None:
    async def go(name: str, arguments: str) -> tuple[str | None, str]:
        ctx = Context("run", scope=Scope({JOURNAL: LocalJournal()}))
        result = await act(Toolbox([_tool(TRIP)]), ToolCall("c", name, arguments), ctx)
        return result.error, result.text

    assert asyncio.run(go("tripp", "{}")) == ("not_found", "unknown tool 'tripp'; did you mean trip?")
    assert asyncio.run(go("trip", "{}")) == ("invalid_arguments", "kind: missing (required)")


def test_the_schema_of_a_tool_is_of_an_object() -> None:
    for wrong in ({"type": "array"}, {"type": ["object", "null"]}, True, "object"):
        with pytest.raises(ConfigurationError, match=r"of type 'object'|parameters=...\) is a dictionary"):
            _tool(wrong)  # type: ignore[arg-type]


def test_without_the_extra_a_tool_is_refused_where_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    with pytest.raises(MissingExtra, match="schemas"):
        _tool(TRIP)
