"""Requests of the Messages API."""

import base64
import json
import re
from typing import Any

import pytest

from tests.models.anthropic.support import (
    CALL,
    DIALECT,
    FOUND,
    OTHER_CALL,
    REDACTED,
    REPLIES,
    SEARCH,
    THINKING,
    body_of,
    events_of,
    read_all,
    reply,
    written,
)  # fmt: skip
from ziggurat import ConfigurationError, Image, Message, ModelRequest, ModelSettings, Text, ToolCall, ToolResult, user
from ziggurat.errors import ModelError
from ziggurat.messages import Audio, File, Thinking, ToolSpec, assistant, system, tool_message
from ziggurat.messages.conversation import Conversation
from ziggurat.messages.model import OutputSchema
from ziggurat.models.anthropic import CACHE, ModelCapabilities, capabilities, from_wire, to_wire
from ziggurat.models.http.strict import strict_schema

HELLO = user("Hello")
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = ToolSpec("weather", "Tells the weather.", SCHEMA)
OLD, BUDGET, EFFORT, NEWEST = "claude-3-5-haiku-latest", "claude-sonnet-4-5", "claude-opus-4-6", "claude-opus-4-7"


def sent(
    model: str = BUDGET, *, tools: tuple[ToolSpec, ...] = (), output: OutputSchema | None = None, **settings: Any
) -> Any:
    return body_of(HELLO, model=model, tools=tools, output=output, settings=ModelSettings(**settings))


def test_a_question_plain_or_streamed() -> None:
    assert sent() == {
        "model": BUDGET,
        "max_tokens": 16000,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}],
    }
    assert body_of(HELLO, stream=True)["stream"] is True


@pytest.mark.parametrize(
    ("model", "longest"),
    [("claude-3-haiku-20240307", 4096), (OLD, 8192), (EFFORT, 16000), ("qwen3:8b", 4096)],
)
def test_the_longest_reply(model: str, longest: int) -> None:
    assert sent(model)["max_tokens"] == longest
    assert sent(model, max_tokens=7)["max_tokens"] == 7


def test_tools() -> None:
    assert sent(tools=(TOOL, ToolSpec("now")))["tools"] == [
        {"name": "weather", "description": "Tells the weather.", "input_schema": SCHEMA},
        {"name": "now", "input_schema": {"type": "object", "properties": {}}},
    ]
    assert "tool_choice" not in sent(tools=(TOOL,))


@pytest.mark.parametrize(
    ("choice", "parallel", "expected"),
    [
        ("auto", None, {"type": "auto"}),
        ("required", None, {"type": "any"}),
        ("none", None, {"type": "none"}),
        ("none", False, {"type": "none"}),
        ("weather", None, {"type": "tool", "name": "weather"}),
        (None, False, {"type": "auto", "disable_parallel_tool_use": True}),
        ("required", False, {"type": "any", "disable_parallel_tool_use": True}),
        ("weather", True, {"type": "tool", "name": "weather", "disable_parallel_tool_use": False}),
    ],
)
def test_choice(choice: str | None, parallel: bool | None, expected: dict[str, Any]) -> None:
    assert sent(tools=(TOOL,), tool_choice=choice, parallel_tool_calls=parallel)["tool_choice"] == expected
    assert "tool_choice" not in sent(tool_choice=choice, parallel_tool_calls=parallel)


def test_settings() -> None:
    body = sent("claude-sonnet-4-0", temperature=1.5, top_p=0.5, stop=("END",), seed=7)
    assert (body["temperature"], body["top_p"], body["stop_sequences"]) == (1.0, 0.5, ["END"])
    assert "seed" not in body
    assert "top_p" not in sent(BUDGET, temperature=0.0, top_p=0.5)
    assert sent(BUDGET, top_p=0.5)["top_p"] == 0.5
    assert not {"temperature", "top_p"} & set(sent(NEWEST, temperature=0.0, top_p=0.5))


@pytest.mark.parametrize(("wanted", "budget"), [("minimal", 1024), ("low", 2048), ("medium", 8192), ("high", 16000)])
def test_thinking_by_budget(wanted: str, budget: int) -> None:
    body = sent(reasoning=wanted, temperature=0.0, top_p=0.5)
    assert body["thinking"] == {"type": "enabled", "budget_tokens": budget}
    assert body["max_tokens"] == 16000 + budget
    assert not {"temperature", "top_p", "output_config"} & set(body)


