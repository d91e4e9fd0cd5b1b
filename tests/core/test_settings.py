"""Settings are checked by their annotations, and the error says where, which, what would do, and what was passed."""

import asyncio
import io
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from inspect import iscoroutinefunction, signature
from typing import Annotated, Any, Literal, Protocol, TextIO, TypedDict, TypeVar, Unpack

import pytest
from hypothesis import given, strategies as st
from msgspec import Meta

from tests.wrong import wrong
from ziggurat import ConfigurationError
from ziggurat.core import PositiveInt
from ziggurat.core.settings import (
    SHARED,
    CheckedStruct,
    Fraction,
    NonEmptyText,
    NonNegativeInt,
    NonNegativeSeconds,
    PositiveFloat,
    Seconds,
    SecondsOrForever,
    SecretText,
    Settings,
    Share,
    checked,
)

T = TypeVar("T")
NAN, INF = math.nan, math.inf


class Gate:
    def __repr__(self) -> str:
        return "Gate()"


class Unasked:
    def __call__(self, value: object) -> None: ...


class Unknown(Protocol):
    def __call__(self, text: str) -> str: ...


class Quiet(Protocol):
    name: str


def sync(value: object) -> bool:
    return True


async def waits(value: object) -> bool:
    return True


def allows(annotation: object, value: object) -> bool:
    return not refusal(annotation, value)


def refusal(annotation: object, value: object) -> str:
    def function(setting: object) -> None: ...

    function.__annotations__ = {"setting": annotation}
    try:
        Settings(["setting"], function).check("f", [("setting", value)])
    except ConfigurationError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("annotation", "good", "bad"),
    [
        (int, [0, -1, 10**400], [True, 1.0, NAN, "1", None]),
        (PositiveInt, [1, 10**400], [0, -1, True, False, 1.5, NAN]), (NonNegativeInt, [0, 1], [-1, False, INF]),
        (float, [0, 1.5, -2], [True, NAN, INF, -INF, 10**400, "1"]),
        (Seconds, [1, 0.1], [0, 0.0, -1, NAN, INF, True, None]), (NonNegativeSeconds, [0, 1], [-0.1, NAN, INF]),
        (SecondsOrForever, [0, INF], [-INF, NAN, -1, True]), (Fraction, [0, 0.5, 1], [-0.1, 1.1, NAN, True]),
        (Share, [0.1, 1], [0, 1.1, NAN]), (Annotated[float, Meta(gt=1)], [1.1], [1, NAN]),
        (Annotated[int, Meta(lt=3)], [2, -9], [3]), (Annotated[PositiveInt, Meta(description="tries")], [1], [0]),
        (Annotated[Seconds, Meta(le=9)], [9], [0, 10]), (bool, [True, False], [0, 1, None, "yes"]),
        (str, ["", "a"], [b"a", 1, None]), (NonEmptyText, ["a"], ["", "  \n", 3]),
        (Annotated[str, Meta(max_length=3)], ["", "abc"], ["abcd"]),
        (Literal["full", "none"], ["full"], ["half", None, ["full"]]),
        (Literal[1, "a", "b"], [1, "a"], [True, 1.0, "c"]), (PositiveInt | None, [None, 1], [0, False]),
        (None | Gate | str, [None, "x"], [3]), (Gate, [Gate()], [3, None]), (Annotated[Gate, SHARED], [Gate()], [3]),
        (Annotated[int, "no bounds"], [1], [True]), (type[int], [int, str], [3]),
        (Callable[[Any], bool], [sync, len, waits, str, Unasked()], [3, None]),
        (Callable[..., Any], [sync, waits], ["f"]), (Unknown, [sync], [3, str]),
        (Sequence[str], [[], ["a"], ("a", "b")], ["abc", ["a", 1], {"a"}, 3]),
        (tuple[PositiveInt, ...], [(), (1, 2)], [[1], (0,)]),
        (Iterable[str], [["a"], iter("ab"), {"a": 1}], ["ab", [1]]), (Sequence[Any], [[1, "a"]], ["ab", 3]),
        (frozenset[str], [frozenset("a")], [{"a"}, frozenset([1])]),
        (Mapping[str, Any], [{}, {"a": 1}], [[], None, {1: 1}]), (dict[str, PositiveInt], [{"a": 1}], [{"a": 0}]),
        (tuple[str, PositiveInt], [("a", 1)], [("a",), ("a", 0), ["a", 1], ("a", 1, 2)]),
        (Mapping[Any, Any], [{}, {1: 1}], [[]]),
        (Annotated[Sequence[int] | None, Meta(min_length=1)], [[1], None], [[], ["a"]]),
        (Annotated[Decimal, Meta(gt=0)], [Decimal("0.1")], [Decimal(0), Decimal("NaN"), Decimal("sNaN")]),
        (Annotated[str, Meta(pattern=r"^[a-z]+\Z", title="name of a to z")], ["a"], ["", "A", "a\n"]),
        (Annotated[Gate | None, Meta(title="gate, open or shut")], [Gate(), None], [3]),
        ("PositiveInt | None", [None, 1], [0]), (Sequence["Gate"], [[Gate()]], [[3]]),
    ],
)  # fmt: skip
def test_an_annotation_says_what_is_allowed(annotation: object, good: list[object], bad: list[object]) -> None:
    for value in good:
        assert allows(annotation, value), value
    for value in bad:
        assert refusal(annotation, value).startswith("f(setting=...) is "), value


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (PositiveInt, ["whole number", "at least 1"]),
        (Annotated[Seconds, Meta(le=9)], ["seconds", "above 0", "up to 9"]),
        (Annotated[int, Meta(lt=3)], ["below 3"]),
        (Annotated[PositiveInt, Meta(description="tries")], ["tries"]),
        (Annotated[str, Meta(max_length=3)], ["text", "at most 3"]),
        (Annotated[str, Meta(pattern=r"^[a-z]+\Z", title="name of a to z")], ["name of a to z"]),
        (Literal[1, "a", "b"], ["1, 'a' or 'b'"]),
        (None | Gate | str, ["Gate", "text", "None"]),
        (dict[str, PositiveInt], ["dictionary", "key", "value"]),
        (Callable[[Any], bool], ["function"]),
    ],
)
def test_the_error_says_what_is_allowed(annotation: object, words: list[str]) -> None:
    message = refusal(annotation, b"x")
    assert all(word in message for word in ["f(setting=...)", "got b'x'", *words])


