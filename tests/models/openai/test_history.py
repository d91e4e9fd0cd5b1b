from typing import Any

import pytest
from hypothesis import given, strategies as st
from openai.types.chat import ChatCompletionMessage

from tests.messages.strategies import json_objects
from tests.wrong import wrong
from ziggurat import Agent, Image, Message, Text, ToolCall, ToolResult, user
from ziggurat.core.codec import encode
from ziggurat.errors import InvalidArguments
from ziggurat.messages import Audio, File, Thinking, assistant, from_openai, system, to_openai, tool_message
from ziggurat.messages.message import Part
from ziggurat.testing import ScriptedModel

some_text = st.text(min_size=1, max_size=8).filter(str.strip)
names = st.none() | st.sampled_from(["ann", "bob-2"])
texts = st.builds(Text, some_text)
media: st.SearchStrategy[Part] = st.sampled_from(
    [
        Image(url="https://example.com/a.png"),
        Audio(b"abc", media_type="audio/wav"),
        File(b"abc", name="a.pdf", media_type="application/pdf"),
    ]
)


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    log: list[Message] = [system("Be brief.")] if draw(st.booleans()) else []
    for turn in range(draw(st.integers(1, 4))):
        parts = draw(st.lists(texts | media, min_size=1, max_size=3))
        log.append(Message("user", tuple(parts), draw(names)))
        arguments = [encode(each).decode() for each in draw(st.lists(json_objects, max_size=2))]
        called = [ToolCall(f"c{turn}{number}", "look", each) for number, each in enumerate(arguments)]
        said = (draw(texts),) if not called or draw(st.booleans()) else ()
        log.append(Message("assistant", (*said, *called), draw(names)))
        log += [tool_message(ToolResult(call.id, call.name, draw(some_text))) for call in called]
    return log


@given(conversations())
def test_a_conversation_comes_back_as_it_was(log: list[Message]) -> None:
    assert from_openai(to_openai(log)) == log


async def test_a_conversation_of_elsewhere_goes_on() -> None:
    said: list[Any] = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Rain?"}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "no"},
        ChatCompletionMessage(role="assistant", content=None, refusal="I must not say.", annotations=[]),
    ]
    history = from_openai(said)
    assert history == [
        system("Be brief."),
        user("Rain?"),
        assistant(ToolCall("c1", "look", "{}")),
        tool_message(ToolResult("c1", "look", "no")),
        assistant("I must not say."),
    ]
    run = await Agent(ScriptedModel("It does not rain.")).run("So?", history=history)
    assert to_openai(run.messages)[-2:] == [
        {"role": "user", "content": "So?"},
        {"role": "assistant", "content": "It does not rain."},
    ]


DENIED = tool_message(ToolResult("1", "f", "x", "denied"))


def test_what_has_no_place_is_left_out() -> None:
    log = [
        user("go"),
        assistant(Thinking("hm", "signed"), ToolCall("1", "f", "{}")),
        tool_message(ToolResult("1", "f", "x", "denied")),
    ]
    assert from_openai(to_openai(log)) == [
        user("go"),
        assistant(ToolCall("1", "f", "{}")),
        tool_message(ToolResult("1", "f", "x")),
    ]


@pytest.mark.parametrize(
    "given",
    [
        3,
        "hi",
        {"content": "hi"},
        {"role": "function", "content": "hi"},
        {"role": "user", "content": 3},
        {"role": "user", "content": ["hi"]},
        {"role": "user"},
        {"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "video_url", "video_url": "x"}]},
        {"role": "system"},
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "assistant", "content": "hi", "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "assistant", "content": None, "audio": {"id": "a"}},
        {"role": "tool", "tool_call_id": "unknown", "content": "hi"},
        {"role": "tool", "content": "hi"},
        {"role": "assistant", "tool_calls": [{"id": "1", "type": "custom", "custom": {"name": "f", "input": "x"}}]},
        {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "a", "format": "wav"}}]},
    ],
)
def test_what_is_no_message_is_refused_by_its_number(given: Any) -> None:
    with pytest.raises(InvalidArguments, match="message 1 is no message of OpenAI"):
        from_openai([{"role": "user", "content": "hi"}, given])


@pytest.mark.parametrize("given", [{}, {"content": None}, {"content": ""}, {"content": [], "function_call": None}])
def test_an_assistant_that_said_nothing_is_left_out(given: dict[str, Any]) -> None:
    assert from_openai([{"role": "assistant", **given}]) == []


def test_a_refusal_as_a_part_is_read() -> None:
    said = [{"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}]
    assert from_openai(said) == [assistant("No.")]


def test_the_id_of_a_call_that_is_missing_is_named() -> None:
    with pytest.raises(InvalidArguments, match="c7"):
        from_openai([{"role": "tool", "tool_call_id": "c7", "content": "x"}])


@pytest.mark.parametrize("given", ["hi", b"hi", {"role": "user", "content": "hi"}, 5, None])
def test_what_is_no_list_of_messages_is_refused_as_a_whole(given: Any) -> None:
    with pytest.raises(InvalidArguments, match="from_openai takes a list"):
        from_openai(given)
    with pytest.raises(InvalidArguments, match="to_openai takes a list"):
        to_openai(given)


def test_a_run_is_no_list_of_messages() -> None:
    with pytest.raises(InvalidArguments, match=r"run\.messages"):
        to_openai(wrong(Agent(ScriptedModel("hi")).run_sync("hi")))