def test_no_thinking_begins_among_the_calls_of_a_turn() -> None:
    answered = tool_message(ToolResult("a", "f", "3"))
    settings = ModelSettings(reasoning="low")
    for first, thinks in ((Thinking("hm", "s"), True), (Thinking("hm"), False), (Text("I add."), False)):
        said = assistant(first, ToolCall("a", "f"))
        assert ("thinking" in body_of(HELLO, said, answered, settings=settings)) == thinks
        assert "thinking" in body_of(HELLO, said, answered, settings=settings, model=EFFORT)
        assert "thinking" in body_of(HELLO, said, answered, assistant("3"), user("And?"), settings=settings)


def test_thinking_by_effort_budget_or_none() -> None:
    assert sent(reasoning="high", max_tokens=4000)["thinking"]["budget_tokens"] == 3000
    assert "thinking" not in sent(reasoning="high", max_tokens=1000)
    body = sent(EFFORT, reasoning="minimal", top_p=0.97)
    assert body["thinking"] == {"type": "adaptive", "display": "summarized"}
    assert (body["output_config"], body["max_tokens"], body["top_p"]) == ({"effort": "low"}, 32000, 0.97)
    assert sent(reasoning="none")["thinking"] == {"type": "disabled"}
    assert "thinking" not in sent(OLD, reasoning="none")
    assert "thinking" not in sent(OLD, reasoning="high")
    assert "thinking" not in sent(reasoning="high", tools=(TOOL,), tool_choice="required")


def test_output_by_the_model_itself() -> None:
    body = sent(EFFORT, output=OutputSchema("Place", SCHEMA), reasoning="low", tools=(TOOL,))
    schema = {**SCHEMA, "additionalProperties": False}
    assert body["output_config"] == {"format": {"type": "json_schema", "schema": schema}, "effort": "low"}
    assert len(body["tools"]) == 1
    assert "tool_choice" not in body


def test_output_by_a_tool() -> None:
    body = sent(OLD, output=OutputSchema("Place", SCHEMA))
    assert body["tools"][0]["name"] == "final_answer"
    assert body["tools"][0]["input_schema"] == SCHEMA
    assert body["tool_choice"] == {"type": "tool", "name": "final_answer"}
    beside = sent(OLD, output=OutputSchema("Place", SCHEMA), tools=(TOOL,), parallel_tool_calls=False)
    assert beside["tool_choice"] == {"type": "any", "disable_parallel_tool_use": True}
    named = sent(OLD, output=OutputSchema("Place", SCHEMA), tools=(TOOL,), tool_choice="weather")
    assert named["tool_choice"] == {"type": "tool", "name": "weather"}
    body = sent(output=OutputSchema("Map", {"type": "object", "additionalProperties": {"type": "integer"}}))
    assert "output_config" not in body
    assert body["tools"][0]["name"] == "final_answer"


def test_the_prompt_cache() -> None:
    mark = {"type": "ephemeral", "ttl": "1h"}
    settings = ModelSettings(extra={CACHE: "1h"})
    body = body_of(HELLO, instructions="Be brief.", tools=(TOOL,), settings=settings)
    assert body["cache_control"] == mark
    assert body["system"] == [{"type": "text", "text": "Be brief.", "cache_control": mark}]
    assert "cache_control" not in body["tools"][0]
    assert CACHE not in body
    alone = body_of(HELLO, tools=(TOOL,), settings=ModelSettings(extra={CACHE: True}))
    assert alone["tools"][0]["cache_control"] == alone["cache_control"] == {"type": "ephemeral"}
    assert "cache_control" not in sent(extra={CACHE: False})


def test_a_wrong_cache_setting() -> None:
    with pytest.raises(ConfigurationError, match="prompt_cache"):
        sent(extra={CACHE: "2h"})


