import contextlib
import dataclasses
import datetime
import functools
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import jsonschema_rs
import msgspec
import pydantic
import pytest
from hypothesis import given, strategies as st
from msgspec import Meta

from tests.tools.signatures import Colour, Place, Tree, problem, taking
from ziggurat import ConfigurationError, Context
from ziggurat.errors import InvalidArguments
from ziggurat.tools.signature import Signature


async def weather(city: str, days: int = 1, ctx: Context | None = None) -> str:
    """Forecast for a city.

    Args:
        city: Name of the city.
        days: How many days ahead.
        ctx: Not for the model.
    """
    return f"{city} {days} {ctx}"


def test_signature_of_a_function() -> None:
    found = Signature.of(weather)
    assert (found.name, found.description, found.is_async) == ("weather", "Forecast for a city.", True)
    assert found.context_parameter == "ctx"
    assert found.returns is str
    assert found.parameters == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Name of the city."},
            "days": {"type": "integer", "default": 1, "description": "How many days ahead."},
        },
        "required": ["city"],
        "additionalProperties": False,
    }


def test_a_name_can_be_given_and_a_partial_fixes_arguments() -> None:
    found = Signature.of(weather, name="forecast", description="Look ahead.")
    assert (found.name, found.description) == ("forecast", "Look ahead.")
    assert "description" in found.parameters["properties"]["city"]  # type: ignore[index]
    found = Signature.of(functools.partial(weather, days=2))
    assert problem(found, '{"city": "Rome", "days": 99}') == "days: unknown parameter"


def test_a_description_in_the_annotation_wins() -> None:
    def tool(
        a: Annotated[int, "from a string"], b: Annotated[int, Meta(description="from Meta", ge=1)], c: int
    ) -> None:
        """Do.

        Args:
            a: From the docstring.
            b: From the docstring.
            c: From the docstring.
        """

    properties: Any = Signature.of(tool).parameters["properties"]
    assert [properties[name]["description"] for name in "abc"] == ["from a string", "from Meta", "From the docstring."]
    assert properties["b"]["minimum"] == 1


