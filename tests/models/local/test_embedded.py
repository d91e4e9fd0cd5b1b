"""Tests of the embedded model without its weights: calls, answers, and events."""

import asyncio
from typing import Any

import pytest

from tests.models.local.fakes import Parrot, WordCounter, schema_in
from ziggurat.core.context import root
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.event import Event
from ziggurat.core.facts import fact, name_of
from ziggurat.messages.conversation import Transcript
from ziggurat.messages.delta import Fold
from ziggurat.messages.events import Delta
from ziggurat.messages.facts import OUTPUT_MODES, WINDOW
from ziggurat.messages.message import Message, assistant, tool_message, user
from ziggurat.messages.model import ModelRequest, ModelResponse, ModelSettings, OutputSchema, ToolSpec
from ziggurat.messages.parts import ToolCall, ToolResult
from ziggurat.models.local import EmbeddedModel, TemplatedModel, local

S = {"type": "string"}
WEATHER = ToolSpec(
    "weather", "The weather in a city.", {"type": "object", "properties": {"city": S}, "required": ["city"]}
)
SUM = ToolSpec(
    "calculator",
    "What is it? Compute.",
    {"type": "object", "properties": {"expression": S}, "required": ["expression"]},
)


def _ask(engine: Parrot, *messages: Message, **fields: Any) -> ModelResponse:
    fold = Fold()

    def hear(event: Event) -> None:
        if isinstance(event, Delta):
            fold.push(event.delta)

    request = ModelRequest(Transcript.of(*messages), **({"tools": (WEATHER, SUM)} | fields))
    reply: ModelResponse = asyncio.run(EmbeddedModel(engine, WordCounter())(request, root().heard_by(hear)))
    assert fold.message() == reply.message
    return reply


def _answered(question: str, name: str, arguments: str, result: str) -> list[Message]:
    call = ToolCall("call-1", name, arguments)
    return [user(question), assistant(call), tool_message(ToolResult("call-1", name, result))]


def test_a_call_needs_no_generation() -> None:
    engine = Parrot()
    reply = _ask(engine, user("What is the weather in Paris?"))
    assert reply.finish == "tool_calls"
    assert reply.tool_calls == (ToolCall("call-1", "weather", '{"city":"Paris"}'),)
    assert engine.asked == []


def test_the_answer_is_generated_under_a_grammar_with_the_result() -> None:
    engine = Parrot(" The answer is 144.")
    reply = _ask(engine, *_answered("What is 12 * 12?", "calculator", '{"expression":"12 * 12"}', "144"))
    assert reply.text == "The answer is 144."
    assert '" 144."' in engine.asked[0][1]["grammar"]


def test_two_calls_and_two_answers() -> None:
    engine = Parrot(" The answer is 7.")
    question = user("What is the weather in Paris and what is 3 + 4?")
    called = _ask(engine, question)
    assert [call.name for call in called.tool_calls] == ["weather", "calculator"]
    results = [
        tool_message(ToolResult(call.id, call.name, content))
        for call, content in zip(called.tool_calls, ('"It rains the whole day."', "7"), strict=True)
    ]
    assert _ask(engine, question, called.message, *results).text == "It rains the whole day. The answer is 7."
    assert "what is 3 + 4" in engine.asked[0][1]["prompt"]


def test_one_call_at_a_time_where_that_is_asked() -> None:
    settings = ModelSettings(parallel_tools=False)
    called = _ask(Parrot(), user("What is the weather in Paris and what is 3 + 4?"), settings=settings)
    assert [call.name for call in called.tool_calls] == ["weather"]


def test_talk_where_no_tool_is_meant() -> None:
    engine = Parrot("Hello.", "Hello.", "Hello.")
    assert _ask(engine, user("Good morning!")).text == "Hello."
    assert _ask(engine, user("What is the weather in Paris?"), tools=()).text == "Hello."
    none = ModelSettings(tool_choice="none")
    assert _ask(engine, user("What is the weather in Paris?"), settings=none).text == "Hello."
    assert [endpoint for endpoint, _ in engine.asked] == ["chat"] * 3


