"""Tests of GGUF files as models: the request, and how its JSON is parsed."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.models.local.fakes import Parrot, schema_in
from ziggurat.core.context import root
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.event import Event
from ziggurat.messages.conversation import Transcript
from ziggurat.messages.delta import Fold
from ziggurat.messages.events import Delta
from ziggurat.messages.message import Message, assistant, tool_message, user
from ziggurat.messages.model import ModelRequest, ModelResponse, ModelSettings, OutputSchema, ToolSpec
from ziggurat.messages.parts import ToolCall, ToolResult
from ziggurat.models.local.templated import AnswerText, TemplatedModel, reply_schema

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = ToolSpec("weather", "Forecast.", CITY)


def _ask(engine: Parrot, *messages: Message, **fields: Any) -> ModelResponse:
    fold = Fold()

    def hear(event: Event) -> None:
        if isinstance(event, Delta):
            fold.push(event.delta)

    request = ModelRequest(Transcript.of(*messages), **fields)
    reply: ModelResponse = asyncio.run(TemplatedModel(engine)(request, root().heard_by(hear)))
    assert fold.message() == reply.message
    return reply


def test_plain_talk() -> None:
    engine = Parrot("Hello.")
    reply = _ask(engine, user("Hi"), instructions="Be kind.", settings=ModelSettings(max_tokens=9, stop=("!",), seed=1))
    assert (reply.text, reply.finish, reply.usage.input, reply.usage.output) == ("Hello.", "stop", 10, 6)
    endpoint, body = engine.asked[0]
    assert endpoint == "chat"
    assert body["messages"] == [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}]
    assert (body["max_tokens"], body["stop"], body["seed"]) == (9, ["!"], 1)


def test_a_call() -> None:
    reply = _ask(Parrot('{"tool": "weather", "arguments": {"city": "Rome"}}'), user("Rain in Rome?"), tools=(WEATHER,))
    assert reply.finish == "tool_calls"
    assert reply.tool_calls == (ToolCall("call-1", "weather", '{"city":"Rome"}'),)


def test_an_answer_after_a_call() -> None:
    engine = Parrot('{"answer": "It is \\"wet\\" \\u2614\\ud83d\\ude00"}')
    call = ToolCall("call-1", "weather", '{"city":"Rome"}')
    result = tool_message(ToolResult("call-1", "weather", '"rain"'))
    reply = _ask(engine, user("Rain in Rome?"), assistant(call), result, tools=(WEATHER,))
    assert reply.text == 'It is "wet" \u2614\U0001f600'
    told = engine.asked[0][1]["messages"]
    assert [message["role"] for message in told] == ["system", "user", "assistant", "user"]
    assert "weather" in told[0]["content"]


def test_a_reply_that_was_cut_off() -> None:
    reply = _ask(Parrot('{"answer": "It is', finish="length"), user("?"), tools=(WEATHER,))
    assert (reply.text, reply.finish) == ("It is", "length")


def test_a_reply_that_cannot_be_read() -> None:
    assert _ask(Parrot('{"tool": '), user("?"), tools=(WEATHER,)).finish == "malformed"


def test_structured_output_with_and_without_tools() -> None:
    city = OutputSchema("city", CITY)
    engine = Parrot('{"city": "Rome"}')
    assert json.loads(_ask(engine, user("Where?"), output=city).text) == {"city": "Rome"}
    assert schema_in(engine.asked[0][1]) == CITY


def test_tool_choice() -> None:
    engine = Parrot('{"tool": "weather", "arguments": {"city": "Rome"}}', "Hi")
    _ask(engine, user("?"), tools=(WEATHER,), settings=ModelSettings(tool_choice="required"))
    assert "answer" not in json.dumps(schema_in(engine.asked[0][1]))
    _ask(engine, user("?"), tools=(WEATHER,), settings=ModelSettings(tool_choice="none"))
    assert "grammar" not in engine.asked[1][1]
    with pytest.raises(ConfigurationError, match="wheather"):
        _ask(engine, user("?"), tools=(WEATHER,), settings=ModelSettings(tool_choice="wheather"))


def test_definitions_move_to_the_top_of_the_schema() -> None:
    inner = {"type": "object", "properties": {"c": {"$ref": "#/$defs/C"}}, "$defs": {"C": {"enum": ["a"]}}}
    schema = reply_schema((ToolSpec("t", "", inner),))
    assert schema["$defs"] == {"C": {"enum": ["a"]}}
    assert "$defs" not in schema["anyOf"][0]["properties"]["arguments"]


@given(st.text(), st.booleans(), st.integers(1, 7))
def test_an_answer_is_read_the_same_in_pieces(text: str, ascii_only: bool, size: int) -> None:
    written = json.dumps({"answer": text}, ensure_ascii=ascii_only)
    said = AnswerText()
    shown = "".join(said.push(written[at : at + size]) for at in range(0, len(written), size))
    assert shown == text