class Adder:
    """Add to a number."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __call__(self, other: int) -> int:
        return self.number + other

    def method(self, other: int) -> int:
        """Add, as a method."""
        return self.number + other

    async def slow(self, other: int) -> int:
        return self.number + other

    @classmethod
    def made(cls, number: int) -> int:
        return number

    @staticmethod
    def still(number: int) -> int:
        return number


class Waiter:
    async def __call__(self, other: int) -> int:
        return other


@pytest.mark.parametrize(
    ("function", "name", "keys", "is_async"),
    [
        (Adder(1), "Adder", ["other"], False),
        (Waiter(), "Waiter", ["other"], True),
        (Adder(1).method, "method", ["other"], False),
        (Adder(1).slow, "slow", ["other"], True),
        (Adder.made, "made", ["number"], False),
        (Adder.still, "still", ["number"], False),
        (functools.partial(weather, "Paris"), "weather", ["days"], True),
        (functools.partial(weather, days=2), "weather", ["city"], True),
        (functools.partial(functools.partial(weather, "Paris"), days=2), "weather", [], True),
        (functools.partial(Adder(1)), "Adder", ["other"], False),
    ],
)
def test_every_kind_of_callable(function: Callable[..., object], name: str, keys: list[str], is_async: bool) -> None:
    found = Signature.of(function)
    assert (found.name, found.is_async) == (name, is_async)
    assert list(found.parameters["properties"]) == keys  # type: ignore[call-overload]


def test_types_are_inferred_from_defaults() -> None:
    def tool(a=1, b="x", c=1.5, d=True, e=[], f=Colour.RED):  # type: ignore[no-untyped-def]  # noqa: B006
        return None

    properties: Any = Signature.of(tool).parameters["properties"]
    assert [properties[name].get("type") for name in "abcde"] == ["integer", "string", "number", "boolean", "array"]
    assert properties["f"] == {"enum": ["blue", "red"], "default": "red"}


def test_annotations_as_strings_are_resolved() -> None:
    def tool(place: "Place", ctx: "Context") -> "Place":
        return place

    found = Signature.of(tool)
    assert found.decode('{"place": {"name": "x"}}') == {"place": Place("x")}
    assert (found.context_parameter, found.returns) == ("ctx", Place)


def test_further_keyword_arguments() -> None:
    def tool(ctx: Context, a: int, **rest: float) -> None: ...

    found = Signature.of(tool)
    assert found.parameters["additionalProperties"] == {"type": "number"}
    assert found.decode('{"a": 1, "b": "2.5", "c": 1}') == {"a": 1, "b": 2.5, "c": 1.0}
    assert problem(found, '{"a": 1, "b": "x"}') == "b: expected a number, got 'x'"
    assert problem(found, '{"a": 1, "ctx": 1}').startswith("ctx: unknown parameter")


def test_recursive_types_are_defined_once_on_top() -> None:
    def tool(left: Tree, right: Tree) -> None: ...

    schema = Signature.of(tool).parameters
    assert list(schema["$defs"]) == ["Tree"]  # type: ignore[call-overload]
    assert jsonschema_rs.is_valid(schema, {"left": {"value": 1}, "right": {"value": 2, "children": [{"value": 3}]}})
    assert not jsonschema_rs.is_valid(schema, {"left": {"value": 1}, "right": {"value": 2, "children": [{}]}})


def positional(a: int, /) -> None: ...
def starred(*a: int) -> None: ...
def bare(a) -> None: ...  # type: ignore[no-untyped-def]
def nothing(a=None) -> None: ...  # type: ignore[no-untyped-def]
def unresolvable(a: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821
def opaque(a: int, thing: list[complex]) -> None: ...
def two(a: Context, b: Context) -> None: ...
def many(**contexts: Context) -> None: ...
def yielding() -> Iterator[int]:
    yield 1


class Streaming:
    __name__ = "streaming"

    async def __call__(self) -> AsyncIterator[int]:
        yield 1


def noted(a: int = pydantic.Field(3, ge=1)) -> None: ...
def fielded(a: int = dataclasses.field(default=3)) -> None: ...
def stubbed(a: int = ...) -> None: ...
def divided(a: "1 / 0") -> None: ...  # type: ignore[valid-type]
def broken(a: object) -> None: ...
def overlong() -> None: ...


broken.__annotations__["a"] = "1 +"


@pytest.mark.parametrize(
    ("function", "parts"),
    [
        (positional, ["'positional'", "'a'", "'/'"]), (starred, ["'starred'", "'a'", "list"]),
        (bare, ["'bare'", "'a'", "a: str"]), (nothing, ["'nothing'", "'a'", "a: str | None = None"]),
        (unresolvable, ["'unresolvable'", "'Nowhere'"]), (opaque, ["'opaque'", "'thing'", "complex"]),
        (two, ["'two'", "a and b"]), (many, ["'many'", "'contexts'"]), (yielding, ["'yielding' yields"]),
        (Streaming(), ["yields", "async"]), (noted, ["'noted'", "'a'", "Annotated"]),
        (fielded, ["'fielded'", "'a'", "plain"]), (stubbed, ["'stubbed'", "'a'", "Ellipsis"]),
        (divided, ["'divided'", "division by zero"]), (broken, ["'broken'", "signature"]),
        (lambda a: a, ["'<lambda>'", "name="]), (Adder, ["Adder", "__call__"]), (3, ["3", "function"]),
        (print, ["'print'"]), (dict.fromkeys, ["'fromkeys'"]),
    ],
)  # fmt: skip
def test_a_bad_signature_is_refused_with_the_fix(function: Any, parts: list[str]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Signature.of(function)
    assert [part for part in parts if part not in str(caught.value)] == []


@pytest.mark.parametrize("name", ["", "two words", "a" * 65, "naïve", "a.b"])
def test_a_bad_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="choose another"):
        Signature.of(overlong, name=name)


def test_two_recursive_types_of_one_name_are_refused() -> None:
    @dataclass
    class Other:
        parts: list["Other"]

    Other.__name__ = Other.__qualname__ = "Tree"
    Other.__annotations__["parts"] = list[Other]

    def tool(a: Any, b: Any) -> None: ...

    tool.__annotations__.update(a=Tree, b=Other)
    with pytest.raises(ConfigurationError, match="'Tree'"):
        Signature.of(tool)


@pytest.mark.parametrize("arguments", ["", "  ", b"", "null", "{}", '"{}"', '""', " {} "])
def test_no_arguments_at_all(arguments: str | bytes) -> None:
    assert taking(int, 1).decode(arguments) == {}
    assert problem(taking(int), arguments) == "value: missing (required)"


def test_arguments_may_be_wrapped_null_or_left_out() -> None:
    assert Signature.of(weather).decode('"{\\"city\\": \\"Rome\\"}"') == {"city": "Rome"}
    assert Signature.of(weather).decode('{"city": "Rome", "days": null}') == {"city": "Rome"}
    assert Signature.of(weather).decode('{"city": "Rome"}') == {"city": "Rome"}
    text = '{"city": "Zürich: Höngg", "days": 2}'
    assert Signature.of(weather).decode(text) == Signature.of(weather).decode(text.encode())


def test_problems_are_told_within_bounds() -> None:
    many = problem(Signature.of(weather), msgspec.json.encode({f"k{number}": 1 for number in range(5_000)}).decode())
    assert len(many.splitlines()) == 21
    assert many.splitlines()[-1] == "and 4981 more"
    long = problem(Signature.of(weather), msgspec.json.encode({"k" * 100_000: 1, "city": "Rome"}).decode())
    assert len(long) == 1_000


def test_all_problems_at_once() -> None:
    def trip(
        city: str, days: int, mode: Literal["car", "train"] = "car", when: datetime.date | None = None
    ) -> None: ...

    text = problem(Signature.of(trip), '{"town": "Rome", "days": "soon", "mode": "boat", "when": "never"}')
    assert text.splitlines() == [
        "town: unknown parameter",
        "days: expected an integer, got 'soon'",
        "mode: expected one of 'car', 'train', got 'boat'",
        "when: expected a date such as '2026-01-31', got 'never'",
        "city: missing (required)",
    ]


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ("nonsense", "not valid JSON: expecting value (character 1, near 'nonsense')"), ('{"value": 1', "at its end"),
        ('{"value": 1} x', "extra data (character 14"), ('{"value": NaN}', "NaN is not a JSON number"),
        ('{"value": Infinity}', "Infinity is not a JSON number"), ('{"value": 1e999}', "too large"),
        ('{"value": ' + "1" * 5000 + "}", "not valid JSON"), ("[1]", "must be a JSON object, got an array"),
        ("3", "must be a JSON object, got 3"), ('"hello"', "not valid JSON"),
        ('{"value": 1, "value": 2}', "value: given more than once"),
        ('{"value": {"a": 1, "a": 2}}', "a: given more than once"),
        ('{"value": [{"a": 1, "a": 2}]}', "a: given more than once"), ('{"value": "\\ud800"}', "surrogate"),
        (b'{"value": "\xff"}', "not valid JSON"), (b"\xef\xbb\xbf{}", "not valid JSON"),
        ('{"value": ' + "[" * 150 + "]" * 150 + "}", "more than 100 levels"),
        ('{"value": ' + "[" * 100_000 + "]" * 100_000 + "}", "more than 100 levels"),
        ('{"value": ' + '{"a":' * 200 + "1" + "}" * 200 + "}", "more than 100 levels"),
        ('{"value": ' + "[" * 100_000, "more than 100 levels"),
    ],
    ids=range(20),
)  # fmt: skip
def test_what_is_no_json_object_is_refused(arguments: str | bytes, part: str) -> None:
    for annotation in (Any, int, list[Any]):
        assert part in problem(taking(annotation), arguments)


def test_a_tool_without_parameters_takes_none() -> None:
    def tool() -> None: ...

    assert problem(Signature.of(tool), '{"a": 1}') == "a: unknown parameter"


def test_edited_arguments_are_validated_alike() -> None:
    found = Signature.of(weather)
    assert found.validate({"city": "Rome", "days": "2"}) == {"city": "Rome", "days": 2}
    with pytest.raises(InvalidArguments, match="days: expected an integer"):
        found.validate({"city": "Rome", "days": "x"})


@given(st.text(max_size=60) | st.text('{}[]":,0123456789abntrue\\u ', max_size=60))
def test_any_text_is_decoded_or_refused(text: str) -> None:
    for found in (taking(int), taking(Any), taking(dict[str, float]), Signature.of(weather)):
        with contextlib.suppress(InvalidArguments):
            assert isinstance(found.decode(text), dict)


@given(
    st.dictionaries(
        st.sampled_from(["city", "days", "town", "ctx"]), st.none() | st.integers() | st.text() | st.floats()
    )
)
def test_what_is_let_through_fits_the_schema(values: dict[str, object]) -> None:
    found = Signature.of(weather)
    try:
        decoded = found.decode(msgspec.json.encode(values))
    except InvalidArguments:
        return
    assert jsonschema_rs.is_valid(found.parameters, decoded)


def test_modules_of_heavy_libraries_are_not_needed() -> None:
    import subprocess

    code = (
        "import sys\nfrom ziggurat.tools.signature import Signature\n"
        "def add(a: int, b: int = 1) -> int:\n    'Add.'\n"
        "Signature.of(add).decode('{\"a\": 1}')\n"
        "print([m for m in ('pydantic', 'docstring_parser', 'json', 'difflib', 'fractions') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