@pytest.mark.parametrize("annotation", [Any, object, T, Quiet, "Path", "Path | None", Any | None])
def test_what_cannot_be_checked_is_allowed(annotation: object) -> None:
    assert allows(annotation, 3)
    assert allows(annotation, None)


@given(
    value=st.one_of(st.integers(), st.floats(), st.booleans(), st.text(max_size=3), st.none()),
    low=st.integers(-3, 3),
    high=st.integers(-3, 3),
)
def test_bounds_hold_for_every_number(value: object, low: int, high: int) -> None:
    number = isinstance(value, (int, float)) and not isinstance(value, bool) and not math.isnan(value)
    whole = isinstance(value, int) and number
    inside = isinstance(value, (int, float)) and number and low <= value <= high
    assert allows(Annotated[float, Meta(ge=low, le=high)], value) == inside
    assert allows(Annotated[int, Meta(ge=low, le=high)], value) == (whole and inside)


def test_what_was_passed_is_shown_in_short() -> None:
    assert refusal(int, "x" * 10_000).endswith("...")
    assert len(refusal(int, "x" * 10_000)) < 300
    assert "got the class Gate; make an object of it" in refusal(Gate, Gate)


class Bulkhead:
    @checked
    def __init__(self, limit: PositiveInt, *, queue: NonNegativeInt = 7) -> None:
        """Make one."""
        self.limit, self.queue = limit, queue


class Special(Bulkhead):
    """A subclass, which is named in errors."""


