"""Requests of the Responses API."""

import json
from typing import Any

import pytest
from hypothesis import given, strategies as some
from msgspec.structs import replace

from tests.models.openai_responses.support import (
    DIALECT,
    Json,
    call,
    message,
    played,
    read,
    reasoning,
    reply,
    stream,
    written,
)
from ziggurat import ConfigurationError, Image, Message, ModelRequest, ModelSettings, Text, ToolCall, ToolResult, user
from ziggurat.core.codec import decode, encode
from ziggurat.messages import Audio, File, Thinking, ToolSpec, assistant, system, tool_message
from ziggurat.messages.conversation import Conversation
from ziggurat.messages.message import Part
from ziggurat.messages.model import OutputSchema
from ziggurat.models.openai_responses import to_wire

CLOSED = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
OPEN = {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": True}


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
    settings = ModelSettings(tool_choice=choice)
    assert written(settings=settings, tools=(ToolSpec("add"),))["tool_choice"] == sent
    assert "tool_choice" not in written(settings=settings)


def test_settings() -> None:
    body = settled(temperature=0.0, top_p=0.5, max_tokens=99, reasoning="low", seed=3)
    assert (body["temperature"], body["top_p"], body["max_output_tokens"]) == (0.0, 0.5, 99)
    assert body["reasoning"] == {"effort": "low"}
    assert "seed" not in body
    off = ModelSettings(parallel_tool_calls=False)
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


def items(*messages: Message) -> list[Json]:
    body: list[Json] = written(*messages)["input"]
    return body


def test_texts_and_system_messages() -> None:
    assert items(system("Be kind."))[0] == {"role": "developer", "content": "Be kind."}
    content = items(user("One", "Two"))[0]["content"]
    assert content == [{"type": "input_text", "text": "One"}, {"type": "input_text", "text": "Two"}]
    assert items(user("Hi"), assistant(), user("There?"))[1] == {"role": "user", "content": "There?"}


@pytest.mark.parametrize(
    ("part", "sent"),
    [
        (Image(b"abc"), {"type": "input_image", "image_url": "data:image/png;base64,YWJj"}),
        (
            Image(url="https://example.org/a.png", detail="low"),
            {"type": "input_image", "image_url": "https://example.org/a.png", "detail": "low"},
        ),
        (
            File(b"abc", media_type="application/pdf"),
            {"type": "input_file", "filename": "file.pdf", "file_data": "data:application/pdf;base64,YWJj"},
        ),
        (File(id="file_1"), {"type": "input_file", "file_id": "file_1"}),
        (File(url="https://example.org/a"), {"type": "input_file", "file_url": "https://example.org/a"}),
        (Audio(b"abc"), {"type": "input_audio", "input_audio": {"data": "YWJj", "format": "wav"}}),
    ],
)
def test_media(part: Part, sent: Json) -> None:
    assert items(user(part))[0]["content"] == [sent]


@pytest.mark.parametrize("part", [Audio(url="https://example.org/a.wav")])
def test_media_that_cannot_be_sent(part: Part) -> None:
    with pytest.raises(ConfigurationError, match=type(part).__name__):
        items(user(part))


def test_calls_and_their_results() -> None:
    asked = assistant("Let me see.", ToolCall("c1", "add", '{"a":1}'), ToolCall("c2", "now", ""))
    pictured = ToolResult("c2", "now", (Text("see"), Image(b"abc")))
    assert items(asked, tool_message(ToolResult("c1", "add", "2")), tool_message(pictured)) == [
        {"role": "assistant", "content": "Let me see."},
        {"type": "function_call", "call_id": "c1", "name": "add", "arguments": '{"a":1}'},
        {"type": "function_call", "call_id": "c2", "name": "now", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "2"},
        {
            "type": "function_call_output",
            "call_id": "c2",
            "output": [
                {"type": "input_text", "text": "see"},
                {"type": "input_image", "image_url": "data:image/png;base64,YWJj"},
            ],
        },
    ]


def test_thoughts_of_other_models_are_left_out() -> None:
    foreign = assistant(
        Thinking("Hm", "sig"),
        Thinking(redacted="xyz"),
        Thinking("a", id='{"type":"reasoning.text"}'),
        Thinking("", "sig", id="google"),
        Thinking(redacted="{}", id="anthropic:server_tool_use"),
        "Hi",
    )
    assert items(foreign) == [{"role": "assistant", "content": "Hi"}]


SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "é \u2028 🙂", "n": 1.50}}
OUTPUTS: dict[str, list[Json]] = {
    "reasoning": [reasoning("One", "Two"), message("Hi")],
    "between calls": [reasoning(id="rs_1", encrypted="a=="), call("f", "{}", "c1"), call("f", "{}", "c2")],
    "several": [
        reasoning(id="rs_1", encrypted="a+/=="),
        SEARCH,
        reasoning("So.", id="rs_2", encrypted="b"),
        message("It rains.", phase="commentary"),
        call("f", '{ "b":1,  "a":2 }', "c1", namespace="weather"),
    ],
    "one id twice": [reasoning("A"), SEARCH, reasoning(encrypted="other"), SEARCH, reasoning("B", encrypted="third")],
    "no id": [reasoning("A", id="", encrypted="x"), reasoning("A", "B", id="", encrypted="y"), message("Hi")],
    "raw thoughts": [
        reasoning("A", encrypted=None, content=[{"type": "reasoning_text", "text": each} for each in ("1", "2")]),
        message("Hi"),
    ],
    "strange id": [reasoning("A", "B", id="rs#1#x"), message("Hi")],
}


