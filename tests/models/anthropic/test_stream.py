"""Streamed replies of the Messages API."""

import json
from typing import Any

import pytest

from tests.models.anthropic.support import (
    CALL,
    DIALECT,
    OTHER_CALL,
    REPLIES,
    SEARCH,
    TEXT,
    THINKING,
    compact,
    event,
    events_of,
    read_all,
    read_cut,
    reply,
    stream_of,
    written,
)
from ziggurat import Message, Text, ToolCall, Usage
from ziggurat.errors import ModelError, StreamInterrupted
from ziggurat.events import Fold, TextDelta
from ziggurat.http.sse import ServerEvent
from ziggurat.messages import Thinking
from ziggurat.models.anthropic import Reader, from_wire


@pytest.mark.parametrize("name", REPLIES)
@pytest.mark.parametrize("size", [1, 5, 1000])
def test_streamed_and_plain_replies_read_alike(name: str, size: int) -> None:
    made = REPLIES[name]
    response, deltas = read_all(events_of(made, size))
    assert response == from_wire(written(made), DIALECT)
    fold = Fold()
    for delta in deltas:
        fold.push(delta)
    assert fold.message() == response.message


@pytest.mark.parametrize("name", REPLIES)
def test_a_stream_cut_at_any_byte_is_never_finished(name: str) -> None:
    body = stream_of(REPLIES[name], 40)
    end = body.rindex(b"}") + 1
    for length in range(len(body)):
        got = read_cut(body[:length])
        if length < end:
            assert isinstance(got, StreamInterrupted), length
            assert isinstance(got.partial, Message)
        else:  # only the blank line after the last event is missing
            assert not isinstance(got, ModelError)


def test_what_was_interrupted_says_what_is_known() -> None:
    usage = {"input_tokens": 5, "output_tokens": 9, "cache_read_input_tokens": 10}
    got = read_cut(stream_of(reply(TEXT, CALL, stop="tool_use", usage=usage))[:-300])
    assert isinstance(got, StreamInterrupted)
    assert got.transient
    assert got.usage == Usage(15, None, 10, None, None, 1)
    ended = read_cut(stream_of(reply(TEXT, usage=usage))[:-30])  # within the last event
    assert ended.usage == Usage(15, 9, 10, None, None, 1)
    assert isinstance(got.partial, Message)
    assert got.partial.text == TEXT["text"]


def test_usage_is_replaced_never_added() -> None:
    events = events_of(reply(TEXT, usage={"input_tokens": 10, "output_tokens": 50}))
    more = {"input_tokens": 12, "output_tokens": 30, "cache_read_input_tokens": 4}
    events.insert(-2, event("message_delta", delta={}, usage=more))
    assert read_all(events)[0].usage == Usage(16, 50, 4, requests=1)


def test_arguments_may_come_with_the_beginning_of_a_call_or_not_at_all() -> None:
    response, deltas = read_all(events_of(reply(OTHER_CALL, CALL, stop="tool_use")))
    assert [call.arguments for call in response.tool_calls] == ["{}", compact(CALL["input"])]
    assert response.finish == "tool_calls"
    assert deltas
    events = [
        event("message_start", message=reply()),
        event("content_block_start", index=0, content_block=CALL),
        event("content_block_stop", index=0),
        event("message_delta", delta={"stop_reason": "tool_use"}),
        event("message_stop"),
    ]
    assert read_all(events)[0].tool_calls[0].parsed() == CALL["input"]


@pytest.mark.parametrize("call", [CALL, OTHER_CALL])
def test_a_call_that_was_cut_by_the_limit_is_not_to_be_run(call: dict[str, Any]) -> None:
    events = events_of(reply(TEXT, call, stop="max_tokens"))
    events = [each for each in events if '3]"' not in each.data]
    response, _ = read_all(events)
    assert response.finish == "malformed"
    assert response.raw is not None
    assert response.raw["stop_reason"] == "max_tokens"


def test_signatures_stand_with_their_thoughts() -> None:
    events = [
        event("content_block_start", index=0, content_block=THINKING),
        event("content_block_delta", index=0, delta={"type": "thinking_delta", "thinking": " More."}),
        event("message_stop"),
    ]
    parts = read_all(events)[0].message.parts
    assert parts == (Thinking(THINKING["thinking"] + " More.", THINKING["signature"]),)
    made = reply({"type": "thinking", "thinking": "", "signature": "sig"}, TEXT)
    assert read_all(events_of(made))[0].message.parts == (Thinking("", "sig"), Text(TEXT["text"]))


