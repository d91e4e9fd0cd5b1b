import datetime
import uuid
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict

import msgspec
import pydantic
import pytest
import typing_extensions
from hypothesis import HealthCheck, given, settings, strategies as st
from msgspec import Meta

from tests.tools.signatures import Colour, Place, Tree, problem, taking
from ziggurat.tools.signature import Signature


@dataclass
class Circle:
    radius: float


class Row(TypedDict):
    key: str
    note: NotRequired[str]


class Pair(NamedTuple):
    left: int
    right: str


class Point(msgspec.Struct, forbid_unknown_fields=True):
    x: float
    y: float = 0.0


class Cat(msgspec.Struct, tag="cat"):
    lives: int = 9


class Dog(msgspec.Struct, tag="dog"):
    bark: str = "wau"


class Trip(pydantic.BaseModel):
    city: str
    days: int = 1


@pytest.mark.parametrize(
    ("annotation", "text", "value"),
    [
        (int, '"3"', 3), (int, "3.0", 3), (int, '"3.0"', 3), (int, '" 3 "', 3), (int | None, '"null"', None),
        (float, '"2.5"', 2.5), (float, "2", 2.0), (bool, '"true"', True), (bool, '"1"', True), (bool, "0", False),
        (str, '"3"', "3"), (str | None, '"null"', "null"), (int | str, '"3"', "3"), (list[int], "5", [5]),
        (list[int], '"[1, 2]"', [1, 2]), (list[int], '["1", 2.0]', [1, 2]), (list[str], '"a"', ["a"]),
        (list[str] | None, '"a"', ["a"]), (list[Place], '{"name": "x"}', [Place("x")]),
        (list[Place], '"{\\"name\\": \\"x\\"}"', [Place("x")]), (set[int], "[1, 1, 2]", {1, 2}),
        (tuple[int, str], '[1, "a"]', (1, "a")), (dict[str, int], '"{\\"a\\": 1}"', {"a": 1}),
        (dict[int, str], '{"1": "a"}', {1: "a"}), (Place, '"{\\"name\\": \\"x\\"}"', Place("x")),
        (Place, '{"name": "x", "size": "2"}', Place("x", 2)),
        (Tree, '{"value": 1, "children": [{"value": 2}]}', Tree(1, [Tree(2)])), (Row, '{"key": "k"}', {"key": "k"}),
        (Pair, '[1, "b"]', Pair(1, "b")), (Point, '{"x": 1}', Point(1.0)), (Colour, '"red"', Colour.RED),
        (Literal[1, 2], '"2"', 2), (object, '{"a": [1]}', {"a": [1]}), (Any, "null", None),
        (datetime.date, '"2026-01-31"', datetime.date(2026, 1, 31)),
        (datetime.timedelta, '"PT5S"', datetime.timedelta(seconds=5)), (Decimal, '"12.50"', Decimal("12.50")),
        (bytes, '"aGk="', b"hi"), (Place | Circle, '{"radius": 2}', Circle(2.0)),
        (Place | Circle, '{"name": "x", "size": "3"}', Place("x", 3)), (Place | Circle | None, "null", None),
        (datetime.date | str, '"2026-01-31"', datetime.date(2026, 1, 31)), (datetime.date | str, '"soon"', "soon"),
        (Annotated[Place | Circle, "a shape"], '{"radius": 2}', Circle(2.0)),
        (Trip, '{"city": "Rome", "days": "2"}', Trip(city="Rome", days=2)),
        (list[Trip], '{"city": "Rome"}', [Trip(city="Rome")]), (Trip | None, "null", None),
        (Annotated[int, pydantic.Field(ge=1)], '"2"', 2),
        (Annotated[Point, pydantic.Field(description="where")], '{"x": 1}', Point(1.0)),
        (Trip, '"{\\"city\\": \\"Rome\\"}"', Trip(city="Rome")),
    ],
)  # fmt: skip
def test_lax_reading(annotation: object, text: str, value: object) -> None:
    found = taking(annotation).decode(f'{{"value": {text}}}')
    assert found == {"value": value}
    assert type(found["value"]) is type(value)


