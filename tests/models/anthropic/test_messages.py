"""Messages as content blocks of the Messages API."""

import base64
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
from ziggurat import Image, Message, ModelRequest, Text, ToolCall, ToolResult, user
from ziggurat.errors import ModelError
from ziggurat.messages import Audio, Conversation, File, Thinking, assistant, system, tool_message
from ziggurat.models.anthropic import from_wire, to_wire

PICTURE = b"\x89PNG\r\n"
CODED = base64.b64encode(PICTURE).decode()
HELLO = user("Hello")


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


def test_system_messages_in_the_midst_where_the_model_takes_them() -> None:
    def roles(*messages: Message) -> list[str]:
        return [message["role"] for message in body_of(HELLO, *messages, model="claude-opus-4-8")["messages"]]

    brief, reply_ = system("Be brief."), assistant("Hi")
    assert roles(brief) == ["user", "system"]
    assert roles(brief, brief, reply_, HELLO) == ["user", "system", "assistant", "user"]
    assert roles(brief, HELLO) == ["user"]
    assert roles(reply_, brief) == ["user", "assistant", "user"]
    assert roles(reply_, brief, HELLO, brief) == ["user", "assistant", "user", "system"]


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


@pytest.mark.parametrize("part", [Audio(b"x"), Image(), File(), File(b"\xff\x00", media_type="application/zip")])
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
    assert sent["messages"][1]["content"][0]["id"] == "functions_f_0"
    assert sent["messages"][2]["content"][0]["tool_use_id"] == "functions_f_0"
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
    dialect = DIALECT
    first = to_wire(ModelRequest(conversation.view()), model="m", stream=False, dialect=dialect)
    kept = conversation.fragments("anthropic", lambda message: b"never", 1)
    conversation.append(assistant("Hi"))
    second = to_wire(ModelRequest(conversation.view()), model="m", stream=False, dialect=dialect)
    assert conversation.fragments("anthropic", lambda message: b"never", 2)[0] is kept[0]
    assert kept[0] in first
    assert kept[0] in second