def test_a_tool_that_must_be_called_gets_generated_arguments() -> None:
    engine = Parrot(' {"expression": "1"}')
    reply = _ask(engine, user("Good morning"), settings=ModelSettings(tool_choice="calculator"))
    assert reply.tool_calls == (ToolCall("call-1", "calculator", '{"expression": "1"}'),)
    assert schema_in(engine.asked[0][1])["required"] == ["expression"]


def test_a_tool_that_does_not_exist_cannot_be_insisted_on() -> None:
    with pytest.raises(ConfigurationError, match="wheather"):
        _ask(Parrot(), user("?"), settings=ModelSettings(tool_choice="wheather"))


def test_structured_output_is_generated_under_its_schema() -> None:
    engine = Parrot('{"city": "Paris"}')
    schema = OutputSchema("city", WEATHER.parameters)
    assert _ask(engine, user("Where?"), tools=(), output=schema).text == '{"city": "Paris"}'
    assert schema_in(engine.asked[0][1]) == WEATHER.parameters


def test_ids_of_calls_differ_within_a_conversation() -> None:
    before = _answered("What is 1 + 1?", "calculator", "{}", "2")
    reply = _ask(Parrot(), *before, assistant("2"), user("What is the weather in Paris?"))
    assert reply.tool_calls[0].id == "call-2"


def test_a_question_that_follows_another_calls_the_same_tool() -> None:
    before = _answered("What is the weather in Paris?", "weather", '{"city":"Paris"}', "rain")
    reply = _ask(Parrot(), *before, assistant("Rain."), user("And in Rome?"))
    assert reply.tool_calls == (ToolCall("call-2", "weather", '{"city":"Rome"}'),)
    assert _ask(Parrot("Bye."), *before, assistant("Rain."), user("and thanks")).text == "Bye."


def test_a_question_that_follows_may_be_another_wish() -> None:
    before = _answered("What is 3 + 4?", "calculator", '{"expression":"3 + 4"}', "7")
    more = _ask(Parrot(), *before, assistant("7"), user("and times two?"))
    assert more.tool_calls == (ToolCall("call-2", "calculator", '{"expression":"7 * 2"}'),)
    other = _ask(Parrot(), *before, assistant("7"), user("And what is the weather in Rome?"))
    assert other.tool_calls == (ToolCall("call-2", "weather", '{"city":"Rome"}'),)
    broken = _answered("Weather?", "weather", "{", "rain")
    again = _ask(Parrot(), *broken, assistant("Rain."), user("And in Rome?"))
    assert again.tool_calls == (ToolCall("call-2", "weather", '{"city":"Rome"}'),)


def test_the_model_of_a_name() -> None:
    model = local()
    assert isinstance(model, EmbeddedModel)
    assert (repr(model), name_of(model), fact(model, WINDOW)) == ("local()", "local", 8192)
    assert fact(model, OUTPUT_MODES)[0] == "native"
    assert fact(TemplatedModel(Parrot()), WINDOW) == 2048


def test_wrong_arguments_raise_at_once(tmp_path: Any) -> None:
    with pytest.raises(ConfigurationError, match="no model file"):
        local(tmp_path / "missing.gguf")
    (tmp_path / "wrong.gguf").write_bytes(b"PK\x03\x04")
    with pytest.raises(ConfigurationError, match="not a GGUF file"):
        local(tmp_path / "wrong.gguf")
    with pytest.raises(ConfigurationError, match="slots"):
        local(slots=0)
    with pytest.raises(ConfigurationError, match="empty"):
        local(" ")


def test_weights_that_are_not_installed(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZIGGURAT_CACHE", str(tmp_path))
    request = ModelRequest(Transcript.of(user("Hello")))
    with pytest.raises(ConfigurationError, match="ziggurat models install"):
        asyncio.run(local()(request, root()))
