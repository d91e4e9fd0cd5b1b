"""Tests of the demo model without its weights: calls, answers, and events."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from tests.models.local.fakes import Parrot, WordCounter
from ziggurat import (
    ConfigurationError,
    Event,
    Message,
    ModelRequest,
    ModelResponse,
    ModelSettings,
    ToolCall,
    ToolResult,
    user,
)
from ziggurat.core import root
from ziggurat.core.event import warn_once
from ziggurat.core.service import fact, name_of
from ziggurat.events import Delta, Fold
from ziggurat.messages import ToolSpec, Transcript, assistant, tool_message
from ziggurat.messages.model import OUTPUT_MODES, WINDOW, OutputSchema
from ziggurat.models.local.demo import EmbeddedModel, answer, choose, declined, unfound
from ziggurat.models.local.templated import TemplatedModel
from ziggurat.providers import local, resolve

S = {"type": "string"}
WEATHER = ToolSpec(
    "weather", "The weather in a city.", {"type": "object", "properties": {"city": S}, "required": ["city"]}
)
SUM = ToolSpec(
    "calculator",
    "What is it? Compute.",
    {"type": "object", "properties": {"expression": S}, "required": ["expression"]},
)


def _ask(*messages: Message, **fields: Any) -> ModelResponse:
    fold = Fold()

    def hear(event: Event) -> None:
        if isinstance(event, Delta):
            fold.push(event.delta)

    request = ModelRequest(Transcript.of(*messages), **({"tools": (WEATHER, SUM)} | fields))
    reply: ModelResponse = asyncio.run(EmbeddedModel(WordCounter())(request, root().heard_by(hear)))
    assert fold.message() == reply.message
    return reply


def _answered(question: str, name: str, arguments: str, result: str) -> list[Message]:
    call = ToolCall("call-1", name, arguments)
    return [user(question), assistant(call), tool_message(ToolResult("call-1", name, result))]


def test_a_call() -> None:
    reply = _ask(user("What is the weather in Paris?"))
    assert reply.finish == "tool_calls"
    assert reply.tool_calls == (ToolCall("call-1", "weather", '{"city":"Paris"}'),)


def test_an_answer_is_made_of_all_results() -> None:
    reply = _ask(*_answered("What is 12 * 12?", "calculator", '{"expression":"12 * 12"}', "144"))
    assert reply.text == "The answer is 144."
    calls = (ToolCall("call-1", "weather", "{}"), ToolCall("call-2", "calculator", "{}"))
    results = [
        tool_message(ToolResult(call.id, call.name, content))
        for call, content in zip(calls, ("It rains the whole day.", "7"), strict=True)
    ]
    reply = _ask(user("What?"), assistant(*calls), *results)
    assert reply.text == "It rains the whole day. The answer is 7."


def test_where_no_tool_fits_the_demo_says_what_it_is() -> None:
    reply = _ask(user("Good morning!"))
    assert "I am a demo model that only calls tools, and none of them (weather, calculator) fits" in reply.text
    assert reply.finish == "stop"


async def test_without_tools_the_demo_says_what_it_is(caplog: pytest.LogCaptureFixture) -> None:
    warn_once.cache_clear()
    bare = ModelRequest(Transcript.of(user("What is the weather in Paris?")))
    for request in (bare, replace(bare, tools=(WEATHER,), settings=ModelSettings(tool_choice="none"))):
        reply = await EmbeddedModel(WordCounter())(request, root())
        assert reply.text.startswith("I am a demo model that only calls tools, and here are none.")
    assert [record.levelname for record in caplog.records] == ["WARNING"]  # which Python writes to standard error
    assert "demo" in caplog.text


def test_a_tool_that_must_be_called_exists_and_gets_no_invented_arguments() -> None:
    found = _ask(user("weather Paris"), settings=ModelSettings(tool_choice="weather"))
    assert found.tool_calls == (ToolCall("call-1", "weather", '{"city":"Paris"}'),)
    reply = _ask(user("Good morning"), settings=ModelSettings(tool_choice="calculator"))
    assert reply.tool_calls == ()
    assert "found none for 'expression' of calculator" in reply.text
    with pytest.raises(ConfigurationError, match="wheather"):
        _ask(user("?"), settings=ModelSettings(tool_choice="wheather"))


def _schema(**properties: Any) -> OutputSchema:
    return OutputSchema("visit", {"type": "object", "properties": properties, "required": list(properties)})


def test_structured_output_is_copied_or_refused() -> None:
    schema = _schema(day={"enum": ["monday", "friday"]}, people={"type": "integer"})
    read = _ask(user("On Friday, 3 people."), tools=(), output=schema)
    assert (read.text, read.finish) == ('{"day":"friday","people":3}', "stop")
    lacking = _ask(user("A visit on Monday."), tools=(), output=schema)
    assert lacking.finish == "refusal"
    assert "found none for 'people' of visit" in lacking.text
    unlike = _ask(user("Where?"), tools=(), output=_schema(city=S))
    assert unlike.finish == "refusal"
    messages = _answered("What is it?", "weather", "{}", "42")
    assert _ask(*messages, output=_schema(value={"type": "integer"})).text == '{"value":42}'


def test_ids_of_calls_differ_within_a_conversation() -> None:
    before = _answered("What is 1 + 1?", "calculator", "{}", "2")
    reply = _ask(*before, assistant("2"), user("What is the weather in Paris?"))
    assert reply.tool_calls[0].id == "call-2"


def test_the_model_of_a_name() -> None:
    model = resolve("demo")
    assert isinstance(model, EmbeddedModel)
    assert (repr(model), name_of(model), fact(model, WINDOW)) == ("EmbeddedModel()", "demo", None)
    assert fact(model, OUTPUT_MODES)[0] == "native"
    assert fact(TemplatedModel(Parrot()), WINDOW) == 2048


def test_wrong_arguments_raise_at_once(tmp_path: Any) -> None:
    with pytest.raises(ConfigurationError, match="no model file"):
        local(tmp_path / "missing.gguf")
    (tmp_path / "wrong.gguf").write_bytes(b"PK\x03\x04")
    with pytest.raises(ConfigurationError, match="not a GGUF file"):
        local(tmp_path / "wrong.gguf")
    with pytest.raises(ConfigurationError, match="slots"):
        local(tmp_path / "wrong.gguf", slots=0)
    with pytest.raises(ConfigurationError, match="empty"):
        local(" ")


def _result(content: str, error: str | None = None) -> ToolResult:
    return ToolResult("1", "find_order", content, error)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("144", "The answer is 144."), ("true", "The answer is true."), ("sunny", "The answer is sunny."),
        ("Rain until the evening.", "Rain until the evening."),
        ("Oslo 9:04, Bergen 15:57", "Oslo 9:04, Bergen 15:57."), ("x" * 500, "x" * 500),
        ('{"a": 1}', 'Here is what find order says: {"a": 1}'), ("", "Done."),
    ],
)  # fmt: skip
def test_the_result_is_in_the_answer(content: str, said: str) -> None:
    assert answer(_result(content)) == said


def test_errors_are_told() -> None:
    assert answer(_result("no such order", "not_found")) == (
        "I could not get an answer: find order failed with: no such order"
    )


def test_what_a_demo_says_for_itself() -> None:
    tools = [ToolSpec(name, "", {}) for name in "abcdefg"]
    assert "demo model that only calls tools, and none of them (a, b, c, d, e, ...)" in declined(tools)
    assert "(a)" in declined(tools[:1])
    assert "none for 'city', 'days' of weather" in unfound("weather", ["city", "days"])


EMBED = WordCounter().embed_now


def _tool(name: str, description: str, **properties: Any) -> ToolSpec:
    return ToolSpec(name, description, {"type": "object", "properties": properties, "required": list(properties)})


TOOLS = [
    _tool("weather", "The weather in a city.", city=S),
    _tool("set_timer", "Set a timer.", minutes={"type": "integer"}),
    _tool("calculator", "Compute a sum.", expression=S),
    _tool("now", ""),
]


@pytest.mark.parametrize(
    ("request_text", "tool", "values"),
    [
        ("What is the weather in Paris?", "weather", {"city": "Paris"}),
        ("Set a timer of 5 minutes", "set_timer", {"minutes": 5}),
        ("Compute 3 + 4", "calculator", {"expression": "3 + 4"}),
        ("now!", "now", {}),
        ("Paint me a picture", None, {}),
    ],
)
def test_the_tool_that_is_meant_and_can_be_called(request_text: str, tool: str | None, values: dict[str, Any]) -> None:
    choice = choose(request_text, TOOLS, EMBED)
    if tool is None:
        assert choice is None
    else:
        assert choice is not None
        assert (choice.tool, choice.copied.values, choice.copied.missing) == (tool, values, ())


def test_the_best_tool_may_lack_values() -> None:
    choice = choose("Set a timer", TOOLS, EMBED)
    assert choice is not None
    assert (choice.tool, choice.copied.missing) == ("set_timer", ("minutes",))


def test_one_must_be_chosen() -> None:
    choice = choose("Paint me a picture", TOOLS[1:2], EMBED, must=True)
    assert choice is not None
    assert choice.copied.missing == ("minutes",)