def test_extra_has_the_last_word() -> None:
    body = sent(
        EFFORT,
        reasoning="low",
        tools=(TOOL,),
        extra={
            "service_tier": "standard_only",
            "metadata": {"user_id": "u"},
            "max_tokens": 5,
            "output_config": {"effort": "max"},
            "tools": [{"type": "web_search_20250305", "name": "web_search"}],
        },
    )
    assert (body["service_tier"], body["metadata"], body["max_tokens"]) == ("standard_only", {"user_id": "u"}, 5)
    assert body["output_config"] == {"effort": "max"}
    assert [tool["name"] for tool in body["tools"]] == ["weather", "web_search"]


PICTURE = b"\x89PNG\r\n"
CODED = base64.b64encode(PICTURE).decode()


def content_of(message: Message) -> list[Any]:
    """Return the blocks of a message that follows a user message."""
    blocks: list[Any] = body_of(HELLO, message)["messages"][-1]["content"]
    return blocks


def test_a_question_with_system_messages() -> None:
    assert body_of(HELLO)["messages"] == [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}]
    body = body_of(system("Be brief."), HELLO, system("Now in German."), instructions="You are a poet.")
    assert body["system"] == [{"type": "text", "text": "You are a poet."}, {"type": "text", "text": "Be brief."}]
    assert [block["text"] for block in body["messages"][0]["content"]] == ["Hello", "Now in German."]
    assert body_of(HELLO, instructions="You are a poet.")["system"] == "You are a poet."
    assert "system" not in body_of(HELLO, instructions=" \n")


def test_messages_of_one_side_are_one_message() -> None:
    runtime = Message("user", (Text("You repeat yourself."),), None, "runtime")
    sent = body_of(
        HELLO,
        assistant(ToolCall("a", "f", '{"x":1}'), ToolCall("b", "g", "")),
        tool_message(ToolResult("a", "f", "one")),
        tool_message(ToolResult("b", "g", "two", "transient")),
        runtime,
        user("Go on"),
    )["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "user"]
    assert sent[1]["content"] == [
        {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}},
        {"type": "tool_use", "id": "b", "name": "g", "input": {}},
    ]
    assert sent[2]["content"] == [
        {"type": "tool_result", "tool_use_id": "a", "content": "one"},
        {"type": "tool_result", "tool_use_id": "b", "content": "two", "is_error": True},
        {"type": "text", "text": "You repeat yourself."},
        {"type": "text", "text": "Go on"},
    ]


def test_system_messages_in_the_midst_are_a_users() -> None:
    def roles(*messages: Message) -> list[str]:
        return [message["role"] for message in body_of(HELLO, *messages)["messages"]]

    brief, reply_ = system("Be brief."), assistant("Hi")
    assert roles(brief) == ["user"]
    assert roles(brief, reply_, brief, HELLO) == ["user", "assistant", "user"]


@pytest.mark.parametrize(
    ("part", "kind", "source"),
    [
        (Image(PICTURE), "image", {"type": "base64", "media_type": "image/png", "data": CODED}),
        (Image(url="https://a.example/b.png"), "image", {"type": "url", "url": "https://a.example/b.png"}),
        (
            Image(url=f"data:image/gif;base64,{CODED}"),
            "image",
            {"type": "base64", "media_type": "image/gif", "data": CODED},
        ),
        (
            File(PICTURE, media_type="image/webp", name="x"),
            "image",
            {"type": "base64", "media_type": "image/webp", "data": CODED},
        ),
        (
            File(PICTURE, media_type="application/pdf", name="a.pdf"),
            "document",
            {"type": "base64", "media_type": "application/pdf", "data": CODED},
        ),
        (
            File("Grüße".encode(), media_type="text/csv"),
            "document",
            {"type": "text", "media_type": "text/plain", "data": "Grüße"},
        ),
        (
            File(url="https://a.example/b.pdf", media_type="application/pdf"),
            "document",
            {"type": "url", "url": "https://a.example/b.pdf"},
        ),
        (File(id="file_1"), "document", {"type": "file", "file_id": "file_1"}),
        (File(id="file_1", media_type="image/png"), "image", {"type": "file", "file_id": "file_1"}),
    ],
)
def test_pictures_and_documents(part: Image | File, kind: str, source: dict[str, Any]) -> None:
    title = {"title": part.name} if isinstance(part, File) and kind == "document" and part.name else {}
    assert body_of(user("See:", part))["messages"][0]["content"][1] == {"type": kind, "source": source, **title}


