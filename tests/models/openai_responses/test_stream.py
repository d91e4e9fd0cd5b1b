"""Streams of the Responses API, correct ones and those of real servers."""

import json

import pytest

from tests.models.openai_responses.support import (
    DIALECT,
    Json,
    call,
    event,
    message,
    pieces,
    played,
    read,
    reasoning,
    reply,
    stream,
)
from tests.samples import sample
from ziggurat import Message, ToolCall
from ziggurat.errors import ContextOverflow, ModelError, StreamInterrupted
from ziggurat.events import TextDelta, ToolCallDelta
from ziggurat.http.sse import EventParser
from ziggurat.messages import Thinking, assistant
from ziggurat.models.openai_responses import Reader

SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "rain"}}
REPLIES = {
    "text": reply(message("Hello, wörld 🙂")),
    "two messages": reply(message("Look.", phase="commentary"), message("Done.", "msg_2", phase="final_answer")),
    "refusal": reply({**message(""), "content": [{"type": "refusal", "refusal": "No, I will not."}]}),
    "calls": reply(call("add", '{"a": 1, "b": 2}', "c1"), call("add", '{"a": 3}', "c2"), call("now", "{}", "c3")),
    "reasoning": reply(reasoning("First this.", "Then that."), message("Hi")),
    "raw thoughts": reply(
        reasoning(encrypted=None, content=[{"type": "reasoning_text", "text": "Hm, 4."}]), message("4")
    ),
    "proof only": reply(reasoning(), call("add", "{}")),
    "search": reply(reasoning(), SEARCH, reasoning("So.", id="rs_2"), message("It rains.")),
    "same id twice": reply(reasoning("A", id="rs_1"), SEARCH, reasoning(id="rs_1", encrypted="other"), message("B")),
    "incomplete": reply(message("Hel"), status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
    "nothing": reply(),
}


@pytest.mark.parametrize("body", REPLIES.values(), ids=REPLIES)
def test_a_stream_is_the_plain_reply_in_pieces(body: Json) -> None:
    response, folded = played(stream(body))
    assert response == read(body)
    assert folded == response.message


@pytest.mark.parametrize("body", REPLIES.values(), ids=REPLIES)
def test_cut_at_any_byte_it_is_never_finished(body: Json) -> None:
    whole = stream(body)
    last = whole.rstrip().rfind(b"}")  # with it, the reply is complete
    for cut in sample(range(last), 60):
        parser, reader = EventParser(), Reader(DIALECT)
        for each in [*parser.feed(whole[:cut]), *parser.close()]:
            reader.push(each)
        with pytest.raises(StreamInterrupted) as caught:
            reader.finish()
        partial = caught.value.partial
        assert isinstance(partial, Message)
    assert played(whole[: last + 1])[0] == read(body)


def test_an_interrupted_stream_tells_what_had_come() -> None:
    with pytest.raises(StreamInterrupted) as caught:
        played(stream(reply(message("Hello there"))).split(b"event: response.output_text.done")[0])
    assert caught.value.partial == assistant("Hello there")
    assert caught.value.transient
    body = stream(reply(message("Hello"))).split(b"event: response.completed")[0]
    with pytest.raises(StreamInterrupted):
        played(body + b"data: [DONE]\n\n")


def test_pieces_come_at_once() -> None:
    deltas = pieces(stream(reply(call("add", '{"a": 1}')), size=5))
    assert deltas == [ToolCallDelta(0, "", "call_1", "add"), ToolCallDelta(0, '{"a":'), ToolCallDelta(0, " 1}")]
    response, folded = played(without(stream(reply(call("add", '{"a": 1}'))), "response.output_item.added"))
    assert folded == response.message == assistant(ToolCall("call_1", "add", '{"a": 1}'))


def without(data: bytes, *kinds: str) -> bytes:
    events = [each for each in data.split(b"\n\n") if each]
    return (
        b"\n\n".join(each for each in events if not any(f"event: {kind}\n".encode() in each for kind in kinds))
        + b"\n\n"
    )


@pytest.mark.parametrize("body", REPLIES.values(), ids=REPLIES)
@pytest.mark.parametrize(
    "missing",
    [
        ("response.output_item.added",),
        ("response.output_item.done",),
        ("response.output_item.added", "response.output_item.done"),
        ("response.output_text.done", "response.function_call_arguments.done", "response.reasoning_summary_text.done"),
        ("response.created", "response.in_progress"),
        ("response.output_text.delta", "response.function_call_arguments.delta", "response.refusal.delta"),
    ],
    ids=str,
)
def test_events_that_never_come(body: Json, missing: tuple[str, ...]) -> None:
    assert played(without(stream(body), *missing))[0] == read(body)


def test_what_the_pieces_left_out_is_taken_from_the_whole() -> None:
    data = stream(reply(message("Hello there")), size=5).replace(b'"delta": " ther"', b'"delta": ""')
    data = data.replace(b'"delta": "e"', b'"delta": ""')
    assert pieces(data) == [TextDelta("Hello"), TextDelta(" there")]
    data = stream(reply(call("add", '{"a": 1}')), size=99).replace(
        b'"delta": "{\\"a\\": 1}"', b'"delta": "{\\"a\\": 2"'
    )
    assert played(data)[0].tool_calls == (ToolCall("call_1", "add", '{"a": 1}'),)


@pytest.mark.parametrize("name", ["text", "calls", "reasoning", "search", "refusal"])
def test_a_last_event_without_output_leaves_the_items(name: str) -> None:
    data = stream(REPLIES[name])
    head, end = data.split(b"event: response.completed")
    last = event("response.completed", response={**REPLIES[name], "output": []})
    assert end
    assert played(head + last)[0].message == read(REPLIES[name]).message


def test_a_reply_without_output_needs_all_of_its_items() -> None:
    last = event("response.completed", response=reply())
    data = without(stream(reply(call("add", '{"a": 1}'))), "response.output_item.done", "response.completed")
    with pytest.raises(ModelError) as caught:
        played(data + last)
    assert caught.value.kind == "malformed"


def test_texts_that_were_sent_are_not_lost_without_an_error() -> None:
    empty = reply({**message(""), "content": []})
    data = without(stream(reply(message("Hello"))), "response.completed")
    with pytest.raises(ModelError) as caught:
        played(data + event("response.completed", response=empty))
    assert caught.value.kind == "malformed"


def test_a_reply_that_its_limit_cut_has_what_was_sent() -> None:
    limit = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    last = event("response.incomplete", response=reply(**limit))
    data = without(stream(reply(message("Hello"))), "response.output_item.done", "response.completed")
    assert (played(data + last)[0].text, played(data + last)[0].finish) == ("Hello", "length")
    data = without(stream(reply(call("add", '{"a": 1}'))), "response.output_item.done", "response.completed")
    assert played(data + last)[0].finish == "malformed"


def test_items_are_told_apart_by_place_or_id() -> None:
    data = stream(REPLIES["calls"])
    parts = data.split(b'"item_id": "fc_')
    changed = parts[0] + b"".join(b'"item_id": "x%d' % number + part for number, part in enumerate(parts[1:]))
    assert played(changed)[1] == read(REPLIES["calls"]).message
    data = stream(REPLIES["calls"])
    for place in (1, 2):
        data = data.replace(b'"output_index": %d' % place, b'"output_index": 0')
    assert played(data)[1] == read(REPLIES["calls"]).message


def test_interleaved_calls() -> None:
    first, second = call("a", '{"x": 1}', "c1"), call("b", '{"y": 2}', "c2")
    events = [event("response.output_item.added", output_index=at, item={**each, "arguments": ""})
              for at, each in enumerate((first, second))]  # fmt: skip
    for start in (0, 4):
        for at, each in enumerate((first, second)):
            text = each["arguments"][start : start + 4]
            kind = "response.function_call_arguments.delta"
            events.append(event(kind, output_index=at, item_id=each["id"], delta=text))
    events += [event("response.output_item.done", output_index=at, item=each) for at, each in ((1, second), (0, first))]
    body = reply(first, second)
    response, folded = played(b"".join([*events, event("response.completed", response=body)]))
    assert folded == response.message == read(body).message


def test_events_have_a_type_or_a_name_and_others_are_passed_over() -> None:
    data = stream(reply(message("Hello"))).replace(b'"type": "response.', b'"kind": "response.')
    assert played(data)[0].text == "Hello"
    data = b"\n".join(line for line in stream(REPLIES["calls"]).split(b"\n") if not line.startswith(b"event:"))
    assert played(data)[0] == read(REPLIES["calls"])
    noise = event("keepalive") + event("response.brand_new.delta", delta={"x": 1}, item=3) + b": ping\n\ndata:\n\n"
    assert played(noise + stream(REPLIES["text"]) + noise)[0] == read(REPLIES["text"])


def test_an_error_after_a_good_status() -> None:
    begun = stream(reply(message("Hello"))).split(b"event: response.output_text.done")[0]
    fault = {"type": "insufficient_quota", "code": "insufficient_quota", "message": "You exceeded your quota."}
    with pytest.raises(ModelError, match="exceeded") as caught:
        played(begun + event("error", error=fault))
    assert not caught.value.transient
    assert caught.value.partial == assistant("Hello")


def test_errors_within_a_stream() -> None:
    with pytest.raises(ModelError, match="Slow down") as caught:
        played(event("error", code="rate_limit_exceeded", message="Slow down.", param=None))
    assert (caught.value.kind, caught.value.transient) == ("rate_limited", True)
    fault = {"code": "context_length_exceeded", "message": "Too long."}
    with pytest.raises(ContextOverflow):
        played(event("response.failed", response=reply(status="failed", error=fault)))
    with pytest.raises(ModelError) as caught:
        played(event("response.completed") + event("keepalive"))
    assert caught.value.kind == "malformed"


@pytest.mark.parametrize("line", [b"data: {broken\n\n", b"data: 3\n\n", b'data: {"type": 4}\n\n'])
def test_an_event_that_cannot_be_read(line: bytes) -> None:
    with pytest.raises(ModelError) as caught:
        played(line + stream(REPLIES["text"]))
    assert caught.value.kind == "malformed"
    with pytest.raises(StreamInterrupted):
        played(line)


def test_half_of_a_surrogate_pair() -> None:
    data = stream(reply(message("Hello")), size=99).replace(b'"delta": "Hello"', b'"delta": "Hello\\ud83d"')
    assert pieces(data)[0] == TextDelta("Hello?")


def test_nothing_after_the_end_counts() -> None:
    data = stream(REPLIES["text"])
    assert played(data + data + event("error", message="late"))[0] == read(REPLIES["text"])


def test_proofs_are_those_of_the_whole_reply() -> None:
    body = reply(reasoning("Hm."), message("Hi"))
    data = stream(body).replace(b"gAAA==", b"gBBB==", 2)
    response, folded = played(data)
    assert response.message.parts[0] == Thinking("Hm.", "gAAA==", None, "rs_1")
    assert folded.parts[0] == Thinking("Hm.", "gBBB==", None, "rs_1")


def test_text_of_any_cut_is_whole() -> None:
    body = json.loads(json.dumps(REPLIES["text"]))
    for size in range(1, 8):
        assert played(stream(body, size))[1].text == "Hello, wörld 🙂"
