from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, strategies as st

from ziggurat import ConfigurationError, Message
from ziggurat.core.codec import decode, encode
from ziggurat.errors import JournalCorrupt
from ziggurat.messages import (
    HandoffItem,
    MessageItem,
    RunItem,
    ToolCallItem,
    ToolOutputItem,
    filter_by_type,
    to_messages,
)
from ziggurat.messages.message import Role

from .strategies import json_values, maybe, words

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
times = st.datetimes(
    min_value=datetime(1900, 1, 1), max_value=datetime(2200, 1, 1), timezones=st.sampled_from([UTC, timezone.max])
)
roles = st.sampled_from(["system", "user", "assistant", "tool"])
items: st.SearchStrategy[RunItem] = st.one_of(
    st.builds(MessageItem, id=words, role=roles, content=words, created_at=times),
    st.builds(ToolCallItem, id=words, tool_name=words, arguments=json_values, created_at=times),
    st.builds(ToolOutputItem, id=words, tool_call_id=words, output=json_values, error=maybe, created_at=times),
    st.builds(HandoffItem, id=words, from_agent=words, to_agent=words, reason=maybe, created_at=times),
)


def said(role: Role, content: str) -> MessageItem:
    return MessageItem(id="m", role=role, content=content, created_at=NOON)


def call(name: str, as_: str = "2", **arguments: object) -> ToolCallItem:
    return ToolCallItem(id=as_, tool_name=name, arguments=arguments, created_at=NOON)


def output(value: object, of: str = "2", error: str | None = None) -> ToolOutputItem:
    return ToolOutputItem(id="o", tool_call_id=of, output=value, error=error, created_at=NOON)


HANDOFF = HandoffItem(id="h", from_agent="triage", to_agent="billing", created_at=NOON)


def told(*history: RunItem) -> list[str]:
    """Return messages in short form: role, text, ids of calls, id of the result."""
    return [shown(message) for message in to_messages(history)]


def shown(message: Message) -> str:
    calls = "".join(f"+{each.id}" for each in message.tool_calls)
    results = "".join(f"{each.id}={each.text}" for each in message.tool_results)
    return f"{message.role}:{message.text}{calls}{results}"


@given(items)
def test_every_item_comes_back_through_json(item: RunItem) -> None:
    assert decode(encode(item), RunItem) == item
    assert decode(encode([item]), list[RunItem]) == [item]


def test_items_are_told_apart_by_type_and_written_whole() -> None:
    at = b'"created_at":"2026-01-02T12:00:00Z"}'
    assert encode(said("user", "Hi")) == b'{"type":"Message","id":"m","role":"user","content":"Hi",' + at
    assert encode(call("add", a=1)) == b'{"type":"ToolCall","id":"2","tool_name":"add","arguments":{"a":1},' + at
    assert encode(output(3)) == b'{"type":"ToolOutput","id":"o","tool_call_id":"2","output":3,"error":null,' + at
    assert encode(HANDOFF) == (
        b'{"type":"Handoff","id":"h","from_agent":"triage","to_agent":"billing","reason":null,' + at
    )


def test_items_of_others_are_read_also_with_finer_times_and_without_what_is_optional() -> None:
    at = b'"created_at":"2026-01-02T14:00:00.123456789+02:00"'
    item = decode(b'{"type":"ToolOutput","id":"o","tool_call_id":"2","output":3,' + at + b"}", ToolOutputItem)
    assert item.error is None
    assert item.created_at.replace(microsecond=0) == NOON
    assert item.created_at.tzinfo is UTC


@pytest.mark.parametrize(
    "data",
    [
        b'{"type":"Note","id":"1"}',
        b'{"id":"1","role":"user","content":"","created_at":"2026-01-02T12:00:00Z"}',
        b'{"type":"Message","id":"1","role":"wizard","content":"","created_at":"2026-01-02T12:00:00Z"}',
        b'{"type":"Message","id":"1","role":"user","content":"","created_at":"2026-01-02T12:00:00"}',
        b'{"type":"Message","id":"1","role":"user","content":""}',
    ],
)
def test_what_is_no_item_is_refused(data: bytes) -> None:
    with pytest.raises(JournalCorrupt):
        decode(data, RunItem)


