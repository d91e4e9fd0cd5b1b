"""Every constraint of an output's type is enforced: constraints x containers x libraries, in each mode, streamed too.

The types are combined from the rule: each constraint, in the words of each library that has it, in each container that
this library can describe. For each there is a value that fits, one that does not, and what is expected.
"""

import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, make_dataclass
from datetime import date
from typing import Annotated, Any, Generic, NamedTuple, TypedDict, TypeVar

import annotated_types
import msgspec
import pytest
from msgspec import Struct
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PositiveInt,
    RootModel,
    StringConstraints,
    create_model,
)

from tests.agents.support import assert_sendable, elsewhere, streamed, timeless
from tests.samples import sample
from ziggurat import Agent, AgentRun, ConfigurationError, tool
from ziggurat.agents import Output
from ziggurat.agents.output import AnswerReader
from ziggurat.errors import InvalidArguments
from ziggurat.messages import stops, tool_call
from ziggurat.messages.model import FINAL_ANSWER, OutputMode
from ziggurat.stores import InMemoryStore
from ziggurat.testing import ScriptedModel, ScriptedReply


def even(value: int) -> int:
    if value % 2:
        raise ValueError("must be even")
    return value


CONSTRAINTS: dict[str, tuple[str, Any, Any, Any]] = {  # library, type, a value that fits, one that does not
    "pydantic-ge": ("pydantic", Annotated[int, Field(ge=3)], 4, 2),
    "pydantic-positive": ("pydantic", PositiveInt, 4, -1),
    "pydantic-pattern": ("pydantic", Annotated[str, StringConstraints(pattern="^[a-z]+$")], "ab", "A1"),
    "pydantic-length": ("pydantic", Annotated[list[int], Field(max_length=2)], [1], [1, 2, 3]),
    "pydantic-validator": ("pydantic", Annotated[int, AfterValidator(even)], 4, 3),
    "annotated_types-lt": ("pydantic", Annotated[float, annotated_types.Lt(9)], 8.5, 9.5),
    "msgspec-ge": ("msgspec", Annotated[int, msgspec.Meta(ge=3)], 4, 2),
    "msgspec-pattern": ("msgspec", Annotated[str, msgspec.Meta(pattern="^[a-z]+$")], "ab", "A1"),
    "msgspec-length": ("msgspec", Annotated[list[int], msgspec.Meta(max_length=2)], [1], [1, 2, 3]),
    "type": ("either", date, date(2026, 1, 31), "soon"),
}


def _typed_dict(kind: Any) -> Any:
    make: Any = TypedDict
    return make("Made", {"n": kind})


def _named(kind: Any) -> Any:
    make: Any = NamedTuple
    return make("Made", [("n", kind)])


def _of(kind: type, *arguments: Any) -> Any:
    return types.GenericAlias(kind, arguments)


def _instance(kind: Any, value: Any) -> Any:
    return kind(n=value)


Container = tuple[str, Callable[[Any], Any], Callable[[Any], Any], Callable[[Any, Any], Any]]
CONTAINERS: dict[str, Container] = {  # library, type around another, JSON around a value, value around a value
    "bare": ("either", lambda kind: kind, lambda value: value, lambda kind, value: value),
    "list": ("either", lambda kind: _of(list, kind), lambda value: [value], lambda kind, value: [value]),
    "dict": ("either", lambda kind: _of(dict, str, kind), lambda value: {"k": value}, lambda kind, value: {"k": value}),
    "tuple": ("either", lambda kind: _of(tuple, bool, kind), lambda each: [True, each], lambda _, each: (True, each)),
    "optional": ("either", lambda kind: kind | None, lambda value: value, lambda kind, value: value),
    "dataclass": ("either", lambda kind: make_dataclass("Made", [("n", kind)]), lambda value: {"n": value}, _instance),
    "typed dict": ("either", _typed_dict, lambda value: {"n": value}, lambda kind, value: {"n": value}),
    "named tuple": ("either", _named, lambda value: [value], _instance),
    "struct": (
        "msgspec", lambda kind: msgspec.defstruct("Made", [("n", kind)]), lambda value: {"n": value}, _instance
    ),
    "model": ("pydantic", lambda kind: create_model("Made", n=(kind, ...)), lambda value: {"n": value}, _instance),
    "list of dataclasses": (
        "either",
        lambda kind: _of(list, make_dataclass("Made", [("n", kind)])),
        lambda value: [{"n": value}],
        lambda kind, value: [kind.__args__[0](n=value)],
    ),
}  # fmt: skip


