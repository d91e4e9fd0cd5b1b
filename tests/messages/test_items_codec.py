from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import count

import pytest
from hypothesis import given, strategies as st

from tests.core.hand import HandClock
from ziggurat import ConfigurationError, Image, Message, Text, ToolCall, ToolResult, user
from ziggurat.core.codec import decode, encode
from ziggurat.messages import (
    HandoffItem,
    MessageItem,
    RunItem,
    Thinking,
    ToolCallItem,
    ToolOutputItem,
    assistant,
    items_to_messages,
    messages_to_items,
    system,
    tool_call,
    tool_message,
)

from .strategies import error_kinds, json_objects, json_values, some_text, words
from .test_items import HANDOFF, call, items, output, said, shown


def written(messages: Iterable[Message]) -> list[RunItem]:
    numbers = count(1)
    return messages_to_items(messages, ids=lambda: f"item-{next(numbers)}", clock=HandClock())


def there_and_back(*messages: Message) -> list[Message]:
    items = written(messages)
    assert decode(encode(items), list[RunItem]) == items
    return items_to_messages(items)


compact = json_objects.map(lambda value: encode(value).decode()) | words.filter(lambda text: not text.startswith("{"))
results = words | json_values.map(lambda value: encode(value).decode()) | st.sampled_from(['"x"', "1.50", "[1, 2]"])


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    """Conversations with every pairing of calls and results, including invalid ones."""
    log: list[Message] = []
    names: dict[str, str] = {}
    for _ in range(draw(st.integers(0, 6))):
        kind = draw(st.sampled_from(["system", "user", "assistant", "result"]))
        text = draw(words)
        parts = (Text(text),) if text else ()
        if kind == "result":
            id_ = draw(st.sampled_from([*names, "orphan"]))
            error = draw(st.none() | error_kinds)
            log.append(tool_message(ToolResult(id_, names.get(id_, ""), draw(results), error)))
        elif kind == "assistant":
            calls = draw(st.lists(st.builds(ToolCall, some_text, words, compact), max_size=3))
            names.update({each.id: each.name for each in calls})
            log.append(Message("assistant", (*parts, *calls)))
        else:
            log.append(system(*parts) if kind == "system" else user(*parts))
    return log


@given(conversations())
def test_a_conversation_comes_back_as_it_was(log: list[Message]) -> None:
    assert there_and_back(*log) == log


@given(words, st.none() | error_kinds)
def test_text_comes_back_without_quotes_and_an_error_as_an_error(text: str, error: None) -> None:
    asked, answer = assistant(tool_call("look", id="1")), tool_message(ToolResult("1", "look", text, error))
    assert there_and_back(asked, answer) == [asked, answer]


@pytest.mark.parametrize("text", ['"quoted"', "007", "1.50", '{"a": 1}', "{", "null", "", "1e999", "[" * 100_000])
def test_results_that_look_like_json_come_back_to_the_letter(text: str) -> None:
    answer = tool_message(ToolResult("1", "", text))
    assert there_and_back(answer) == [answer]


def test_parallel_calls_stay_together_and_apart_from_the_next() -> None:
    log = [
        assistant("both", tool_call("a", id="1"), tool_call("b", id="2")),
        assistant(tool_call("c", id="3")),
        assistant("no more"),
    ]
    assert there_and_back(*log) == log


def test_the_same_id_in_two_steps_belongs_to_the_latest_call() -> None:
    log = [
        assistant(tool_call("a", id="call")),
        tool_message(ToolResult("call", "a", "1")),
        assistant(tool_call("b", id="call")),
        tool_message(ToolResult("call", "b", "2")),
    ]
    assert there_and_back(*log) == log


def test_items_hold_values_where_text_is_json_and_text_where_it_is_not() -> None:
    at = datetime.fromtimestamp(HandClock().now(), UTC)
    assert written(
        [
            assistant("hm", ToolCall("c", "add", '{"a": 1}'), ToolCall("d", "add", "{broken")),
            tool_message(ToolResult("c", "add", '{"sum":3}')),
            tool_message(ToolResult("d", "add", "no b", "invalid_arguments")),
        ]
    ) == [
        MessageItem(id="item-1", role="assistant", content="hm", created_at=at),
        ToolCallItem(id="c", tool_name="add", arguments={"a": 1}, created_at=at),
        ToolCallItem(id="d", tool_name="add", arguments="{broken", created_at=at),
        ToolOutputItem(id="item-2", tool_call_id="c", output={"sum": 3}, created_at=at),
        ToolOutputItem(
            id="item-3", tool_call_id="d", output={"kind": "invalid_arguments"}, error="no b", created_at=at
        ),
    ]