@pytest.mark.parametrize("wrong", [datetime(2026, 1, 2), None, "2026-01-02T12:00:00Z"])
def test_a_time_without_a_zone_is_refused_with_the_fix(wrong: datetime) -> None:
    with pytest.raises(ConfigurationError, match="created_at"):
        MessageItem(id="m", role="user", content="", created_at=wrong)


def test_times_are_kept_in_utc() -> None:
    local = NOON.astimezone(timezone(timedelta(hours=2)))
    item = HandoffItem(id="h", from_agent="a", to_agent="b", created_at=local)
    assert item.created_at == NOON
    assert encode(item).endswith(b'"2026-01-02T12:00:00Z"}')


def test_a_question_a_call_and_its_output_are_three_messages() -> None:
    messages = to_messages(
        [
            said("user", "What's the weather?"),
            call("get_weather", city="Paris"),
            output({"temp": 20, "condition": "sunny"}),
        ]
    )
    assert [message.role for message in messages] == ["user", "assistant", "tool"]
    assert messages[1].tool_calls[0].parsed() == {"city": "Paris"}
    result = messages[2].tool_results[0]
    assert (result.id, result.name, result.content) == ("2", "get_weather", '{"temp":20,"condition":"sunny"}')


def test_nothing_is_no_history() -> None:
    assert told() == []
    assert told(HANDOFF) == []


def test_calls_wait_over_what_others_say_and_stand_at_the_end() -> None:
    assert told(call("a", "1"), call("b", "2"), said("assistant", "both")) == ["assistant:both+1+2"]
    assert told(call("a", "1"), said("user", "hm"), said("assistant", "x")) == ["user:hm", "assistant:x+1"]
    assert told(said("user", "hm"), call("a", "1"), call("b", "2")) == ["user:hm", "assistant:+1+2"]
    assert told(call("a", "1"), HANDOFF, output(3, "1")) == ["tool:1=3", "assistant:+1"]


def test_calls_before_an_output_stand_in_an_empty_message() -> None:
    assert told(said("assistant", "x"), call("a", "1"), output(3, "1")) == ["assistant:x", "assistant:+1", "tool:1=3"]
    assert told(call("a", "1"), call("b", "2"), output(1, "1"), output(2, "2")) == [
        "assistant:+1+2",
        "tool:1=1",
        "tool:2=2",
    ]


def test_a_failed_output_says_so() -> None:
    messages = to_messages([call("a"), output({"ignored": 1}, error="no such city")])
    assert messages[1].tool_results[0].text == "Error: no such city"
    assert messages[1].tool_results[0].error == "permanent"
    assert told(output(None, error="")) == ["tool:2=Error: "]


@pytest.mark.parametrize(
    ("value", "text"), [("plain", '"plain"'), (None, "null"), (1.5, "1.5"), ([1, {"a": "é"}], '[1,{"a":"é"}]')]
)
def test_an_output_is_the_json_text_of_its_value(value: object, text: str) -> None:
    assert to_messages([output(value)])[0].tool_results[0].text == text


@given(st.lists(items, max_size=8))
def test_every_item_but_a_handoff_is_told_exactly_once(history: list[RunItem]) -> None:
    messages = to_messages(history)
    calls = [each.id for message in messages for each in message.tool_calls]
    results = [each.id for message in messages for each in message.tool_results]
    texts = [message.text for message in messages if not message.tool_results]
    assert calls == [item.id for item in filter_by_type(history, ToolCallItem)]
    assert results == [item.tool_call_id for item in filter_by_type(history, ToolOutputItem)]
    assert [text for text in texts if text] == [
        item.content for item in filter_by_type(history, MessageItem) if item.content
    ]


@given(st.lists(items, max_size=8))
def test_items_are_chosen_by_type_in_order(history: list[RunItem]) -> None:
    for kind in (MessageItem, ToolCallItem, ToolOutputItem, HandoffItem):
        assert filter_by_type(history, kind) == [item for item in history if type(item) is kind]  # type: ignore[type-var]
