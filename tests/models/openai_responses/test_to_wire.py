"""Requests of the Responses API."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from tests.models.openai_responses.support import DIALECT, written
from ziggurat import ConfigurationError, ModelRequest, ModelSettings, user
from ziggurat.messages import Conversation, OutputSchema, ToolSpec, assistant
from ziggurat.models.openai_responses import to_wire

CLOSED = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
OPEN = {"type": "object", "properties": {"a": {"type": "integer"}}}


def settled(**settings: Any) -> dict[str, Any]:
    return written(settings=ModelSettings(**settings))


def test_nothing_is_kept_and_reasoning_comes_encrypted() -> None:
    assert written() == {
        "model": "gpt-5-mini",
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "input": [{"role": "user", "content": "Hello"}],
    }


@pytest.mark.parametrize("model", ["gpt-4o", "gpt-4.1-mini", "openai/gpt-4o", "gpt-3.5-turbo", "chatgpt-4o-latest"])
def test_models_that_do_not_reason_are_not_asked_for_it(model: str) -> None:
    assert "include" not in written(model=model)


@pytest.mark.parametrize("model", ["o4-mini", "gpt-5", "openai.gpt-5.5", "grok-4.3", "gpt-oss-20b", "gpt-50"])
def test_models_that_may_reason_are(model: str) -> None:
    assert "include" in written(model=model)


def test_instructions_and_stream() -> None:
    request = ModelRequest(Conversation([user("Hi")]).view(), "Be brief.")
    body = json.loads(to_wire(request, model="m", stream=True, dialect=DIALECT))
    assert (body["instructions"], body["stream"]) == ("Be brief.", True)


def test_tools_say_whether_they_are_strict() -> None:
    body = written(tools=(ToolSpec("add", "Adds.", CLOSED), ToolSpec("sub", "", OPEN)))
    assert body["tools"] == [
        {"type": "function", "name": "add", "description": "Adds.", "parameters": CLOSED, "strict": True},
        {"type": "function", "name": "sub", "description": "", "parameters": OPEN, "strict": False},
    ]
    request = ModelRequest(Conversation([user("Hi")]).view(), tools=(ToolSpec("add", "", CLOSED),))
    body = json.loads(to_wire(request, model="m", stream=False, dialect=replace(DIALECT, strict_tools=False)))
    assert body["tools"][0]["strict"] is False


@pytest.mark.parametrize(
    ("choice", "sent"),
    [("auto", "auto"), ("none", "none"), ("required", "required"), ("add", {"type": "function", "name": "add"})],
)
def test_tool_choice(choice: str, sent: object) -> None:
    assert settled(tool_choice=choice)["tool_choice"] == sent


def test_settings() -> None:
    body = settled(temperature=0.0, top_p=0.5, max_tokens=99, reasoning="low", seed=3)
    assert (body["temperature"], body["top_p"], body["max_output_tokens"]) == (0.0, 0.5, 99)
    assert body["reasoning"] == {"effort": "low"}
    assert "seed" not in body
    off = ModelSettings(parallel_tools=False)
    assert "parallel_tool_calls" not in written(settings=off)
    assert written(settings=off, tools=(ToolSpec("add"),))["parallel_tool_calls"] is False
    with pytest.raises(ConfigurationError, match="stop"):
        settled(stop=("END",))


@pytest.mark.parametrize(("schema", "strict"), [(CLOSED, True), (OPEN, False)])
def test_output(schema: dict[str, Any], strict: bool) -> None:
    body = written(output=OutputSchema("list[City]", schema))
    assert body["text"]["format"] == {"type": "json_schema", "name": "list_City_", "schema": schema, "strict": strict}


def test_own_fields_are_overruled_by_settings_and_those_by_extra() -> None:
    body = settled(extra={"store": True, "prompt_cache_key": "k", "service_tier": "flex", "metadata": {"a": "b"}})
    assert (body["store"], body["prompt_cache_key"]) == (True, "k")
    assert (body["service_tier"], body["metadata"]) == ("flex", {"a": "b"})
    dialect = replace(DIALECT, body={"store": True, "user": "u"})
    request = ModelRequest(Conversation([user("Hi")]).view(), settings=ModelSettings(extra={"user": "me"}))
    body = json.loads(to_wire(request, model="m", stream=False, dialect=dialect))
    assert (body["store"], body["user"]) == (True, "me")


def test_extra_is_merged_with_what_is_there() -> None:
    search = {"type": "web_search"}
    body = written(
        tools=(ToolSpec("add", "", OPEN),),
        output=OutputSchema("Answer", CLOSED),
        settings=ModelSettings(
            reasoning="high",
            extra={
                "reasoning": {"summary": "auto"},
                "text": {"verbosity": "low"},
                "tools": [search],
                "include": ["web_search_call.action.sources", "reasoning.encrypted_content"],
            },
        ),
    )
    assert body["reasoning"] == {"effort": "high", "summary": "auto"}
    assert set(body["text"]) == {"format", "verbosity"}
    assert body["tools"][1] == search
    assert body["include"] == ["reasoning.encrypted_content", "web_search_call.action.sources"]


def test_each_message_is_encoded_once() -> None:
    conversation = Conversation([user("Hi")])
    first = to_wire(ModelRequest(conversation.view()), model="m", stream=False, dialect=DIALECT)
    conversation.append(assistant("Hello"))
    conversation.append(assistant())
    conversation.append(user("And?"))
    known = conversation.view().fragments("openai_responses:developer", lambda _: b"")
    to_wire(ModelRequest(conversation.view()), model="m", stream=False, dialect=DIALECT)
    assert known[0] in first


def test_an_empty_conversation() -> None:
    request = ModelRequest(Conversation().view(), "Begin.")
    assert json.loads(to_wire(request, model="m", stream=False, dialect=DIALECT))["input"] == []