@pytest.mark.parametrize("part", [Audio(b"x"), File(b"\xff\x00", media_type="application/zip")])
def test_parts_that_cannot_be_sent(part: Image | File | Audio) -> None:
    with pytest.raises(ModelError) as caught:
        body_of(user(part))
    assert caught.value.kind == "invalid_request"
    assert not caught.value.transient


def test_pictures_in_results() -> None:
    result = tool_message(ToolResult("a", "f", (Text("Here:"), Image(PICTURE), Text(""))))
    assert content_of(result)[-1]["content"] == [
        {"type": "text", "text": "Here:"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": CODED}},
    ]


@pytest.mark.parametrize("arguments", ["[1]", '{"a":', "null", "5", "{} {}", "[" * 5000])
def test_arguments_that_are_no_object_stand_in_one(arguments: str) -> None:
    assert content_of(assistant(ToolCall("a", "f", arguments)))[0]["input"] == {"invalid_arguments": arguments}


def test_ids_and_thoughts_of_other_providers() -> None:
    sent = body_of(HELLO, assistant(ToolCall("functions.f:0", "f")), tool_message(ToolResult("functions.f:0", "f", "")))
    called = sent["messages"][1]["content"][0]["id"]
    assert re.fullmatch("functions_f_0_[A-Z2-7]{9}", called)
    assert sent["messages"][2]["content"][0]["tool_use_id"] == called
    foreign = (
        Thinking("unsigned"),
        Thinking("x", "signature", None, "rs_1"),
        Thinking(redacted="y", id='{"format":"openai-responses-v1"}'),
    )
    assert content_of(assistant(*foreign, "Hi")) == [{"type": "text", "text": "Hi"}]


def test_empty_messages_and_thoughts_at_the_end() -> None:
    sent = body_of(HELLO, assistant(""), user(" \n", "Still there?"), assistant("Yes."))["messages"]
    assert [len(message["content"]) for message in sent] == [2, 1]
    assert len(body_of(HELLO, assistant(Thinking("only", "sig")))["messages"]) == 1
    assert [block["type"] for block in content_of(assistant("Hi", Thinking("more", "sig")))] == ["text"]


@pytest.mark.parametrize("name", REPLIES)
@pytest.mark.parametrize("streamed", [False, True])
def test_a_reply_goes_back_as_it_came(name: str, streamed: bool) -> None:
    made = REPLIES[name]
    response = read_all(events_of(made))[0] if streamed else from_wire(written(made), DIALECT)
    came = [{key: value for key, value in block.items() if key != "citations"} for block in made["content"]]
    assert content_of(response.message) == came


def test_thoughts_go_back_byte_for_byte_and_in_order() -> None:
    awkward = {**THINKING, "thinking": ' a\\u00fc"\n\u2028\t', "signature": "A+/b=="}
    blocks: list[dict[str, Any]] = [THINKING, REDACTED, awkward, SEARCH, FOUND, THINKING, CALL, awkward, OTHER_CALL]
    response = from_wire(written(reply(*blocks, stop="tool_use")), DIALECT)
    conversation = Conversation([HELLO, response.message])
    sent = to_wire(ModelRequest(conversation.view()), model="claude-opus-4-5", stream=False, dialect=DIALECT)
    body = written(reply(*blocks))
    inner = body[body.index(b'"content":[') + 11 : body.index(b'],"stop_reason"')]
    assert inner in sent


def test_code_that_calls_tools_stays_known() -> None:
    code = {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}
    made = reply(SEARCH, {**CALL, "caller": code}, {**OTHER_CALL, "caller": {"type": "direct"}}, stop="tool_use")
    for response in (from_wire(written(made), DIALECT), read_all(events_of(made))[0]):
        assert content_of(response.message) == [SEARCH, {**CALL, "caller": code}, OTHER_CALL]


def test_each_message_is_written_once() -> None:
    conversation = Conversation([HELLO])
    to_wire(ModelRequest(conversation.view()), model="m", stream=False, dialect=DIALECT)
    conversation.log[0] = user("changed, which shows only if it is written again")
    conversation.append(assistant("Hi"))
    assert b"changed" not in to_wire(ModelRequest(conversation.view()), model="m", stream=False, dialect=DIALECT)


def strict(schema: dict[str, Any]) -> Any:
    made = strict_schema(schema)
    return None if made is None else json.loads(made)


def test_objects_are_closed_everywhere() -> None:
    inner = {"type": "object", "properties": {"x": {"type": "integer"}}}
    made = strict({"type": "object", "properties": {"a": inner, "b": {"type": "array", "items": inner}}})
    closed = {**inner, "additionalProperties": False}
    assert made["properties"] == {"a": closed, "b": {"type": "array", "items": closed}}
    assert made["additionalProperties"] is False


def test_what_is_not_enforced_is_told() -> None:
    made = strict(
        {
            "type": "object",
            "properties": {
                "age": {"type": "integer", "minimum": 0, "maximum": 9, "description": "In years."},
                "code": {"type": "string", "pattern": "a+", "format": "uuid"},
                "colour": {"type": "string", "format": "colour"},
                "few": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 3},
            },
        }
    )["properties"]
    assert made["age"] == {"type": "integer", "description": "In years. (minimum: 0, maximum: 9)"}
    assert made["code"] == {"type": "string", "format": "uuid", "description": '(pattern: "a+")'}
    assert made["colour"] == {"type": "string", "description": '(format: "colour")'}
    assert made["few"]["minItems"] == 1
    assert made["few"]["description"] == "(maxItems: 3)"


