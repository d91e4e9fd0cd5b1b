"""Schemas from others cannot open connections, hang, or exhaust memory."""

import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.samples import amount
from ziggurat import ConfigurationError
from ziggurat.tools import SchemaValidator
from ziggurat.tools.validator import MAX_SCHEMA


def _knocked(door: socket.socket) -> bool:
    """Whether somebody has connected."""
    door.setblocking(False)
    try:
        door.accept()[0].close()
    except BlockingIOError:
        return False
    return True


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "{}"},
        {"properties": {"a": {"items": {"$ref": "{}#/$defs/x"}}}},
        {"$dynamicRef": "{}"},
        {"$schema": "{}"},
        {"$id": "{}", "$ref": "other.json"},
        {"$defs": {"a": {"unknown": {"$ref": "{}"}}}, "$ref": "#/$defs/a/unknown"},
        {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": {"$ref": "{}"}}},
        {"$schema": "http://json-schema.org/draft-04/schema#", "id": "{}", "properties": {"a": {"$ref": "b"}}},
    ],
    ids=str,
)
def test_what_lies_outside_is_refused_and_not_asked_for(schema: dict[str, Any]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        address = f"http://127.0.0.1:{door.getsockname()[1]}/schema.json"
        with pytest.raises(ConfigurationError, match=r"\$ref must stay within|\$schema names a dialect"):
            SchemaValidator(_filled(schema, address))
        assert not _knocked(door)
        socket.create_connection(door.getsockname()).close()
        assert _knocked(door)


def _filled(schema: Any, address: str) -> Any:
    if isinstance(schema, dict):
        return {name: _filled(each, address) for name, each in schema.items()}
    return schema.replace("{}", address)


def test_files_are_not_read(tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text("{}")
    for address in (file.as_uri(), str(file), "schema.json"):
        with pytest.raises(ConfigurationError, match="within the schema"):
            SchemaValidator({"$ref": address})


def test_references_within_the_schema_are_followed() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}, "required": ["value"]}
    validator = SchemaValidator({"$defs": {"node": node}, "$ref": "#/$defs/node"})
    value: dict[str, Any] = {"value": 0}
    for _ in range(90):
        value = {"value": 0, "next": value}
    assert validator.problems(value) == []
    assert validator.problems({"value": 0, "next": {"value": 1, "next": {}}}) == ["next.next.value: missing (required)"]
    anchored = SchemaValidator({"$defs": {"a": {"$anchor": "here", "type": "integer"}}, "items": {"$ref": "#here"}})
    assert anchored.problems([1, "x"]) == ["[1]: expected an integer, got 'x'"]