@pytest.mark.parametrize(
    ("annotation", "text", "expected"),
    [
        (int, "null", "value: expected an integer, got null"),
        (int, "true", "value: expected an integer, got true"),
        (int, "1.5", "value: expected an integer, got 1.5"),
        (int, "[1]", "value: expected an integer, got an array"),
        (str, "3", "value: expected a string, got 3"),
        (str, '{"a": 1}', "value: expected a string, got an object"),
        (float, '"nan"', "value: expected a finite number, got 'nan'"),
        (float, '"-Infinity"', "value: expected a finite number, got '-Infinity'"),
        (float, r'"\u006ean"', "value: expected a finite number, got 'nan'"),
        (list[float], '[1, "inf"]', "value: expected a finite number, got an array"),
        (Decimal, '"NaN"', "value: expected a finite number, got 'NaN'"),
        (Point, '{"x": "nan"}', "value: expected a finite number, got an object"),
        (Annotated[int, Meta(ge=1)], "0", "value: expected an integer >= 1, got 0"),
        (Annotated[str, Meta(max_length=2)], '"abc"', "value: expected a string of length <= 2, got 'abc'"),
        (list[int], '["x"]', "value[0]: expected an integer, got 'x'"),
        (dict[str, int], '{"a": "x"}', "value.a: expected an integer, got 'x'"),
        (dict[str, int], '{"a": 1, "b": "x", "c": "y"}', "value.b: expected an integer, got 'x'"),
        (dict[str, Place], '{"a": {"name": "x"}, "b": {}}', "value.b.name: missing (required)"),
        (dict[int, int], '{"a": 1}', "value: expected an integer"),
        (tuple[int, str], "[1]", "value: expected an array of length 2, got 1"),
        (Place, "{}", "value.name: missing (required)"),
        (Place, '{"name": 3}', "value.name: expected a string, got 3"),
        (list[Place], '[{"name": "a"}, {}]', "value[1].name: missing (required)"),
        (Point, '{"x": 1, "z": 2}', "value.z: unknown field"),
        (list[Colour], '["green"]', "value[0]: expected one of 'blue', 'red', got 'green'"),
        (Colour | None, '"green"', "value: expected one of 'blue', 'red', got 'green'"),
        (int | None, '"x"', "value: expected an integer or null, got 'x'"),
        (uuid.UUID, '"x"', "value: expected a UUID such as '00000000-0000-4000-8000-000000000000', got 'x'"),
        (Place | Circle, "3", "value: expected an object with name or an object with radius, got 3"),
        (Cat | Dog, '{"type": "cow"}', "value.type: expected one of 'cat', 'dog', got 'cow'"),
        (Trip, "{}", "value.city: missing (required)"),
        (Annotated[int, pydantic.Field(ge=1)], "0", "value: input should be greater than or equal to 1, got 0"),
        (list[pydantic.PositiveInt], "[1, 0]", "value[1]: input should be greater than 0, got 0"),
        (Trip, '{"city": 1, "days": "x"}', "value.city: input should be a valid string, got 1\nvalue.days: "),
        (int, '"' + "x" * 100 + '"', "value: expected an integer, got '" + "x" * 57 + "...'"),
    ],
)
def test_problems_are_named_for_the_model(annotation: object, text: str, expected: str) -> None:
    found = problem(taking(annotation), f'{{"value": {text}}}')
    assert found == expected or (expected.endswith(" ") and found.startswith(expected))


@pytest.mark.parametrize("bound", [Meta(ge=1), pydantic.Field(ge=1)])
@pytest.mark.parametrize("make", [TypedDict, typing_extensions.TypedDict, NamedTuple])
def test_a_bound_holds_in_every_kind_of_class_with_fields(make: Any, bound: object) -> None:
    fields: Any = {"n": Annotated[int, bound]}
    kind = make("Kind", fields if make is not NamedTuple else fields.items())
    assert problem(taking(kind), '{"value": {"n": 0}}' if make is not NamedTuple else '{"value": [0]}')


TYPES: list[tuple[object, st.SearchStrategy[Any]]] = [
    (int, st.integers()),
    (float, st.floats(allow_nan=False, allow_infinity=False)),
    (bool, st.booleans()),
    (str, st.text()),
    (bytes, st.binary()),
    (int | None, st.none() | st.integers()),
    (str | None, st.none() | st.text()),
    (int | str | None, st.none() | st.integers() | st.text()),
    (list[int], st.lists(st.integers())),
    (dict[str, list[str]], st.dictionaries(st.text(), st.lists(st.text()), max_size=4)),
    (dict[int, bool], st.dictionaries(st.integers(-(2**63), 2**63 - 1), st.booleans(), max_size=4)),
    (tuple[int, str], st.tuples(st.integers(), st.text())),
    (set[int], st.sets(st.integers())),
    (Literal["a", "b", 3], st.sampled_from(["a", "b", 3])),
    (Colour, st.sampled_from(Colour)),
    (Place, st.builds(Place, st.text(), st.integers())),
    (list[Place], st.lists(st.builds(Place, st.text(), st.integers()), max_size=3)),
    (Tree, st.builds(Tree, st.integers(), st.lists(st.builds(Tree, st.integers()), max_size=3))),
    (Row, st.fixed_dictionaries({"key": st.text()}, optional={"note": st.text()})),
    (Pair, st.builds(Pair, st.integers(), st.text())),
    (Point, st.builds(Point, st.floats(allow_nan=False, allow_infinity=False))),
    (datetime.date, st.dates()),
    (datetime.datetime, st.datetimes(timezones=st.just(datetime.UTC))),
    (uuid.UUID, st.uuids()),
    (Decimal, st.decimals(allow_nan=False, allow_infinity=False)),
    (Place | Circle, st.builds(Place, st.text(), st.integers()) | st.builds(Circle, st.floats(0, 1e6))),
    (object, st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5)),
]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(TYPES), min_size=1, max_size=3), st.data())
def test_what_was_encoded_decodes_to_the_same(
    kinds: list[tuple[object, st.SearchStrategy[Any]]], data: st.DataObject
) -> None:
    def tool(a: Any = 0, b: Any = 0, c: Any = 0, d: Any = 0) -> None: ...

    for name, (kind, _) in zip("abcd", kinds, strict=False):
        tool.__annotations__[name] = kind
    values = {name: data.draw(strategy) for name, (_, strategy) in zip("abcd", kinds, strict=False)}
    given_values = {name: value for name, value in values.items() if data.draw(st.booleans())}
    found = Signature.of(tool)
    text = msgspec.json.encode(given_values)
    assert found.decode(text) == given_values
    assert found.decode(text.decode()) == given_values
    assert found.validate(msgspec.json.decode(text)) == given_values
