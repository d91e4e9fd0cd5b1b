"""Typed answers: three modes to enforce a type, and the message when an answer does not fit."""

import asyncio
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal

import pytest
from msgspec import Struct
from pydantic import BaseModel, field_validator

from tests.agents.support import assert_sendable, elsewhere, said, streamed, timeless
from tests.samples import pairs
from ziggurat import Agent, AgentRun, ConfigurationError, Context, ModelResponse, ToolCall
from ziggurat.agents import Output
from ziggurat.agents.output import AnswerReader
from ziggurat.core.service import fact
from ziggurat.errors import InvalidArguments, ModelRetry, RunExists
from ziggurat.messages import assistant, stops, tool_call
from ziggurat.messages.model import FINAL_ANSWER, OUTPUT_MODES, FinishReason, OutputMode
from ziggurat.stores import InMemoryStore
from ziggurat.testing import ScriptedModel, ScriptedReply


class City(Struct):
    """A city."""

    name: str
    people: int = 0


@dataclass
class Town:
    """A town."""

    name: str


class Village(BaseModel):
    """A village."""

    name: str

    @field_validator("name")
    @classmethod
    def capital(cls, name: str) -> str:
        """Names begin with a capital."""
        if not name[:1].isupper():
            raise ValueError("begin with a capital")
        return name


MODES: list[OutputMode] = ["native", "tool", "prompted"]


def _answer(mode: OutputMode, **values: Any) -> ScriptedReply:
    call = tool_call(FINAL_ANSWER, **values)
    return call if mode == "tool" else call.arguments


def _run(mode: OutputMode, kind: Any, *replies: ScriptedReply, **options: Any) -> tuple[AgentRun, ScriptedModel]:
    def make() -> tuple[Agent, ScriptedModel]:
        model = ScriptedModel(*replies, output_modes=[mode])
        return Agent(model, output=kind, **options), model

    agent, model = make()
    plain = agent.run_sync("go")
    run, heard = asyncio.run(streamed(make()[0], "go"))
    assert timeless(plain) == timeless(run)
    assert heard.own("agent/") == said(run)
    assert_sendable(run.messages)
    return plain, model


@pytest.mark.parametrize("mode", MODES)
def test_an_answer_of_a_type(mode: OutputMode) -> None:
    run, model = _run(mode, City, _answer(mode, name="Ur", people=65_000))
    assert run.output == City("Ur", 65_000)
    assert run.stop == stops.Completed()
    assert run.tool_calls == 0
    request = model.last
    assert (request.output is not None) == (mode == "native")
    assert (FINAL_ANSWER in [spec.name for spec in request.tools]) == (mode == "tool")
    assert ("JSON Schema" in (request.instructions or "")) == (mode == "prompted")


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        (int, {"value": 3}, 3),
        (list[str], {"value": ["a"]}, ["a"]),
        (Literal["x", "y"], {"value": "x"}, "x"),
        (City | None, {"value": None}, None),
        (dict[str, int], {"a": 1}, {"a": 1}),
        (Town, {"name": "Eridu"}, Town("Eridu")),
        (Village, {"name": "Eridu"}, Village(name="Eridu")),
    ],
    ids=str,
)
def test_other_types(kind: Any, values: dict[str, Any], expected: Any) -> None:
    for mode in MODES:
        run, _ = _run(mode, kind, _answer(mode, **values))
        assert (run.output, run.stop) == (expected, stops.Completed())


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (list[Village], '{"value": [{"name": "Ur"}]}', [Village(name="Ur")]),
        (Village | None, '{"value": {"name": "Ur"}}', Village(name="Ur")),
        (dict[str, Village], '{"x": {"name": "Ur"}}', {"x": Village(name="Ur")}),
    ],
    ids=str,
)
def test_models_of_pydantic_within_other_types(kind: Any, text: str, expected: Any) -> None:
    output = AnswerReader.of(kind, ScriptedModel("x"))
    assert output.read(text).value == expected
    with pytest.raises(InvalidArguments, match="capital"):
        output.read(text.replace("Ur", "ur"))


@pytest.mark.parametrize(
    ("typed", "text", "finish"),
    pairs(
        [*((mode, City) for mode in MODES), ("tool", City | str), ("native", int)],
        ["I cannot", '{"name": "U', ""],
        ["length", "content_filter", "refusal", "error"],
    ),
)
def test_an_answer_that_is_not_whole_ends_the_run_as_such(
    typed: tuple[OutputMode, Any], text: str, finish: FinishReason
) -> None:
    mode, kind = typed
    cut = ModelResponse(assistant(text), finish)
    run, model = _run(mode, kind, cut, output_validator=lambda answer, ctx: pytest.fail("it is no answer"))
    assert (run.stop, run.finish, run.text) == (stops.Incomplete(finish), finish, text)
    assert run.error
    assert run._output in (None, text)
    assert len(model.calls) == 1
    inner = Agent(ScriptedModel(cut, output_modes=[mode]), output=kind, name="inner")
    outer = Agent(ScriptedModel(tool_call("inner", input="x"), "end"), tools=[inner]).run_sync("go")
    assert outer.observations == (f"inner stopped before it was done (Incomplete); so far: {text}",)