def test_the_dialect_is_the_one_that_is_named_and_formats_are_notes() -> None:
    tuples = {"items": [{"type": "integer"}], "additionalItems": False}
    old = SchemaValidator({"$schema": "http://json-schema.org/draft-07/schema#", **tuples})
    assert len(old.problems([1, 2])) == 1
    with pytest.raises(ConfigurationError, match="items: "):
        SchemaValidator(tuples)
    for dialect in ("http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema"):
        assert SchemaValidator({"$schema": dialect, "format": "email"}).problems("nobody") == []


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "strng"}, "type: expected one of 'array'"),
        ({"properties": {"a": {"minimum": "x"}}}, "properties.a.minimum: expected a number, got 'x'"),
        ({"$ref": "#/$defs/nowhere"}, "'/\\$defs/nowhere' does not exist"),
        ({"pattern": "["}, "the pattern at pattern cannot be matched"),
        ({"pattern": "^(?=.*a)b"}, "look-around and back-references are not taken"),
        ({"properties": {"a": {"pattern": r"(a)\1"}}}, "the pattern at properties/a/pattern cannot"),
        ({"patternProperties": {"(?!a)": {}}}, "look-around"),
        ({"pattern": "(a{0,500}){0,500}"}, "nor very long repetitions"),
        ({"enum": list(range(MAX_SCHEMA // 5))}, "bytes of JSON; a schema may have 500,000"),
        ({"properties": {f"p{n}": {"pattern": f"a{{999}}{n}"} for n in range(100)}}, "the weight 1,1?"),
        ({"maximum": float("nan")}, "maximum: expected a number"),
        ({"title": "\ud800"}, "is not a JSON Schema"),
        ({1: 2}, "is not a JSON Schema"),
        ({"enum": [object()]}, "is not a JSON Schema"),
    ],
    ids=lambda value: str(value)[:24],
)
def test_what_cannot_be_used_is_refused_where_it_is_made(schema: Any, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why) as caught:
        SchemaValidator(schema, "the schema of weather")
    assert str(caught.value).startswith("the schema of weather ")
    assert len(str(caught.value)) < 600


def test_schemas_nested_without_end_are_refused() -> None:
    deep: dict[str, Any] = {}
    for _ in range(20_000):
        deep = {"not": deep}
    with pytest.raises(ConfigurationError, match="is not a JSON Schema"):
        SchemaValidator(deep)


HOSTILE = r"""
import random, sys
from ziggurat.tools.validator import SchemaValidator
from ziggurat.core.errors import ConfigurationError

def judge(schema, value):
    try:
        return "; ".join(SchemaValidator(schema).problems(value)) or "fits"
    except ConfigurationError as error:
        return "refused: " + str(error)

random.seed(1)
noise = "".join(random.choices("ab", k=90_000))
patterns = "^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "(.*)*c", "(a*)*$b", "^(([a-z])+.)+[A-Z]([a-z])+$", "^((?=(a|b)*c).)*x"
for pattern in patterns[: int(sys.argv[1])]:
    for text in ("a" * 90_000 + "!", noise):
        print("pattern", judge({"pattern": pattern}, text))
        print("keys", judge({"patternProperties": {pattern: False}}, {text: 1}))
for pattern in ("[ab]*a[ab]{1000}c", "[ab]*a([ab]{40}){40}c"):
    print("wide", judge({"allOf": [{"pattern": pattern}] * 9}, noise))
fan = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(50)}
print("fan", judge({"$defs": {**fan, "d50": {"type": "string"}}, "$ref": "#/$defs/d0"}, 1))
value = {"v": 0}
for _ in range(90):
    value = {"x": value, "v": 0}
arms = [{"required": ["v"], "properties": {"x": {"$ref": "#"}, "v": {"const": n}}} for n in (1, 2, 3)]
print("tree", judge({"oneOf": arms}, value))
knot = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{m}"} for m in range(14)]} for n in range(14)}
print("knot", judge({"$defs": knot, "$ref": "#/$defs/d0"}, 1))
arms = [{"properties": {"x": {"$ref": "#"}, "v": {"pattern": "[ab]*a[ab]{999}c"}}} for n in (1, 2, 3)]
value = {"v": noise[:1000]}
for _ in range(9):
    value = {"x": value}
print("deep", judge({"anyOf": arms}, value))
refs = {f"d{n}": {"properties": {"x": {"$ref": f"#/$defs/d{n + 1}"}}} for n in range(7000)}
print("refs", judge({"$defs": {**refs, "d7000": {}}, "$ref": "#/$defs/d0"}, {"x": {"x": 1}}))
ids = {f"d{n}": {"$id": f"https://a.example/{n}", "items": {"$ref": "#/$defs/x"}, "$defs": {"x": {}}}
    for n in range(3000)}
print("ids", judge({"$defs": ids}, 1))
known = {f"some_name_{n}": {} for n in range(190)}
closed = {"items": {"properties": known, "additionalProperties": False}}
print("names", judge(closed, [{f"same_name_{n}_{m}": 1 for n in range(100)} for m in range(100)]))
print("many", judge({"items": {"type": "string"}}, [1] * 200_000))
"""


def test_nothing_hangs() -> None:
    patterns = amount(1, 7)
    done = subprocess.run([sys.executable, "-c", HOSTILE, str(patterns)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    said = dict(line.split(" ", 1) for line in lines)
    assert len(lines) == 2 * 2 * patterns + 2 + 8
    assert "times as much text as can be matched" in said["wide"]
    assert said["fan"].startswith("refused: the schema unfolds to more than")
    assert said["tree"].startswith("arguments: nested too deep")
    assert said["knot"].startswith("refused: the schema has a $ref that leads back to itself")
    assert "times as much text" in said["deep"]
    assert said["refs"] == "fits"
    assert said["ids"].startswith("refused: the schema unfolds to more than")
    assert said["names"].startswith("[0].same_name_0_0: unknown field")
    assert said["many"] == "[0]: expected a string, got 1"
    assert max(map(len, lines)) < 1_600


def test_schemas_of_the_allowed_size_are_taken() -> None:
    wide: dict[str, Any] = {"properties": {f"name_{n}": {"type": "string", "maxLength": 9} for n in range(9_000)}}
    validator = SchemaValidator(wide)
    assert validator.problems({"name_8999": "x"}) == []
    assert validator.problems({"name_8999": 1}) == ["name_8999: expected a string, got 1"]
    assert repr(validator) == "SchemaValidator('the schema')"
