"""Values of an answer or of arguments, while they are streamed, are of their type, and grow into the whole."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Annotated, Any, Literal, TypedDict

import pytest
from annotated_types import MinLen
from msgspec import Meta, Struct
from pydantic import BaseModel, Field

from tests.agents.test_partial_json import grows_into
from tests.samples import pairs
from ziggurat import Agent, ConfigurationError, stack, tool
from ziggurat.agents.output import AnswerReader
from ziggurat.core.codec import encode
from ziggurat.events import TextDelta, ToolCallDelta, partial_values
from ziggurat.layers.retry import retry
from ziggurat.messages import tool_call
from ziggurat.messages.model import OutputMode
from ziggurat.models.scripted import Piece
from ziggurat.testing import ScriptedModel


class City(Struct):
    name: str
    people: int | None = None
    rivers: list[str] = []


class River(BaseModel):
    name: str = Field(min_length=2)
    length: float = 0.0
    cities: list[str] = []


@dataclass
class Country:
    name: str
    cities: list[City] = field(default_factory=list)
    kind: Literal["kingdom", "republic"] = "kingdom"


class Row(TypedDict, total=False):
    id: int
    tags: list[str]


Named = Annotated[str, Meta(min_length=3)]
CITY = {"name": "Ur \u00e9\U0001f600", "people": 65000, "rivers": ["Euphrates", "Tigris"]}
KINDS: list[tuple[Any, Any]] = [
    (City, CITY),
    (River, {"name": "Nile", "length": 6650.5, "cities": ["Cairo"]}),
    (Country, {"name": "Sumer", "cities": [CITY, {"name": "Eridu"}], "kind": "republic"}),
    (Row, {"id": 12, "tags": ["a", "b"]}),
    (dict[str, list[int]], {"a": [1, 22, 333], "b": []}),
    (list[City], [CITY, {"name": "Eridu", "people": 3}]),
    (City | list[int], CITY),
    (list[Named], ["abc", "defg"]),
    (tuple[int, str], [1, "two"]),
    (Literal["red", "green"], "green"),
    (int, 1234),
    (str, "plain text"),
]


def _pieces(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


async def _read(agent: Agent[Any], kind: Any, **settings: Any) -> tuple[list[Any], Any]:
    async with agent.stream("go") as events:
        found = [value async for value in partial_values(events, kind, **settings)]
    return found, events.response


def _answer(kind: Any, plain: Any, mode: OutputMode, size: int) -> ScriptedModel:
    if kind is str:
        return ScriptedModel([TextDelta(piece) for piece in _pieces(plain, size)])
    wrapped = {"value": plain} if AnswerReader.of(kind, None).wrapped else plain
    pieces = _pieces(json.dumps(wrapped), size)
    said: list[Piece] = [TextDelta(piece) for piece in pieces]
    if mode == "tool":
        said = [ToolCallDelta(0, piece, "c", "final_answer" if not n else "") for n, piece in enumerate(pieces)]
    return ScriptedModel(said, output_modes=[mode])


@pytest.mark.parametrize(("example", "mode", "size"), pairs(KINDS, ["native", "tool", "prompted"], [1, 7, 10_000]))
async def test_values_are_of_the_type_and_grow_into_the_answer(
    example: tuple[Any, Any], mode: OutputMode, size: int
) -> None:
    kind, plain = example
    agent: Agent[Any] = Agent(_answer(kind, plain, mode, size), output=None if kind is str else kind)
    found, run = await _read(agent, kind)
    assert found[-1] == run.output
    assert {type(value) for value in found} == {type(run.output)}
    for early, late in pairwise(found):
        assert early != late
        assert grows_into(_fields(early), _fields(late))


def _fields(value: Any) -> Any:
    """What has arrived of a value: without its defaults."""
    plain = value.model_dump(exclude_defaults=True) if isinstance(value, BaseModel) else json.loads(encode(value))
    return _without_empty(plain)


def _without_empty(plain: Any) -> Any:
    if isinstance(plain, dict):
        return {key: _without_empty(each) for key, each in plain.items() if each not in (None, [], "kingdom")}
    return [_without_empty(each) for each in plain] if isinstance(plain, list) else plain


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (City, '{"na', None),
        (City, '{"name": "U', City("U")),
        (City, '{"name": "Ur", "people": "ma', City("Ur")),
        (River, '{"name": "N', None),
        (River, '{"name": "Ni', River(name="Ni")),
        (Country, '{"name": "X", "cities": [{"name": "A"}, {"peop', Country("X", [City("A")])),
        (Country, '{"name": "X", "cities": [{"name": "A"}], "kind": "king', Country("X", [City("A")])),
        (list[City], '{"value": [{"name": "A", "people": 1}, {"people": 2', [City("A", 1)]),
        (list[Annotated[str, MinLen(3)]], '{"value": ["abc", "d', ["abc"]),
        (tuple[int, str], '{"value": [1, ', None),
        (City, '{"name": 3, "people": 1', None),
        (City, 'Here it is:\n```json\n{"name": "Ur', City("Ur")),
        (City, '{"name": "Ur", "people": 12', City("Ur")),
        (City, '{"name": "Ur", "people": 12,', City("Ur", 12)),
        (City, '{"name": "Ur", "people": 12, "extra1', City("Ur", 12)),
        (list[int], '{"value": [1, 22, 3', [1, 22]),
        (City, "no JSON at all", None),
        (City, '{"name": "Ur"] and more', City("Ur")),
    ],
)
async def test_what_does_not_fit_yet_is_left_out(kind: Any, text: str, value: object) -> None:
    agent: Agent[Any] = Agent(ScriptedModel([TextDelta(text)], always="again", output_modes=["native"]), output=kind)
    assert (await _read(agent, kind))[0][:1] == ([] if value is None else [value])


@tool
def book(city: str, nights: int = 1) -> str:
    """Book."""
    return city


class Booking(Struct):
    city: str
    nights: int = 1


def _calls(*arguments: str) -> Sequence[Piece]:
    made: list[Piece] = []
    for number, text in enumerate(arguments):
        made += [ToolCallDelta(number, each, f"c{number}", "book" if not at else "")
                 for at, each in enumerate(_pieces(text, 8))]  # fmt: skip
    return made


async def test_arguments_of_a_tool_are_read_for_each_call() -> None:
    agent = Agent(ScriptedModel(_calls('{"city": "Ur", "nights": 2}', '{"city": "Eridu"}'), "Done."), tools=[book])
    found, run = await _read(agent, Booking, tool="book")
    assert run.text == "Done."
    cities = [value.city for value in found]
    assert found[-1] == Booking("Eridu")
    assert Booking("Ur", 2) in found
    assert cities.index("Ur") < cities.index("Eridu")
    assert all(isinstance(value, Booking) for value in found)


async def test_a_reply_that_is_dropped_is_read_anew() -> None:
    flaky = ScriptedModel(
        [TextDelta('{"name": "Wro'), ConnectionError("lost")], [TextDelta('{"name": '), TextDelta('"Ur"}')],
        output_modes=["native"],
    )  # fmt: skip
    agent = Agent(stack(flaky, retry(attempts=2, base=0)), output=City)
    found, _ = await _read(agent, City)
    assert found == [City("Wro"), City("Ur")]


async def test_an_answer_that_is_refused_is_read_anew() -> None:
    model = ScriptedModel('{"name": 3}', [TextDelta('{"name": '), TextDelta('"Ur"}')], output_modes=["native"])
    found, run = await _read(Agent(model, output=City), City)
    assert found == [City("Ur")] == [run.output]


async def test_answers_of_agents_below_are_not_read() -> None:
    below = Agent(ScriptedModel('{"name": "Below"}', output_modes=["native"]), output=City, name="below")
    model = ScriptedModel(tool_call("below", input="go"), '{"name": "Ur"}', output_modes=["native"])
    found, _ = await _read(Agent(model, tools=[below], output=City), City)
    assert {value.name for value in found} == {"Ur"}


@pytest.mark.parametrize("kind", [str, list[int], City | None])
async def test_arguments_are_an_object(kind: Any) -> None:
    with pytest.raises(ConfigurationError, match="book"):
        await _read(Agent(ScriptedModel("x"), tools=[book]), kind, tool="book")


async def test_reading_takes_time_proportional_to_the_length() -> None:
    made = 0

    class Counted(Struct):
        text: str

        def __post_init__(self) -> None:
            nonlocal made
            made += 1

    pieces = [TextDelta(piece) for piece in _pieces(json.dumps({"text": "x" * 10_000}), 1)]
    await _read(Agent(ScriptedModel(pieces, output_modes=["native"]), output=Counted), Counted)
    assert 100 < made < 3_000  # a few for each doubling, not one for each of the pieces
