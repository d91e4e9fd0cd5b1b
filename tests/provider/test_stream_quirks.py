"""Tests of the stream quirks, through a plain socket."""

import json
import re
from typing import Any

import pytest

from tests import provider as kit
from tests.provider.client import WIRES, Got, ask, deltas_of_calls

ENDS = {"chat": "[DONE]", "responses": "response.completed", "messages": "message_stop"}


def chat_calls(got: Got) -> Any:
    return got.json["choices"][0]["message"]["tool_calls"]


@pytest.mark.parametrize("wire", WIRES)
def test_line_ends(wire: str) -> None:
    whole = ask(wire=wire, stream=True).body
    assert ask(kit.crlf(), wire=wire, stream=True).body == whole.replace(b"\n", b"\r\n")
    assert ask(kit.cr(), wire=wire, stream=True).body == whole.replace(b"\n", b"\r")
    for seed in range(5):
        mixed = ask(kit.mixed_line_ends(seed), wire=wire, stream=True).body
        assert mixed.splitlines() == whole.splitlines()
        assert mixed == ask(kit.mixed_line_ends(seed), wire=wire, stream=True).body
        assert re.search(rb"[^\r]\n", mixed)
        assert b"\r\n" in mixed
        assert re.search(rb"\r[^\n]", mixed)


@pytest.mark.parametrize("wire", WIRES)
def test_marks_comments_and_fields(wire: str) -> None:
    whole = ask(wire=wire, stream=True).body
    events = whole.split(b"\n\n")[:-1]
    assert ask(kit.bom(), wire=wire, stream=True).body == b"\xef\xbb\xbf" + whole
    comment = b": still working\n"
    expected = b"".join(comment + b"\n" + comment + event + b"\n\n" for event in events)
    assert ask(kit.comments(), wire=wire, stream=True).body == expected
    fields = b"id: 7\nretry: 3000\nx-unknown: 1\nlonely\n"
    expected = b"".join(fields + event + b"\n\n" for event in events)
    assert ask(kit.event_ids(), wire=wire, stream=True).body == expected
    assert ask(kit.no_final_blank(), wire=wire, stream=True).body == whole[:-2]
    no_space = ask(kit.no_space(), wire=wire, stream=True).body
    assert no_space == re.sub(rb"^(event|data): ", rb"\1:", whole, flags=re.MULTILINE)
    no_names = ask(kit.no_event_names(), wire=wire, stream=True).body
    assert no_names == re.sub(rb"^event: .*\n", b"", whole, flags=re.MULTILINE)


@pytest.mark.parametrize("wire", WIRES)
def test_one_event_on_several_lines(wire: str) -> None:
    whole = ask(wire=wire, stream=True)
    got = ask(kit.multi_line(), wire=wire, stream=True)
    joined = ["".join(re.findall(r"^data: (.*)$", event, re.MULTILINE)) for event in got.body.decode().split("\n\n")]
    assert [text if text == "[DONE]" else json.loads(text) for text in joined if text] == whole.events
    assert got.body.count(b"data: ") > 3 * len(whole.events)


@pytest.mark.parametrize("wire", WIRES)
def test_a_torn_event_is_followed_by_whole_ones(wire: str) -> None:
    whole = ask(wire=wire, stream=True).body.split(b"\n\n")
    got = ask(kit.torn_event(3), wire=wire, stream=True).body.split(b"\n\n")
    assert got[:2] + got[3:] == whole[:2] + whole[3:]
    assert whole[2].startswith(got[2])
    with pytest.raises(json.JSONDecodeError):
        json.loads(got[2].partition(b"data: ")[2])