def _table() -> Iterator[Any]:
    for constraint, (library, kind, good, bad) in CONSTRAINTS.items():
        for container, (owner, around, as_json, as_value) in CONTAINERS.items():
            if "either" in (library, owner) or library == owner:
                made = around(kind)
                plain = msgspec.to_builtins(good)
                values = (as_json(plain), as_json(bad), as_value(made, good))
                yield pytest.param(made, *values, id=f"{constraint} in {container}")


TABLE = sample(_table(), 30)
MODES: list[OutputMode] = ["native", "tool", "prompted"]


def _reply(reader: AnswerReader, value: Any) -> ScriptedReply:
    call = tool_call(FINAL_ANSWER, **({"value": value} if reader.wrapped else value))
    return call if reader.mode == "tool" else call.arguments


async def _in_every_way(kind: Any, mode: OutputMode, good: Any, bad: Any) -> list[AgentRun]:
    """Answer once wrongly and then rightly; return the run, also as streamed, recorded and read back."""
    store = InMemoryStore()

    def agent(store: InMemoryStore | None = None) -> Agent:
        reader = AnswerReader.of(kind, ScriptedModel("x", output_modes=[mode]))
        return Agent(
            ScriptedModel(_reply(reader, bad), _reply(reader, good), output_modes=[mode]), output=kind, store=store
        )

    plain = await agent().run("go")
    run, _ = await streamed(agent(), "go")
    assert timeless(plain) == timeless(run)
    recorded = await agent(store).run("go", run_id="r")
    return [plain, run, recorded, await agent(elsewhere(store, "r")).resume("r")]


@pytest.mark.parametrize(("kind", "good", "bad", "expected"), TABLE)
async def test_a_constraint_is_enforced_in_every_mode(kind: Any, good: Any, bad: Any, expected: Any) -> None:
    for mode in MODES:
        for run in await _in_every_way(kind, mode, good, bad):
            assert (run.output, run.stop, run.model_calls) == (expected, stops.Completed(), 2)
            assert type(run.output) is type(expected)
            assert_sendable(run.messages)


@pytest.mark.parametrize(("kind", "good", "bad", "expected"), TABLE)
async def test_a_tool_enforces_the_same(kind: Any, good: Any, bad: Any, expected: Any) -> None:
    taken: list[Any] = []

    def take(value: Any) -> str:
        taken.append(value)
        return "ok"

    take.__annotations__["value"] = kind
    model = ScriptedModel(tool_call("take", value=bad), tool_call("take", value=good), "done")
    run = await Agent(model, tools=[tool(take)]).run("go")
    assert taken == [expected]
    assert run.observations[0].startswith("value")


# -- unions ------------------------------------------------------------------------------------------------------------


class A(BaseModel):
    x: Annotated[int, Field(ge=1)]


class B(BaseModel):
    model_config = ConfigDict(extra="forbid")
    y: int


@dataclass
class DA:
    x: int


@dataclass
class DB:
    y: Annotated[str, msgspec.Meta(max_length=2)]


class SA(Struct, forbid_unknown_fields=True):
    x: int


class SValue(Struct):
    value: int


class SB(Struct):
    y: Annotated[int, msgspec.Meta(ge=1)]


class R(RootModel[A | B]):
    pass


@dataclass
class Holder:
    it: DA | None
    others: list[A | B]


T = TypeVar("T")


@dataclass
class Box(Generic[T]):
    it: T


@pytest.mark.parametrize(
    ("kind", "good", "bad", "expected"),
    [
        (A | B, {"y": 2}, {"x": 0}, B(y=2)),
        (list[A | B], [{"x": 1}, {"y": 2}], [{"x": 1}, {"x": 0}], [A(x=1), B(y=2)]),
        (dict[str, A | B], {"k": {"x": 1}}, {"k": {"x": 0}}, {"k": A(x=1)}),
        (A | str, "so", {"x": 0}, "so"),
        (A | int, 3, {"x": 0}, 3),
        (A | None, None, {"x": 0}, None),
        (DA | DB, {"y": "ab"}, {"y": "abc"}, DB("ab")),
        (list[DA | DB], [{"x": 1}, {"y": "ab"}], [{"y": "abc"}], [DA(1), DB("ab")]),
        (SA | SB, {"y": 1}, {"y": 0}, SB(1)),
        (dict[str, list[SA | SB]], {"k": [{"x": 1}]}, {"k": [{"y": 0}]}, {"k": [SA(1)]}),
        (SA | A | None, {"type": "SA", "x": 1}, {"x": 1}, SA(1)),
        (list[SA | B], [{"y": 1}, {"x": 2}], [{"z": 0}], [B(y=1), SA(2)]),
        (tuple[A, SB], [{"x": 1}, {"y": 1}], [{"x": 1}, {"y": 0}], (A(x=1), SB(1))),
        (R, {"y": 1}, {"x": 0}, R(B(y=1))),
        (Holder, {"it": {"x": 1}, "others": [{"y": 1}]}, {"it": None, "others": [{"x": 0}]}, Holder(DA(1), [B(y=1)])),
        (Box[A], {"it": {"x": 1}}, {"it": {"x": 0}}, Box(A(x=1))),
        (Output(list[A]), [{"x": 1}], [{"x": 0}], [A(x=1)]),
        ([A, SB], {"y": 1}, {"y": 0}, SB(1)),
        ([DA], {"x": 1}, {"x": "one"}, DA(1)),
        ([SA, list[int]], [1], ["one"], [1]),
    ],
    ids=str,
)
async def test_a_union_gives_a_member_that_fits(kind: Any, good: Any, bad: Any, expected: Any) -> None:
    for mode in MODES:
        for run in await _in_every_way(kind, mode, good, bad):
            assert (run.output, run.model_calls) == (expected, 2)


