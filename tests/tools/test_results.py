"""Whatever a tool returns becomes text or parts of bounded size."""

import dataclasses
import enum
import resource
import sys
import uuid
from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec
import pydantic
import pytest
from hypothesis import given, strategies as st

from tests.samples import sample
from tests.wrong import wrong
from ziggurat import Denied, Image, Text, Timeout, ToolCall, ToolError, ToolResult
from ziggurat.core.codec import decode, encode
from ziggurat.errors import InvalidArguments, ServiceError
from ziggurat.messages import File
from ziggurat.tools.results import MAX_RESULT, error_result, in_bounds, presentable, result_of, text_of_error

CALL = ToolCall("call-1", "fetch")


def _megabytes() -> float:
    """Return the peak memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 if sys.platform == "darwin" else 1024)


def in_conversation(value: object) -> ToolResult:
    """Return what a tool returned as its result in a conversation."""
    return in_bounds(result_of(value, CALL))


def _fit(result: ToolResult) -> None:
    """Assert that a result is bounded, and can be journalled and sent."""
    assert (result.id, result.name) == ("call-1", "fetch")
    assert len(result.text) <= MAX_RESULT + 100
    assert decode(encode(result), ToolResult) == result


class Colour(enum.Enum):
    RED = "red"


class Point(msgspec.Struct):
    x: int
    y: int


@dataclasses.dataclass
class Pair:
    left: Any
    right: Any


class Model(pydantic.BaseModel):
    name: str
    child: Any = None


class Named(NamedTuple):
    a: int


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"), ("", ""), (3, "3"), (True, "true"), (None, "null"), (1.5, "1.5"), (2**80, str(2**80)),
        ([1, "two", None], '[1,"two",null]'), ({"a": (1, 2)}, '{"a":[1,2]}'), ([], "[]"), ((), "[]"),
        (Point(1, 2), '{"x":1,"y":2}'), (Pair(1, [2]), '{"left":1,"right":[2]}'),
        (Model(name="x"), '{"name":"x","child":null}'), ([Model(name="x")], '[{"name":"x","child":null}]'),
        (Named(1), "[1]"), (Colour.RED, '"red"'), (date(2026, 1, 2), '"2026-01-02"'),
        (uuid.UUID(int=0), '"00000000-0000-0000-0000-000000000000"'), (Decimal("1.10"), '"1.10"'),
        (b"\x00\xff", '"AP8="'), (bytearray(b"a"), '"YQ=="'), ({1: "a"}, '{"1":"a"}'),
    ],
)  # fmt: skip
def test_values_become_text(value: object, text: str) -> None:
    result = result_of(value, CALL)
    assert (result.text, result.error, result.origin) == (text, None, "fetch")
    _fit(result)


class Str(str):
    """A subclass of str."""


class Int(enum.IntEnum):
    ONE = 1


class Mixed(str, enum.Enum):  # noqa: UP042 - as many still write it; str() of it is its name
    ONE = "one"


@pytest.mark.parametrize(
    ("value", "text"), [(Str("text"), "text"), (Mixed.ONE, "one"), (Int.ONE, "1"), (frozenset({1}), "[1]")]
)
def test_kinds_of_plain_values_are_written_too(value: object, text: str) -> None:
    result = result_of(value, CALL)
    assert result.text == text
    _fit(result)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b", "a", "c", "d"}, '["a","b","c","d"]'),
        ({"z": [frozenset("badc")], "a": ({10, 1.5, 9},)}, '{"z":[["a","b","c","d"]],"a":[[1.5,9,10]]}'),
        ({("b", 1), ("a", 2), 3, None}, '[3,["a",2],["b",1],null]'),
        ({frozenset("ba"), frozenset("dc")}, '[["a","b"],["c","d"]]'),
    ],
)
def test_sets_are_written_in_one_order_in_every_process(value: object, text: str) -> None:
    assert result_of(value, CALL).content == text


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_what_is_no_number_in_json_is_null(number: float) -> None:
    """NaN and infinity become null, because only valid JSON is written."""
    for value, text in ((number, "null"), ([number], "[null]"), ({"a": number}, '{"a":null}')):
        result = result_of(value, CALL)
        assert result.text == text
        _fit(result)


def test_parts_are_kept_and_texts_among_them_are_parts() -> None:
    image = Image(b"\x89PNG")
    assert result_of(image, CALL).content == (image,)
    assert result_of([Text("see"), image], CALL).content == (Text("see"), image)
    assert result_of((File(b"x", name="a"),), CALL).content == (File(b"x", name="a"),)
    assert result_of(Text("only"), CALL).text == "only"
    _fit(result_of([Text("see"), image], CALL))
    assert result_of(["a", Image(b"x"), "b"], CALL).content == (Text("a"), Image(b"x"), Text("b"))


def test_a_result_of_its_own_is_given_the_ids_of_the_call() -> None:
    result = result_of(ToolResult("other", "other", "text", "transient", "elsewhere"), CALL)
    assert result == ToolResult("call-1", "fetch", "text", "transient", "elsewhere")
    assert result_of(ToolResult("", "", "text"), CALL).origin == "fetch"


@pytest.mark.parametrize(
    ("made", "wrong"),
    [
        (ToolResult("", "", 5), "content"),  # type: ignore[arg-type]
        (ToolResult("", "", ("a", "b")), "content"),  # type: ignore[arg-type]
        (ToolResult("", "", "x", "nonsense"), "error"),  # type: ignore[arg-type]
        (ToolResult("", "", "x", origin=5), "origin"),  # type: ignore[arg-type]
        (Text(None), "text"),  # type: ignore[arg-type]
        ([Text("a"), Image(wrong(5))], "data"),
    ],
)
def test_a_result_made_wrongly_by_hand_is_an_error_that_says_where(made: object, wrong: str) -> None:
    """An invalid result would be recorded, and the record could not be read again."""
    with pytest.raises(ToolError, match=rf"{wrong}(=\.\.\.|`|\[)"):
        result_of(made, CALL)


def test_many_parts_hold_no_more_than_one_may() -> None:
    texts = in_conversation([Text("x" * 150_000), Text("y" * 150_000), Text("z" * 150_000)])
    assert texts.text == f"{'x' * 150_000}{'y' * 50_000}\n[cut: 100000 more characters]\n[cut: 150000 more characters]"
    many = result_of([Text("")] * 5_000, CALL)
    assert len(many.content) == 1_001
    assert many.text == "[cut: 4000 more parts]"
    with pytest.raises(ToolError, match="more than 32,000,000 bytes"):
        result_of([File(b"x" * 20_000_000), File(b"x" * 20_000_000)], CALL)


def test_a_long_text_is_cut_and_the_cut_is_marked() -> None:
    result = in_conversation("x" * (MAX_RESULT + 5))
    assert result.text == "x" * MAX_RESULT + "\n[cut: 5 more characters]"
    assert in_conversation("x" * MAX_RESULT).text == "x" * MAX_RESULT
    assert "[cut: " in in_conversation(["x" * MAX_RESULT, "y"]).text
    assert "[cut: " in in_conversation(ToolResult("", "", "x" * (MAX_RESULT + 1))).text
    assert "[cut: " in in_conversation(Text("x" * (MAX_RESULT + 1))).text
    assert "[cut: " in in_bounds(error_result(ValueError("x" * (MAX_RESULT + 50)), CALL)).text


GIGABYTE = 2**30


@pytest.mark.parametrize("kind", ["bytes", "list", "dict", "keys", "dataclass", "deep", "struct"])
def test_a_gigabyte_is_refused_without_being_written(kind: str) -> None:
    part = "x" * 2**24
    many = GIGABYTE // len(part)
    values: dict[str, Callable[[], object]] = {
        "bytes": lambda: bytes(GIGABYTE),  # untouched memory pages cost nothing
        "list": lambda: [part] * many,
        "dict": lambda: {str(number): part for number in range(many)},
        "keys": lambda: {part + str(number): 1 for number in range(3)},
        "dataclass": lambda: [Pair(part, part)] * (many // 2),
        "deep": lambda: [[[part] * 8] * 8],
        "struct": lambda: [*[Text(part)] * many, 1],
    }
    value = values[kind]()
    before = _megabytes()
    with pytest.raises(ToolError, match="large"):
        result_of(value, CALL)
    assert _megabytes() - before < 128


def test_a_gigabyte_of_text_is_cut_and_costs_little_more() -> None:
    text = "\u00e4" + "x" * (2**28 - 1)
    before = _megabytes()
    result = in_conversation(text)
    assert "[cut: " in result.text
    _fit(result)
    assert _megabytes() - before < 128


def _shared(levels: int, make: Any) -> object:
    value: object = "leaf"
    for _ in range(levels):
        value = make(value)
    return value


SHARING: list[Callable[[object], object]] = [
    lambda value: [value, value],
    lambda value: {"a": value, "b": value},
    lambda value: (value, value),
    lambda value: Pair(value, value),
    lambda value: [Model(name="x", child=value)] * 2,
]


@pytest.mark.parametrize("make", sample(SHARING, 1))
def test_what_holds_itself_forty_times_over_is_refused(make: Any) -> None:
    before = _megabytes()
    with pytest.raises(ToolError, match="too large"):
        result_of(_shared(40, make), CALL)
    assert _megabytes() - before < 128


def test_what_holds_itself_is_refused() -> None:
    ring: list[object] = []
    ring.append(ring)
    mapping: dict[str, object] = {}
    mapping["self"] = mapping
    pair = Pair(1, None)
    pair.right = pair
    model = Model(name="x")
    model.child = model
    for value in (ring, mapping, pair, model, [1, [mapping]]):
        with pytest.raises(ToolError, match=r"large|written"):
            result_of(value, CALL)


def test_what_is_too_deep_is_refused() -> None:
    with pytest.raises(ToolError, match="too deeply nested"):
        result_of(_shared(100_000, lambda value: [value]), CALL)


class Strange:
    """Nothing that can be written."""


class Leaving(list[int]):
    def __iter__(self) -> Iterator[int]:
        raise SystemExit(3)


class Disguised:
    @property  # type: ignore[misc]
    def __class__(self) -> type:
        raise KeyboardInterrupt


class Refusing(pydantic.BaseModel):
    def model_dump(self, **_: Any) -> dict[str, Any]:
        raise GeneratorExit


@pytest.mark.parametrize("make", [lambda: Leaving([1]), Disguised, lambda: [Disguised()], Refusing])
def test_a_value_that_would_end_the_program_ends_its_call_only(make: Callable[[], object]) -> None:
    with pytest.raises(ToolError, match="fetch"):
        result_of(make(), CALL)


class Ambiguous(list[int]):
    """Behaves like a NumPy array."""

    def __bool__(self) -> bool:
        raise ValueError("neither true nor false")


def test_nothing_is_asked_whether_it_is_true() -> None:
    assert result_of(Ambiguous([1]), CALL).text == "[1]"


@pytest.mark.parametrize(
    "value",
    [Strange(), object(), print, Strange, iter([1]), (number for number in range(3)), {"a": Strange()}, 1j],
)
def test_what_cannot_be_written_is_an_error_that_says_so(value: object) -> None:
    with pytest.raises(ToolError, match="JSON"):
        result_of(value, CALL)


def test_what_was_not_awaited_is_to_be() -> None:
    async def later() -> str:
        return "x"

    value = later()
    with pytest.raises(ToolError, match="await"):
        result_of(value, CALL)
    value.close()


def test_lone_surrogates_do_not_get_through() -> None:
    result = result_of("a\ud800b", CALL)
    assert result.text == "a?b"
    _fit(result)
    _fit(result_of(Text("a\ud800b"), CALL))
    _fit(result_of(ToolResult("", "", "a\ud800b"), CALL))
    _fit(error_result(ValueError("a\ud800b"), CALL))
    assert result_of(["a\ud800b"], CALL).text == '["a?b"]'


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=20,
)


@given(JSON)
def test_whatever_it_is_the_result_is_fit(value: object) -> None:
    try:
        result = result_of(value, CALL)
    except ToolError:
        return
    _fit(result)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (InvalidArguments("x"), "invalid_arguments"), (ToolError("x"), "permanent"),
        (ToolError("x", kind="transient"), "transient"), (ToolError("x", kind="not_found"), "not_found"),
        (Timeout(seconds=3), "timeout"), (TimeoutError(), "timeout"), (Denied("x"), "denied"),
        (ConnectionResetError("x"), "transient"), (ServiceError("x", transient=True), "transient"),
        (PermissionError("x"), "permanent"), (ValueError("x"), "permanent"),
    ],
)  # fmt: skip
def test_errors_are_told_by_their_kind(error: Exception, kind: str) -> None:
    result = error_result(error, CALL)
    assert result.error == kind
    assert result.origin == "fetch"
    assert result.text
    _fit(result)


def test_the_text_of_an_error_names_its_type_unless_it_is_ours() -> None:
    assert text_of_error(ValueError("bad")) == "ValueError: bad"
    assert text_of_error(ValueError()) == "ValueError"
    assert text_of_error(ToolError("bad")) == "bad"
    assert text_of_error(Denied("")) == "Denied"
    inner = ExceptionGroup("deeper", [KeyError("k")])
    group = ExceptionGroup("two", [ValueError("a"), inner])
    assert text_of_error(group) == (
        "ExceptionGroup: two (2 sub-exceptions); ValueError: a; ExceptionGroup: deeper (1 sub-exception); KeyError: 'k'"
    )
    many = text_of_error(ExceptionGroup("many", [ValueError(str(number)) for number in range(1_000)]))
    assert many.endswith("ValueError: 9")


def test_an_error_that_cannot_be_looked_at_is_replaced() -> None:
    class Hiding(type):
        def __getattribute__(cls, name: str) -> object:
            raise SystemExit(name)

    class Hidden(Exception, metaclass=Hiding):
        """An error that hides its class."""

    seen = ValueError("a")
    assert presentable(seen) is seen
    assert isinstance(presentable(Hidden()), ToolError)