@pytest.mark.parametrize("wire", WIRES)
def test_fragments_are_the_same_bytes_in_other_pieces(wire: str) -> None:
    whole = ask(wire=wire, stream=True)
    got = ask(kit.fragment(3), wire=wire, stream=True)
    assert got.body == whole.body
    assert {len(chunk) for chunk in got.chunks} >= {1, 2, 3}
    assert got.chunks == ask(kit.fragment(3), wire=wire, stream=True).chunks
    assert got.chunks != ask(kit.fragment(4), wire=wire, stream=True).chunks
    at = whole.body.index("ä".encode()) + 1
    split = ask(kit.split((at, 5)), wire=wire, stream=True)
    assert split.body == whole.body
    assert (
        b"".join(split.chunks[: split.chunks.index(next(c for c in split.chunks if c.endswith(b"\xc3"))) + 1])
        == (whole.body[:at])
    )
    assert split.chunks[0] == whole.body[:5]


@pytest.mark.parametrize("wire", WIRES)
def test_ends_of_streams(wire: str) -> None:
    whole = ask(wire=wire, stream=True)
    no_done = ask(kit.no_done(), wire=wire, stream=True)
    assert no_done.events == (whole.events if wire == "responses" else whole.events[:-1])
    if wire != "responses":
        assert b"tool_" in whole.body
        text = ask(kit.no_finish(), wire=wire, stream=True).body.decode()
        assert not re.search(r'"(finish|stop)_reason":"', text)
        assert ENDS[wire] in text
    unknown = ask(kit.unknown_finish("odd"), wire=wire, stream=True).body.decode()
    assert re.search(r'"(finish_reason|stop_reason|status)":"odd"', unknown)


@pytest.mark.parametrize("wire", WIRES)
def test_an_error_after_a_status_of_200(wire: str) -> None:
    whole = ask(wire=wire, stream=True)
    got = ask(kit.error_event(3, "Overloaded", "overloaded_error"), wire=wire, stream=True)
    assert (got.status, got.ended) == (200, True)
    assert got.events[:-1] == whole.events[:3]
    assert "overloaded_error" in json.dumps(got.events[-1])
    plain = ask(kit.error_event(), wire=wire)
    assert plain.status == 200
    assert plain.json["error"]["message"] == "Overloaded"


def test_deltas_of_calls_as_other_servers_send_them() -> None:
    whole = deltas_of_calls(ask(stream=True))
    assert [call["index"] for call in whole] == sorted(call["index"] for call in whole)
    assert all("index" not in call for call in deltas_of_calls(ask(kit.no_index(), stream=True)))
    named = deltas_of_calls(ask(kit.repeated_names(), stream=True))
    assert [call["function"]["name"] for call in named] == [["add", "sub"][call["index"]] for call in whole]
    assert all(
        call["id"] == f"call_1_{call['index']}" for call in deltas_of_calls(ask(kit.repeated_ids(), stream=True))
    )
    mixed = [call["index"] for call in deltas_of_calls(ask(kit.interleaved(), stream=True))]
    assert mixed[:4] == [0, 1, 0, 1]
    assert sorted(mixed) == [call["index"] for call in whole]
    alone = deltas_of_calls(ask(kit.whole_calls(), stream=True))
    assert [call["function"]["arguments"] for call in alone] == [
        '{"a":1,"b":2,"note":"a rather long note"}',
        '{"a":5,"b":4}',
    ]


@pytest.mark.parametrize("wire", ["responses", "messages"])
def test_interleaved_calls_stay_open_side_by_side(wire: str) -> None:
    events = ask(kit.interleaved(), wire=wire, stream=True).events
    key = "output_index" if wire == "responses" else "index"
    kinds = ("response.function_call_arguments.delta", "content_block_delta")
    order = [event[key] for event in events if event["type"] in kinds and event[key] > 0]
    assert order[:3] == [1, 2, 1]
    opened = {event[key] for event in events if event["type"] in ("response.output_item.added", "content_block_start")}
    closed = {event[key] for event in events if event["type"] in ("response.output_item.done", "content_block_stop")}
    assert opened == closed == {0, 1, 2}


def test_contents_in_parts() -> None:
    assert ask(kit.content_parts()).json["choices"][0]["message"]["content"] == [
        {"type": "text", "text": "Let me ädd. "}
    ]
    assert ask(kit.content_parts(), stream=True).events[1]["choices"][0]["delta"]["content"][0]["type"] == "text"