def test_a_constructor_checks_its_arguments_however_they_are_passed() -> None:
    made = Bulkhead(2)
    assert (made.limit, made.queue) == (2, 7)
    mistakes: list[tuple[Callable[[], Bulkhead], str]] = [
        (lambda: Bulkhead(0), "Bulkhead(limit=...)"),
        (lambda: Bulkhead(limit=True), "Bulkhead(limit=...)"),
        (lambda: Bulkhead(1, queue=-1), "Bulkhead(queue=...)"),
        (lambda: Special(0), "Special(limit=...)"),
    ]
    for wrongly, place in mistakes:
        with pytest.raises(ConfigurationError, match=re.escape(place)):
            wrongly()
    with pytest.raises(TypeError, match="limit"):
        Bulkhead()  # type: ignore[call-arg]
    assert str(signature(Bulkhead)).startswith("(limit: ")
    assert Bulkhead.__init__.__doc__ == "Make one."


def test_a_function_checks_before_it_does_anything_also_an_async_one() -> None:
    begun: list[float] = []

    @checked
    async def advance(seconds: NonNegativeSeconds, *more: PositiveInt, **others: int) -> float:
        begun.append(seconds)
        return seconds

    assert iscoroutinefunction(advance)
    assert asyncio.run(advance(1.5, 3, other=4)) == 1.5
    for arguments, others, message in (
        ((-1,), {}, "advance(seconds=...)"),
        ((1, 3, 0), {}, "advance(*more)"),
        ((1, 3), {"other": "x"}, "advance(**others)"),
    ):
        with pytest.raises(ConfigurationError, match=re.escape(message)):
            asyncio.run(wrong(advance)(*arguments, **others))
    assert begun == [1.5]


class Terms(TypedDict, total=False):
    deadline: Seconds | None
    labels: Mapping[str, str]


@checked
def order(item: str, *, count: PositiveInt = 1, **terms: Unpack[Terms]) -> tuple[object, ...]:
    return item, count, terms


def test_arguments_that_are_handed_on_are_checked_by_their_typed_dict() -> None:
    assert order("tea", count=2, deadline=1.5) == ("tea", 2, {"deadline": 1.5})
    with pytest.raises(ConfigurationError, match=r"order\(deadline=...\)"):
        order("tea", deadline=0)
    for misspelt, meant in (("counts", "count"), ("dead_line", "deadline"), ("label", "labels")):
        with pytest.raises(TypeError, match=rf"order\(\) got an .* '{misspelt}'; did you mean '{meant}'\?$"):
            wrong(order)("tea", **{misspelt: 1})


def test_arguments_that_must_be_named_are_listed() -> None:
    with pytest.raises(TypeError, match=r"order\(\).*by name: count$"):
        wrong(order)("tea", 2)
    with pytest.raises(TypeError, match="by name: queue"):
        wrong(Bulkhead)(1, 2)

    @checked
    def every(*, hours: PositiveFloat = 1.0) -> None: ...

    with pytest.raises(TypeError, match=r"nothing.*hours"):
        wrong(every)(2)


def test_the_error_names_the_one_of_several_values_that_is_wrong() -> None:
    assert refusal(Sequence[PositiveInt], [1, 0, 2]).endswith("at least 1; got 0 among them")
    assert refusal(Sequence[str] | None, "ab").endswith("; got 'ab', write ['ab']")


async def test_the_error_says_that_a_function_was_called_instead_of_passed() -> None:
    called = waits(1)
    assert "pass waits itself" in refusal(Sequence[Callable[..., Any]], [called])
    called.close()


def test_the_error_shows_how_a_function_is_called_that_cannot_be_called_as_it_will_be() -> None:
    assert not refusal(Unknown, lambda text: text)
    message = refusal(Unknown, NOT_ONE["two"])
    assert "(text)" in message
    assert "(one, two)" in message


class Base(CheckedStruct, frozen=True):
    limit: NonNegativeInt = 10


class Query(Base, frozen=True, kw_only=True):
    text: str | None = None


