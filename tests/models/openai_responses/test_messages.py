"""Messages as input items, and a model's own messages sent back to it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from tests.models.openai_responses.support import Json, call, message, played, read, reasoning, reply, stream, written
from ziggurat import ConfigurationError, Image, Message, Text, ToolCall, ToolResult, user
from ziggurat.core.codec import decode, encode
from ziggurat.messages import Audio, File, Part, Thinking, assistant, system, tool_message


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


@pytest.mark.parametrize("part", [Image(), File(), Audio(url="https://example.org/a.wav")])
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