def kept(item: Json) -> Json:
    """Return the fields of an item that must be sent back."""
    names = (
        "id",
        "type",
        "summary",
        "content",
        "encrypted_content",
        "call_id",
        "name",
        "arguments",
        "phase",
        "namespace",
    )
    if item["type"] not in ("message", "function_call", "reasoning"):
        return item
    found = {name: item[name] for name in names if item.get(name)}
    if item["type"] == "message":
        content = item["content"]
        found["content"] = content if isinstance(content, str) else "".join(each["text"] for each in content)
    return found


def back(output: list[Json], said: Message) -> None:
    """Check that a reply is sent back item by item, with ids only where the server needs them."""
    again = [{"type": "message", **each} for each in items(user("Hi"), said)[1:]]
    assert len(again) == len(output)
    after_reasoning = False
    for sent, item in zip(again, output, strict=True):
        wanted = kept(item)
        if item["type"] in ("message", "function_call") and not after_reasoning and "id" not in sent:
            wanted.pop("id")
        assert kept(sent) == wanted
        after_reasoning = item["type"] == "reasoning"


@pytest.mark.parametrize("output", OUTPUTS.values(), ids=OUTPUTS)
def test_a_reply_goes_back_as_it_came(output: list[Json]) -> None:
    back(output, read(reply(*output)).message)
    back(output, played(stream(reply(*output)))[0].message)


@pytest.mark.parametrize("output", OUTPUTS.values(), ids=OUTPUTS)
def test_also_after_it_was_written_down(output: list[Json]) -> None:
    back(output, decode(encode(read(reply(*output)).message), Message))


texts = some.text(max_size=8)
some_items = some.one_of(
    some.builds(
        lambda text, phase: message(text or "x", phase=phase), texts, some.sampled_from([None, "final_answer"])
    ),
    some.builds(lambda text, id: call("f", json.dumps({"a": text}), id), texts, some.uuids().map(str)),  # noqa: A006
    some.builds(
        lambda summaries, proof: reasoning(*[each or "x" for each in summaries], encrypted=proof or "p"),
        some.lists(texts, max_size=3),
        texts,
    ),
    some.builds(lambda text: {**SEARCH, "action": {"query": text}}, texts),
)


@given(some.lists(some_items, max_size=6))
def test_any_reply_goes_back_in_order(output: list[Json]) -> None:
    def gist(each: Json) -> Any:
        item = {"type": "message", **each}
        return kept(item) | {"id": None} if item["type"] in ("message", "function_call") else kept(item)

    sent = [gist(each) for each in items(user("Hi"), read(reply(*output)).message)[1:]]
    wanted: list[Any] = []
    for item in map(gist, output):
        if wanted and item["type"] == wanted[-1]["type"] == "message" and not item.get("phase"):
            wanted[-1]["content"] += item["content"]  # texts without extra fields are joined
        else:
            wanted.append(item)
    assert sent == wanted
    assert played(stream(reply(*output), size=3))[0].message == read(reply(*output)).message