@pytest.mark.parametrize("finish", ["stop", "length", "content_filter"])
@pytest.mark.parametrize("mode", MODES)
def test_an_answer_that_fits_is_validated_however_it_ended(mode: OutputMode, finish: FinishReason) -> None:
    def small(city: City, ctx: Context) -> None:
        if city.people > 9:
            raise ModelRetry("too many")

    replies = [_answer(mode, name="Ur", people=people) for people in (10, 9)]
    ends = [ModelResponse(assistant(reply), finish) for reply in replies if isinstance(reply, (str, ToolCall))]
    run, _ = _run(mode, City, *ends, output_validator=small)
    assert (run.output, run.stop, run.model_calls) == (City("Ur", 9), stops.Completed(), 2)


@pytest.mark.parametrize("mode", MODES)
def test_an_answer_that_does_not_fit_is_asked_for_again_with_the_error(mode: OutputMode) -> None:
    run, model = _run(mode, City, _answer(mode, people="many"), _answer(mode, name="Ur"))
    assert run.output == City("Ur")
    assert (run.steps, run.model_calls) == (1, 2)
    told = model.last.messages[-1]
    text = told.text or told.tool_results[0].text
    assert "City" in text
    assert "name" in text or "people" in text


@pytest.mark.parametrize("mode", MODES)
def test_a_validator_of_the_type_is_heard(mode: OutputMode) -> None:
    run, model = _run(mode, Village, _answer(mode, name="ur"), _answer(mode, name="Ur"))
    assert run.output == Village(name="Ur")
    told = model.last.messages[-1]
    assert "begin with a capital" in (told.text or told.tool_results[0].text)


@pytest.mark.parametrize("mode", MODES)
def test_repair_is_bounded(mode: OutputMode) -> None:
    run, model = _run(mode, City, *[_answer(mode, people="many")] * 3)
    assert isinstance(run.stop, stops.Failed)
    assert "3 tries" in run.stop.error
    assert run._output is None
    assert len(model.calls) == 3


def test_the_bound_and_the_mode_can_be_chosen() -> None:
    model = ScriptedModel(*["no"] * 5, output_modes=["native", "tool", "prompted"])
    agent = Agent(model, output=Output(City, "prompted", retries=4))
    run = agent.run_sync("go")
    assert len(model.calls) == 5
    assert isinstance(run.stop, stops.Failed)
    assert model.last.output is None


def test_the_mode_is_the_best_of_the_model_s() -> None:
    lists: list[list[OutputMode]] = [["tool", "prompted"], ["native"], ["prompted", "tool"]]
    for modes in lists:
        model = ScriptedModel("x", output_modes=modes)
        assert AnswerReader.of(City, model).mode == modes[0] == fact(model, OUTPUT_MODES)[0]


def test_a_text_in_place_of_the_tool_is_asked_again() -> None:
    run, model = _run("tool", City, "It is Ur.", _answer("tool", name="Ur"))
    assert run.output == City("Ur")
    assert FINAL_ANSWER in model.last.messages[-1].text


@pytest.mark.parametrize(
    "text", ['{"name": "Ur"}', 'Here it is:\n```json\n{"name": "Ur"}\n```\nBye', ' {"name":\n"Ur", "people": "7"} ']
)
def test_json_is_found_among_words(text: str) -> None:
    assert AnswerReader.of(City, ScriptedModel("x", output_modes=["prompted"])).read(text).value.name == "Ur"


def test_an_answer_without_one_object_of_the_type_is_refused() -> None:
    for text in ("", "Ur", "[]", "{", '{"name": 1', "null", '{"name": "a"} {"name": "b"}', "}{"):
        with pytest.raises(InvalidArguments, match="City"):
            AnswerReader.of(City, ScriptedModel("x")).read(text)


def test_tools_are_called_before_the_answer_and_calls_beside_it_are_not_executed() -> None:
    called: list[str] = []

    async def look(what: str) -> str:
        called.append(what)
        return what

    model = ScriptedModel(
        tool_call("look", what="a"),
        [tool_call("look", what="b", id="x"), tool_call(FINAL_ANSWER, name="Ur", id="y")],
        output_modes=["tool"],
    )
    run = Agent(model, tools=[look], output=City).run_sync("go")
    assert run.output == City("Ur")
    assert called == ["a"]
    assert run.observations == ("a", "not executed: the final answer was given", "accepted")
    assert run.tool_calls == 1
    assert_sendable(run.messages)


