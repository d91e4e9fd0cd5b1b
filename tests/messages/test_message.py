import pytest
from hypothesis import given

from ziggurat import ConfigurationError, Image, Message, Text, ToolCall, ToolResult, user
from ziggurat.core.codec import decode, encode
from ziggurat.messages import Thinking, assistant, system, tool_message

from .strategies import messages


@given(messages)
def test_every_message_comes_back_through_json(message: Message) -> None:
    assert decode(encode(message), Message) == message


@given(messages)
def test_views_follow_the_order_of_the_parts(message: Message) -> None:
    assert message.text == "".join(part.text for part in message.parts if isinstance(part, Text))
    assert message.thinking == "".join(part.text for part in message.parts if isinstance(part, Thinking))
    assert list(message.tool_calls) == [part for part in message.parts if isinstance(part, ToolCall)]
    assert list(message.tool_results) == [part for part in message.parts if isinstance(part, ToolResult)]


def test_messages_are_made_from_text_and_parts() -> None:
    assert system("Be brief.") == Message("system", (Text("Be brief."),))
    assert user("What is ", Image(url="u"), "?", name="ann").text == "What is ?"
    assert user("x", name="ann").name == "ann"
    assert assistant() == Message("assistant", ())
    result = ToolResult("id", "add", "3")
    assert tool_message(result) == Message("tool", (result,))


def test_a_message_is_frozen_and_only_what_is_said_is_written() -> None:
    assert encode(user("x")) == b'{"role":"user","parts":[{"type":"text","text":"x"}]}'
    assert encode(assistant()) == b'{"role":"assistant"}'
    with pytest.raises(AttributeError):
        user("x").role = "system"  # type: ignore[misc]


@pytest.mark.parametrize("wrong", [None, 3, b"x", ["x"], {"text": "x"}])
def test_anything_else_is_refused_with_what_to_pass(wrong: object) -> None:
    with pytest.raises(
        ConfigurationError, match=f"a user message is made of text and parts, got {type(wrong).__name__}"
    ):
        user(wrong)  # type: ignore[arg-type]


def test_halves_of_characters_do_not_get_into_a_conversation() -> None:
    assert user("a\ud800b", Text("c")).text == "a?bc"
    assert user("Größe 😀").text == "Größe 😀"