def test_an_assistant_message_without_text_is_an_item_all_the_same() -> None:
    first, second = written([assistant(tool_call("a", id="1"))])
    assert (type(first), type(second)) == (MessageItem, ToolCallItem)


def test_the_systems_ids_and_clock_are_used_where_none_are_given() -> None:
    one, other = messages_to_items([user("a"), user("b")])
    assert one.id != other.id
    assert abs((datetime.now(UTC) - one.created_at).total_seconds()) < 60


def test_calls_without_a_message_and_outputs_without_a_call_are_kept() -> None:
    history: list[RunItem] = [
        call("a", "1"),
        call("b", "2"),
        output("x", "1"),
        call("c", "3"),
        output("y", "9"),
        call("d", "4"),
    ]
    assert [shown(message) for message in items_to_messages(history)] == [
        "assistant:+1+2",
        "tool:1=x",
        "assistant:+3",
        "tool:9=y",
        "assistant:+4",
    ]


def test_a_handoff_does_not_part_a_message_from_its_calls() -> None:
    history: list[RunItem] = [
        said("assistant", "x"),
        HANDOFF,
        call("a", "1"),
        HANDOFF,
        call("b", "2"),
        HANDOFF,
        output(1, "1"),
    ]
    assert [shown(message) for message in items_to_messages(history)] == ["assistant:x+1+2", "tool:1=1"]


@pytest.mark.parametrize("value", [None, 3, {"kind": "unheard of"}, {"kind": None}, ["kind"]])
def test_an_error_of_another_kind_is_permanent(value: object) -> None:
    message = items_to_messages([output(value, error="no")])[0]
    assert (message.tool_results[0].error, message.tool_results[0].text) == ("permanent", "no")


@given(st.lists(items, max_size=8))
def test_any_items_but_handoffs_are_told_exactly_once(history: list[RunItem]) -> None:
    messages = items_to_messages(history)
    calls = [each.id for message in messages for each in message.tool_calls]
    results = [each.id for message in messages for each in message.tool_results]
    assert calls == [item.id for item in history if isinstance(item, ToolCallItem)]
    assert results == [item.tool_call_id for item in history if isinstance(item, ToolOutputItem)]
    others = [message for message in messages if not message.tool_results]
    assert len(others) >= sum(isinstance(item, MessageItem) for item in history)
    assert not [item for item in history if isinstance(item, HandoffItem)] or len(messages) <= len(history)


LOST = [
    (assistant(Thinking("hm"), "x"), assistant("x")),
    (user("x", Image(url="u")), user("x")),
    (user("x", name="ann"), user("x")),
    (Message("user", (Text("x"),), origin="runtime"), user("x")),
    (tool_message(ToolResult("1", "", "x", origin="web")), tool_message(ToolResult("1", "", "x"))),
    (tool_message(ToolResult("1", "", (Text("x"), Image(url="u")))), tool_message(ToolResult("1", "", "x"))),
]


@pytest.mark.parametrize(("message", "kept"), LOST)
def test_what_has_no_place_is_left_out(message: Message, kept: Message) -> None:
    assert items_to_messages(written([message])) == [kept]


def test_what_comes_back_in_another_form() -> None:
    assert there_and_back(assistant("a", tool_call("x", id="1"), "b")) == [assistant("ab", tool_call("x", id="1"))]
    assert there_and_back(assistant(ToolCall("1", "x", '{ "a": 1 }'))) == [assistant(ToolCall("1", "x", '{"a":1}'))]
    one, two = ToolResult("1", "", "a"), ToolResult("2", "", "b")
    assert there_and_back(Message("tool", (one, two))) == [tool_message(one), tool_message(two)]


@pytest.mark.parametrize("message", [assistant(ToolCall("", "x")), tool_message(ToolResult("", "x", "y"))])
def test_a_call_or_result_without_an_id_is_refused(message: Message) -> None:
    with pytest.raises(ConfigurationError, match="message 1"):
        messages_to_items([message])