def test_choices_and_definitions() -> None:
    point = {"type": "object", "properties": {"x": {"type": "number"}}, "additionalProperties": True}
    made = strict(
        {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {"at": {"oneOf": [{"$ref": "#/$defs/point"}, {"type": "null"}]}, "description": {"const": 1}},
            "$defs": {"point": point},
        }
    )
    assert made["properties"]["at"] == {"anyOf": [{"$ref": "#/$defs/point"}, {"type": "null"}]}
    assert made["properties"]["description"] == {"const": 1}
    assert made["$defs"]["point"]["additionalProperties"] is False
    assert "$schema" not in made


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "object", "properties": {"any": {}}},
        {"type": "object", "properties": {"any": True}},
        {"type": "object", "properties": {"a": {"$ref": "https://a.example/b"}}},
        {
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/node"}},
            "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
        },
        {"type": "object", "properties": {"self": {"$ref": "#"}}},
    ],
)
def test_what_cannot_be_said(schema: dict[str, Any]) -> None:
    assert strict(schema) is None


def test_an_object_without_fields() -> None:
    assert strict({"type": "object", "properties": {}, "additionalProperties": False}) is not None


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("claude-instant-1.2", ModelCapabilities(4096)),
        ("claude-2.1", ModelCapabilities(4096)),
        ("claude-3-opus-20240229", ModelCapabilities(4096)),
        ("claude-3-5-sonnet-20241022", ModelCapabilities(8192)),
        ("claude-3-7-sonnet-latest", ModelCapabilities(64000, "budget")),
        ("claude-sonnet-4-20250514", ModelCapabilities(64000, "budget")),
        ("claude-opus-4-1-20250805", ModelCapabilities(32000, "budget", False, "one")),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", ModelCapabilities(64000, "budget", True, "one")),
        ("claude-haiku-4-5@20251001", ModelCapabilities(64000, "budget", True, "one")),
        ("anthropic/claude-sonnet-4.6", ModelCapabilities(64000, "effort", True, "one")),
        ("claude-opus-4-6", ModelCapabilities(128000, "effort", True, "one")),
        ("claude-opus-4-7", ModelCapabilities(128000, "effort", True, "none")),
        ("claude-opus-4-8", ModelCapabilities(128000, "effort", True, "none")),
        ("claude-opus-5", ModelCapabilities(128000, "effort", True, "none")),
        ("claude-mythos-preview", ModelCapabilities(64000, "effort", True, "none")),
        ("gpt-oss:20b", ModelCapabilities(None, "budget")),
    ],
)
def test_abilities(model: str, expected: ModelCapabilities) -> None:
    assert capabilities(model) == expected