NAMED: list[tuple[Any, dict[str, Any], Any]] = [
    (A | SB, {"y": 1}, SB(1)),
    (DA | SB, {"x": 1}, DA(1)),
    (DA | None, {"x": 1}, DA(1)),
    (list[int] | DA, {"x": 1}, DA(1)),
    (SValue | SB, {"value": 3}, SValue(3)),
]


@pytest.mark.parametrize(("kind", "value", "expected"), NAMED, ids=str)
def test_an_object_that_fits_a_member_needs_no_object_around_it(kind: Any, value: Any, expected: Any) -> None:
    reader = AnswerReader.of(kind, ScriptedModel("x"))
    text = msgspec.json.encode(value).decode()
    for written in (text, f"Here: {text}", f"```json\n{text}\n```"):
        assert reader.read(written).value == expected
    for other in (f"[{text}, {text}]", f"[{text}]", '{"other": 1}'):  # a part of a list is not the whole answer
        with pytest.raises(InvalidArguments, match=r'\{"value": \.\.\.\}'):
            reader.read(other)


def test_a_list_of_no_types_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"output=\[\] has no types"):
        Agent(ScriptedModel("x"), output=[])


def test_a_model_may_write_text_where_text_is_one_of_the_types() -> None:
    run = Agent(ScriptedModel("just so", output_modes=["tool"]), output=A | str).run_sync("go")
    assert (run.output, run.model_calls) == ("just so", 1)


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        (list[Annotated[int, Field(ge=1)]], {"value": [3, -1]}, "value[1]: input should be greater than or equal to 1"),
        (list[A | SB], {"value": [{"y": 1}, {"x": 0}]}, "value[1].x: input should be greater than or equal to 1"),
        (A, {}, "answer.x: missing (required)"),
        (DA, {"x": "one"}, "Expected `int`, got `str` - at `$.x`"),
        (int, {}, "Object missing required field `value`"),
    ],
    ids=str,
)
def test_the_model_learns_where_its_answer_is_wrong(kind: Any, value: Any, told: str) -> None:
    reader = AnswerReader.of(kind, ScriptedModel("x"))
    with pytest.raises(InvalidArguments) as caught:
        reader.read(msgspec.json.encode(value).decode())
    assert told in str(caught.value)


class Mixed(Struct):
    n: Annotated[int, Field(ge=1)]


@dataclass
class Both:
    a: Annotated[int, Field(ge=1)]
    b: Annotated[int, msgspec.Meta(le=5)]


@pytest.mark.parametrize("kind", [Mixed, Both, list[Mixed], Annotated[int, Field(ge=1), msgspec.Meta(le=5)]], ids=str)
def test_constraints_of_two_libraries_in_one_class_are_refused(kind: Any) -> None:
    with pytest.raises(ConfigurationError, match="msgspec"):
        Agent(ScriptedModel("x"), output=kind)
    with pytest.raises(ConfigurationError, match="msgspec"):
        take: Any = lambda value: ""  # noqa: E731
        take.__annotations__ = {"value": kind}
        tool(name="take")(take)


def test_descriptions_and_bounds_of_fields_are_in_the_schema() -> None:
    kind = Annotated[float, Field(description="meters", ge=1)]
    for made in (_typed_dict(kind), make_dataclass("Made", [("n", kind)]), create_model("Made", n=(kind, ...))):
        schema = AnswerReader.of(made, ScriptedModel("x")).schema
        assert schema["properties"]["n"] == {"description": "meters", "minimum": 1, "type": "number"}


async def test_a_model_with_other_names_in_json_comes_back_from_the_record() -> None:
    class Named(BaseModel):
        value: int = Field(alias="theValue")

    (run, *others) = await _in_every_way(Named, "tool", {"theValue": 1}, {"theValue": "x"})
    assert [each.output for each in (run, *others)] == [Named(theValue=1)] * 4
