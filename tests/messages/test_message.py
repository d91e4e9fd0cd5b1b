import pytest
from hypothesis import given, strategies as st

from ziggurat import ConfigurationError, Image, Message, Text, ToolCall, ToolResult, user
from ziggurat.core.codec import decode, encode
from ziggurat.errors import InvalidArguments
from ziggurat.messages import Thinking, Transcript, assistant, decode_messages, encode_messages, system, tool_message

from .strategies import messages


@given(messages)
def test_every_message_comes_back_through_json(message: Message) -> None:
    assert decode(encode(message), Message) == message


@given(st.lists(messages, max_size=4))
def test_a_conversation_is_read_back_equal(conversation: list[Message]) -> None:
    for kept in (conversation, Transcript.of(*conversation)):
        assert decode_messages(encode_messages(kept)) == conversation


@pytest.mark.parametrize("wrong", [b"", "{}", '[{"role":"boss"}]', '[{"content":"hi"}]', "[1"])
def test_other_data_is_no_conversation(wrong: bytes | str) -> None:
    with pytest.raises(InvalidArguments, match="encode_messages"):
        decode_messages(wrong)


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