def test_a_run_that_stops_otherwise_has_no_output() -> None:
    async def look() -> str:
        return "x"

    run = Agent(ScriptedModel(always=tool_call("look")), tools=[look], output=City, max_steps=2).run_sync("go")
    assert run.stop == stops.MaxSteps(2)
    assert run._output is None


@pytest.mark.parametrize("kind", [complex, object(), "City", lambda: 0])
def test_types_without_a_schema_are_refused_at_construction(kind: Any) -> None:
    with pytest.raises(ConfigurationError):
        Agent(ScriptedModel("x"), output=kind)


def test_a_mode_that_the_model_has_not_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="native"):
        Agent(ScriptedModel("x"), output=Output(City, "native"))


def test_a_number_of_repairs_is_whole_and_not_negative() -> None:
    for retries in (-1, 1.5, True, "two", None):
        with pytest.raises(ConfigurationError, match="retries"):
            Output(City, retries=retries)  # type: ignore[arg-type]


def test_a_tool_with_the_name_of_the_answer_is_refused() -> None:
    async def final_answer() -> str:
        return "x"

    with pytest.raises(ConfigurationError, match="final_answer"):
        Agent(ScriptedModel("x"), tools=[final_answer], output=City)
    assert Agent(ScriptedModel(tool_call("final_answer"), "ok"), tools=[final_answer]).run_sync("go").text == "ok"


def test_a_typed_answer_survives_the_journal_and_nests() -> None:
    inner = Agent(ScriptedModel(tool_call(FINAL_ANSWER, name="Ur")), output=City, name="city")
    run = Agent(ScriptedModel(tool_call("city", input="which?"), "done"), tools=[inner]).run_sync("go")
    assert run.observations == ('{"name":"Ur","people":0}',)


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        (City, {"name": "Ur"}, City("Ur")),
        (Village, {"name": "Ur"}, Village(name="Ur")),
        (Town, {"name": "Ur"}, Town("Ur")),
        (list[City], {"value": [{"name": "Ur"}]}, [City("Ur")]),
        (dict[int, date], {"3": "2020-01-02"}, {3: date(2020, 1, 2)}),
        (int, {"value": 3}, 3),
    ],
    ids=str,
)
async def test_a_typed_output_comes_back_from_the_record(kind: Any, values: dict[str, Any], expected: Any) -> None:
    def agent(store: InMemoryStore) -> Agent:
        return Agent(ScriptedModel(tool_call(FINAL_ANSWER, **values)), output=kind, store=store)

    store = InMemoryStore()
    first = await agent(store).run("go", run_id="r")
    again = await agent(elsewhere(store, "r")).resume("r")
    assert [each.output for each in [first, again, await agent(store).resume("r"), await agent(store).replay("r")]] == [
        expected
    ] * 4


async def test_an_output_of_another_type_than_was_recorded_is_an_error_that_says_so() -> None:
    store = InMemoryStore()
    await Agent(ScriptedModel(tool_call(FINAL_ANSWER, name="Ur")), output=City, store=store).run("go", run_id="r")
    later = Agent(ScriptedModel("x"), output=int, store=elsewhere(store, "r"))
    with pytest.raises(RunExists, match="int"):
        await later.resume("r")


def test_of_two_final_answers_in_one_reply_the_first_is_accepted() -> None:
    reply = assistant(tool_call("final_answer", id="1", value=1), tool_call("final_answer", id="2", value=2))
    run = Agent(ScriptedModel(reply), output=int).run_sync("go")
    assert (run.output, run.observations[0], run.failed_tool_calls) == (1, "accepted", 1)


@pytest.mark.parametrize("text", ['{"value":' * 100_000, '{"value":' + "[" * 5_000 + "]" * 5_000 + "}"])
def test_an_answer_that_is_nested_too_deeply_does_not_fit(text: str) -> None:
    with pytest.raises(InvalidArguments, match="does not fit the type"):
        AnswerReader.of(dict[str, Any], ScriptedModel("x")).read(text)


@pytest.mark.parametrize("mode", MODES)
def test_null_in_a_field_that_takes_none_counts_as_left_out(mode: OutputMode) -> None:
    model = ScriptedModel(_answer(mode, name="Ur", people=None), output_modes=MODES)
    assert Agent(model, output=Output(City, mode=mode)).run_sync("Ur?").output == City("Ur")