def test_a_struct_checks_its_fields_those_of_its_bases_too() -> None:
    assert Query(limit=0, text="a").limit == 0
    with pytest.raises(ConfigurationError, match=r"Query\(limit=...\)"):
        Query(limit=-1)
    with pytest.raises(ConfigurationError, match=r"Query\(text=...\)"):
        Query(text=wrong(3))
    with pytest.raises(ConfigurationError, match=r"^Base\(limit=...\)"):
        Base(limit=wrong(True))


def test_an_open_file_is_anything_that_can_be_written_to() -> None:
    @checked
    def show(file: TextIO | None) -> None: ...

    show(None)
    show(io.StringIO())
    for value, shown in ((7, "7"), ("out.txt", "'out.txt'"), (io.StringIO, "the class StringIO; make an object of it")):
        with pytest.raises(ConfigurationError) as told:
            show(wrong(value))
        assert "open file" in str(told.value)
        assert shown in str(told.value)


def test_a_list_in_place_of_a_value_or_of_all_values_is_told() -> None:
    @checked
    def take(*values: PositiveInt) -> None: ...

    for items, of_one in (([1], True), ((1, 2), False)):
        assert ("without the list" in refusal(PositiveInt, items)) == of_one
        with pytest.raises(ConfigurationError, match="without the list"):
            take(wrong(items))
    for value in ([], [0], [1, "x"], {1: 1}, "x"):
        assert "without the list" not in refusal(PositiveInt, value)


def test_a_blank_text_is_no_item_to_write_in_a_list() -> None:
    assert refusal(NonEmptyText | Sequence[str], "").endswith("got ''")


def test_the_fields_of_a_dictionary_are_no_items() -> None:
    items = Sequence[str | Gate]
    assert "*" not in refusal(items, [{"role": "user", "content": "x"}])
    assert "write * before the values()" in refusal(items, [{"a": Gate()}])


def test_around_types_that_only_a_type_checker_knows_the_collection_is_checked() -> None:
    items = Sequence["Unheard"]  # type: ignore[name-defined]  # noqa: F821
    assert allows(items, [1])
    assert allows("Unheard | Sequence[int]", 1)
    assert allows("Unheard[int] | Sequence[int]", 1)
    assert "write [1]" in refusal(items, 1)


def test_of_a_secret_only_the_type_is_shown() -> None:
    @checked
    def call(key: SecretText | None = None) -> None: ...

    call("sk-1")
    call(None)
    with pytest.raises(ConfigurationError) as told:
        call(wrong(b"sk-1"))
    assert "bytes" in str(told.value)
    assert "sk-1" not in str(told.value)


class Pair:
    def method(self, one: object) -> bool:
        return True

    def __call__(self, one: object, two: object) -> bool:
        return True


ONE: dict[str, Any] = {
    "exact": lambda one: True,
    "optional": lambda one, two=0: True,
    "many": lambda *many: True,
    "keyword with a default": lambda one, *, two=0: True,
    "method": Pair().method,
    "partial": partial(Pair(), 1),
    "builtin": len,
    "class": str,
    "not written in Python": max,
}
"""What can be called with one argument."""

NOT_ONE: dict[str, Any] = {
    "none": lambda: True,
    "two": lambda one, two: True,
    "keyword": lambda one, *, two: True,
    "method": Pair.method,
    "object": Pair(),
    "partial": partial(Pair(), 1, 2),
}
"""What cannot."""


@pytest.mark.parametrize("function", ONE)
def test_a_protocol_or_function_of_one_argument_allows_what_can_be_called_with_one(function: str) -> None:
    assert allows(Unknown, ONE[function]) == (function != "class")
    assert allows(Callable[[object], bool], ONE[function])


@pytest.mark.parametrize("function", NOT_ONE)
def test_a_protocol_or_function_of_one_argument_refuses_all_else(function: str) -> None:
    assert not allows(Unknown, NOT_ONE[function])
    assert not allows(Callable[[object], bool], NOT_ONE[function])
    assert allows(Callable[..., bool], NOT_ONE[function])
