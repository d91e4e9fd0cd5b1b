import datetime
import enum
import sys
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, Optional, TypedDict

import jsonschema_rs
import msgspec
import pydantic
import pytest
from msgspec import Meta

from ziggurat import ConfigurationError
from ziggurat.tools.schema import schema_of
from ziggurat.tools.type_parts import divide


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Mixed(enum.Enum):
    ONE = 1
    TWO = "two"


@dataclass
class Place:
    title: str
    size: int = 1


@dataclass
class Trip:
    start: Place
    end: Place


@dataclass
class Tree:
    value: int
    children: list["Tree"] = field(default_factory=list)


class Row(TypedDict):
    key: str
    note: NotRequired[str]


class Pair(NamedTuple):
    left: int
    right: str = "r"


class Point(msgspec.Struct):
    x: float
    y: float = 0.0


class Model(pydantic.BaseModel):
    city_name: str
    days: int = pydantic.Field(1, ge=1, description="How many")


class Node(pydantic.BaseModel):
    value: int
    next: Optional["Node"] = None


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (bytes, {"type": "string", "contentEncoding": "base64"}),
        (None, {"type": "null"}),
        (list, {"type": "array"}),
        (dict, {"type": "object"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (Sequence[str], {"type": "array", "items": {"type": "string"}}),
        (set[int], {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}),
        (dict[str, set[Any]], {"type": "object", "additionalProperties": {"type": "array", "uniqueItems": True}}),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
        (Literal["a", "b"], {"enum": ["a", "b"]}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (Optional[str], {"anyOf": [{"type": "string"}, {"type": "null"}]}),  # noqa: UP045
        (int | str, {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
        (Annotated[int, Meta(ge=1, description="d")], {"type": "integer", "minimum": 1, "description": "d"}),
        (Annotated[int, "how many"], {"type": "integer", "description": "how many"}),
        (datetime.datetime, {"type": "string", "format": "date-time"}),
        (list[datetime.datetime], {"type": "array", "items": {"type": "string", "format": "date-time"}}),
        (datetime.date, {"type": "string", "format": "date"}),
        (datetime.time, {"type": "string", "format": "time"}),
        (datetime.timedelta, {"type": "string", "format": "duration"}),
        (Decimal, {"type": "string", "format": "decimal"}),
        (uuid.UUID, {"type": "string", "format": "uuid"}),
        (object, {}),
        (Any, {}),
        (dict[str, object], {"type": "object", "additionalProperties": {}}),
        (list[Any], {"type": "array"}),
        (Colour, {"enum": ["blue", "red"]}),
        (Level, {"enum": [1, 2]}),
    ],
    ids=str,
)  # fmt: skip
def test_schema_of_plain_types(annotation: object, expected: dict[str, object]) -> None:
    assert schema_of(annotation) == expected


def test_a_tuple_has_a_schema_per_place_also_a_named_one() -> None:
    schema = schema_of(tuple[int, str])
    assert schema["prefixItems"] == [{"type": "integer"}, {"type": "string"}]
    assert (schema["minItems"], schema["maxItems"], schema["items"]) == (2, 2, False)
    schema = schema_of(Pair)
    assert schema["prefixItems"] == [{"type": "integer"}, {"type": "string", "default": "r"}]


@pytest.mark.parametrize(
    ("annotation", "properties", "required"),
    [
        (Place, {"title": {"type": "string"}, "size": {"type": "integer", "default": 1}}, ["title"]),
        (Row, {"key": {"type": "string"}, "note": {"type": "string"}}, ["key"]),
        (Point, {"x": {"type": "number"}, "y": {"type": "number", "default": 0.0}}, ["x"]),
        (
            Model,
            {
                "city_name": {"type": "string"},
                "days": {"type": "integer", "default": 1, "minimum": 1, "description": "How many"},
            },
            ["city_name"],
        ),
    ],
)
def test_classes_are_written_in_place(annotation: type, properties: dict[str, object], required: list[str]) -> None:
    schema = schema_of(annotation)
    assert schema["type"] == "object"
    assert schema["properties"] == properties
    assert schema["required"] == required
    assert "$defs" not in schema


def test_a_definition_used_twice_is_written_twice() -> None:
    schema = schema_of(Trip)
    place = schema_of(Place)
    assert schema["properties"] == {"start": place, "end": place}


@pytest.mark.parametrize("annotation", [Tree, list[Tree], Node, Tree | None])
def test_only_recursive_types_keep_a_definition(annotation: object) -> None:
    schema = schema_of(annotation)
    assert list(schema["$defs"]) == ["Node" if annotation is Node else "Tree"]  # type: ignore[call-overload]
    jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})


def test_recursive_schema_accepts_and_refuses() -> None:
    validator = jsonschema_rs.Draft202012Validator(schema_of(Tree))
    assert validator.is_valid({"value": 1, "children": [{"value": 2}]})
    assert not validator.is_valid({"value": 1, "children": [{"value": "x"}]})


def test_a_property_called_title_and_a_union_have_a_schema() -> None:
    members = schema_of(Place | Point)["anyOf"]
    assert [each["title"] for each in members] == ["Place", "Point"]  # type: ignore[attr-defined]
    assert "title" in schema_of(Place)["properties"]  # type: ignore[operator]


@pytest.mark.parametrize("annotation", [Model, list[Model], Model | None, dict[str, Model]])
def test_types_that_pydantic_reads(annotation: object) -> None:
    assert [part.reader for part in divide(annotation)[1].values()] == ["pydantic"]
    assert not divide(Place)[1]


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (Annotated[int, pydantic.Field(ge=1)], {"type": "integer", "minimum": 1}),
        (pydantic.PositiveInt, {"type": "integer", "exclusiveMinimum": 0}),
        (Annotated[str, pydantic.StringConstraints(max_length=3)], {"type": "string", "maxLength": 3}),
        (list[Annotated[int, pydantic.Field(le=9)]], {"type": "array", "items": {"type": "integer", "maximum": 9}}),
        (pydantic.AwareDatetime, {"type": "string", "format": "date-time"}),
        (Annotated[int, pydantic.Field(description="how many")], {"type": "integer", "description": "how many"}),
    ],
)
def test_bounds_in_the_words_of_pydantic_hold(annotation: object, expected: dict[str, object]) -> None:
    assert schema_of(annotation) == expected


def test_a_type_of_a_package_that_is_missing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic", None)
    with pytest.raises(ConfigurationError, match="package that is not installed"):
        schema_of(Annotated[int, pydantic.Field(ge=1)])


def test_schema_of_does_not_import_pydantic() -> None:
    import subprocess

    code = "import sys, ziggurat.tools.schema as s; s.schema_of(list[int]); print('pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


class Opaque:
    pass


@dataclass
class Holder:
    thing: Opaque


@pytest.mark.parametrize(
    ("annotation", "reason"),
    [
        (Opaque, "Opaque has no known JSON form"), (Holder, "Opaque has no known JSON form"),
        (complex, "complex has no known JSON form"),
        (Callable[[int], int], "Callable has no known JSON form"), (list[Opaque], "Opaque has no known JSON form"),
        (Opaque | None, "Opaque has no known JSON form"), (Mixed, "all str or all int"), (3, "3"), ("int", "a text"),
    ],
)  # fmt: skip
def test_unsupported_types_are_refused_with_the_fix(annotation: object, reason: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        schema_of(annotation)
    assert reason in str(caught.value)
    assert "use built-in types" in str(caught.value)
    assert "\n" not in str(caught.value)