def test_a_block_put_together_from_deltas_of_unknown_types() -> None:
    events = [
        event("content_block_start", index=0, content_block={"type": "compaction", "content": None}),
        event("content_block_delta", index=0, delta={"type": "compaction_delta", "content": "So "}),
        event("content_block_delta", index=0, delta={"type": "compaction_delta", "content": "far"}),
        event("content_block_delta", index=0, delta={"type": "shimmer_delta", "depth": 3}),
        event("content_block_stop", index=0),
        event("message_stop"),
    ]
    (part,) = read_all(events)[0].message.parts
    assert isinstance(part, Thinking)
    assert json.loads(part.redacted or "") == {"type": "compaction", "content": "So far", "depth": 3}


def test_numbers_that_no_decoder_takes() -> None:
    details = '{"type":"message_delta","delta":{"stop_reason":"refusal","stop_details":{"score":1e400}}}'
    block = '{"type":"content_block_start","index":0,"content_block":{"type":"odd","size":1e400}}'
    reader = Reader(DIALECT)
    for data in (block, details, '{"type":"message_stop"}'):
        reader.push(ServerEvent("message", data))
    response = reader.finish()
    assert response.raw == {"stop_reason": "refusal", "stop_details": '{"score":1e400}'}
    assert response.message.parts == (Thinking(redacted='{"type":"odd","size":1e400}', id="anthropic:odd"),)


def test_other_models_faults_and_later_events() -> None:
    fallback = {"type": "fallback", "from": {"model": "a"}, "to": {"model": "claude-b"}}
    assert read_all(events_of(reply(fallback, TEXT)))[0].model == "claude-b"
    with pytest.raises(ModelError):
        Reader(DIALECT).push(ServerEvent("error", "upstream is gone"))
    events = events_of(reply(TEXT))
    response, _ = read_all([*events, *events_of(reply({"type": "text", "text": "more"}, CALL, stop="tool_use"))])
    assert (response.text, response.finish, response.tool_calls) == (TEXT["text"], "stop", ())


@pytest.mark.parametrize(
    "odd",
    [
        event("ping"), event("sparkle", index="x", delta=5),
        event("content_block_delta", index=0, delta={"type": "glow_delta", "text": {"bright": True}}),
        event("content_block_delta", index=0, delta={"type": "glow_delta", "brightness": 3}),
        event("content_block_delta", index=0), event("content_block_start", index=9),
        event("content_block_stop", index=9),
        event("content_block_start", index=9, content_block={"type": "hologram", "text": []}), event("message_start"),
        event("message_delta"), event("content_block_delta", index=0, delta={"type": {}}),
        ServerEvent("message", "[DONE]"), ServerEvent("message", ""),
    ],
)  # fmt: skip
def test_odd_events_do_no_harm(odd: ServerEvent) -> None:
    events = events_of(reply(TEXT))
    response, _ = read_all([*events[:4], odd, *events[4:]])
    assert response.text == TEXT["text"]
    assert response.finish == "stop"


@pytest.mark.parametrize(
    "broken",
    [
        ServerEvent("content_block_delta", '{"type":"content_block_delta","delta":{"type":"text_de'),
        event("content_block_delta", index=0, delta={"type": "text_delta", "text": 5}),
        event("content_block_start", index=7, content_block={"type": "text", "text": 5}),
        event("content_block_delta", index=7, delta={"type": "input_json_delta", "partial_json": "{}"}),
    ],
)
def test_an_event_that_cannot_be_read_spoils_the_reply(broken: ServerEvent) -> None:
    events = events_of(reply(TEXT))
    with pytest.raises(ModelError) as caught:
        read_all([*events[:4], broken, *events[4:]])
    assert caught.value.kind == "malformed"


def test_an_error_in_the_midst() -> None:
    reader = Reader(DIALECT)
    for each in events_of(reply(TEXT))[:5]:
        reader.push(each)
    with pytest.raises(ModelError) as caught:
        reader.push(event("error", error={"type": "overloaded_error", "message": "Overloaded"}))
    assert caught.value.kind == "overloaded"
    assert caught.value.transient
    assert isinstance(caught.value.partial, Message)
    assert caught.value.partial.text
    assert caught.value.usage == Usage(10, None, requests=1)


def test_blocks_without_an_end() -> None:
    whole = events_of(reply(THINKING, SEARCH, CALL, stop="tool_use"))
    events = [each for each in whole if each.event != "content_block_stop"]
    parts = read_all(events)[0].message.parts
    assert {type(part) for part in parts} == {Thinking, ToolCall}
    assert len(parts) == 3


def test_types_may_stand_in_the_event_alone() -> None:
    events = [
        ServerEvent("content_block_delta", '{"index":0,"delta":{"type":"text_delta","text":"hi"}}'),
        ServerEvent("message_stop", "{}"),
    ]
    response, deltas = read_all(events)
    assert deltas == [TextDelta("hi")]
    assert response.text == "hi"
