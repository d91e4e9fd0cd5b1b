"""Tests of the fake provider without quirks: three formats, plain and streamed, from one script."""

import asyncio
import json
import socket
import urllib.error
import urllib.request
from typing import Any

import pytest
from msgspec import DecodeError

from tests.provider.client import WIRES, post, request_bytes
from tests.turns import until
from ziggurat import ConfigurationError, ModelResponse, Usage
from ziggurat.errors import ModelError
from ziggurat.fake_provider import FakeProvider, cut, status
from ziggurat.messages import Thinking, assistant, tool_call
from ziggurat.models.scripted import Piece
from ziggurat.testing import HandClock, Pause, ScriptedModel, assert_no_leaks

WHOLE = ModelResponse(
    assistant(Thinking("hm", "proof"), "Now ädd.", tool_call("add", a=1), tool_call("add", a=2)),
    "tool_calls",
    Usage(input=20, output=9, cache_read=4, cache_write=2, reasoning=3, requests=1),
)


def calls_in(wire: str, body: Any) -> list[tuple[str, str, str]]:
    if wire == "chat":
        calls = body["choices"][0]["message"]["tool_calls"]
        return [(call["id"], call["function"]["name"], call["function"]["arguments"]) for call in calls]
    if wire == "responses":
        items = [item for item in body["output"] if item["type"] == "function_call"]
        return [(item["call_id"], item["name"], item["arguments"]) for item in items]
    blocks = [block for block in body["content"] if block["type"] == "tool_use"]
    return [(block["id"], block["name"], json.dumps(block["input"], separators=(",", ":"))) for block in blocks]


@pytest.mark.parametrize("wire", WIRES)
def test_a_plain_reply_holds_all_that_was_said(wire: str) -> None:
    with FakeProvider(WHOLE) as server:
        got = post(server, wire)
    assert (got.status, got.header("content-type"), got.ended) == (200, "application/json", True)
    assert calls_in(wire, got.json) == [("call_1_0", "add", '{"a":1}'), ("call_1_1", "add", '{"a":2}')]
    assert got.json["model"] == "m-1"
    assert "Now ädd." in got.body.decode()
    assert "hm" in got.body.decode()


def test_usage_is_told_as_each_provider_tells_it() -> None:
    with FakeProvider(model=ScriptedModel(always=WHOLE)) as server:
        chat, responses, messages = (post(server, wire).json["usage"] for wire in WIRES)
    assert (chat["prompt_tokens"], chat["completion_tokens"], chat["total_tokens"]) == (20, 9, 29)
    assert chat["prompt_tokens_details"] == {"cached_tokens": 4}
    assert chat["completion_tokens_details"] == {"reasoning_tokens": 3}
    assert (responses["input_tokens"], responses["output_tokens"]) == (20, 9)
    assert messages == {
        "input_tokens": 14,
        "cache_creation_input_tokens": 2,
        "cache_read_input_tokens": 4,
        "output_tokens": 9,
    }


def test_a_stream_of_chat_completions() -> None:
    with FakeProvider(WHOLE) as server:
        got = post(server, stream=True, stream_options={"include_usage": True})
    assert got.header("content-type") == "text/event-stream; charset=utf-8"
    assert got.ended
    *chunks, done = got.events
    assert done == "[DONE]"
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    assert "".join(delta.get("content") or "" for delta in deltas) == "Now ädd."
    assert "".join(delta.get("reasoning_content") or "" for delta in deltas) == "hm"
    pieces = [call for delta in deltas for call in delta.get("tool_calls", ())]
    assert [piece["id"] for piece in pieces if "id" in piece] == ["call_1_0", "call_1_1"]
    assert "".join(piece["function"]["arguments"] for piece in pieces if piece["index"] == 1) == '{"a":2}'
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks if chunk["choices"]][-1] == "tool_calls"
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["prompt_tokens"] == 20
    assert all(chunk["usage"] is None for chunk in chunks[:-1])


def test_usage_of_a_stream_is_told_only_to_who_asks() -> None:
    with FakeProvider("Hello") as server:
        assert all("usage" not in chunk for chunk in post(server, stream=True).events[:-1])


def test_a_stream_of_responses() -> None:
    with FakeProvider(WHOLE) as server:
        got = post(server, "responses", stream=True)
    events = got.events
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [event["type"] for event in events][:2] == ["response.created", "response.in_progress"]
    last = events[-1]
    assert last["type"] == "response.completed"
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert done == last["response"]["output"]
    assert [item["type"] for item in done] == ["reasoning", "message", "function_call", "function_call"]
    assert done[0]["encrypted_content"] == "proof"
    text = [event["delta"] for event in events if event["type"] == "response.output_text.delta"]
    assert "".join(text) == "Now ädd."
    names = [line[7:] for line in got.body.decode().split("\n") if line.startswith("event: ")]
    assert names == [event["type"] for event in events]


def test_a_stream_of_messages() -> None:
    with FakeProvider(WHOLE) as server:
        events = post(server, "messages", stream=True).events
    kinds = [event["type"] for event in events]
    assert kinds[:2] == ["message_start", "ping"]
    assert kinds[-2:] == ["message_delta", "message_stop"]
    opened = [event["index"] for event in events if event["type"] == "content_block_start"]
    closed = [event["index"] for event in events if event["type"] == "content_block_stop"]
    assert opened == closed == [0, 1, 2, 3]
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    assert {"type": "signature_delta", "signature": "proof"} in deltas
    assert "".join(delta["text"] for delta in deltas if delta["type"] == "text_delta") == "Now ädd."
    assert events[-2]["delta"]["stop_reason"] == "tool_use"


@pytest.mark.parametrize("wire", WIRES)
def test_rules_see_the_request_in_one_form(wire: str) -> None:
    rules = [("weather", tool_call("weather", city="Rome"))]
    with FakeProvider(rules=rules, always="No idea.") as server:
        assert calls_in(wire, post(server, wire, text="the weather?").json)[0][1] == "weather"
        assert b"No idea." in post(server, wire).body


def test_what_a_script_raises_is_an_error_of_the_format() -> None:
    wrong = ModelError("slow down", kind="rate_limited", retry_after=2.5)
    with FakeProvider(wrong, ModelError("Overloaded", kind="overloaded", status=529), ValueError("odd")) as server:
        got = post(server)
        assert (got.status, got.header("retry-after")) == (429, "2.5")
        assert got.json["error"]["message"] == "slow down"
        got = post(server, "messages")
        assert (got.status, got.json["type"], got.json["error"]["type"]) == (529, "error", "overloaded_error")
        assert post(server, "responses").status == 500
        got = post(server, "responses")
        assert got.status == 500
        assert "run out" in got.json["error"]["message"]


@pytest.mark.parametrize("wire", WIRES)
def test_an_error_in_mid_stream_follows_what_was_said(wire: str) -> None:
    broken: list[Piece] = ["Hel", "lo", ModelError("Overloaded", kind="overloaded")]
    with FakeProvider(broken) as server:
        got = post(server, wire, stream=True)
    assert got.status == 200
    assert "Hel" in got.body.decode()
    assert "Overloaded" in json.dumps(got.events[-1])
    assert all(end not in got.body for end in (b"[DONE]", b"message_stop", b"response.completed"))


@pytest.mark.parametrize("wire", WIRES)
def test_a_lost_connection_in_a_script_is_a_reset(wire: str) -> None:
    with FakeProvider(["Hel", ConnectionError("lost")]) as server:
        got = post(server, wire, stream=True)
    assert got.was_reset
    assert b"Hel" in got.body
    with FakeProvider(ConnectionError("lost")) as server:
        assert post(server, wire).raw == b""


def test_requests_are_kept_and_show_no_key() -> None:
    with FakeProvider("Hello") as server:
        post(server)
        seen = server.last
    assert (seen.number, seen.method, seen.path) == (1, "POST", "/v1/chat/completions")
    assert (seen.wire, seen.stream) == ("chat", False)
    assert seen.json["messages"] == [{"role": "user", "content": "hi"}]
    assert seen.header("Authorization") == "Bearer sk-secret"
    assert "sk-secret" not in repr(seen)
    assert "sk-secret" not in repr(server.requests)


def test_any_prefix_and_the_list_of_models() -> None:
    with FakeProvider(always="Hello") as server:
        with urllib.request.urlopen(server.url + "/v1/models") as reply:
            assert json.load(reply)["data"][0]["id"] == "scripted"
        data = json.dumps({"model": "m", "messages": []}).encode()
        asked = urllib.request.Request(server.url + "/openai/deployments/m/chat/completions?api-version=1", data)
        with urllib.request.urlopen(asked) as reply:
            assert json.load(reply)["choices"][0]["message"]["content"] == "Hello"
        with pytest.raises(urllib.error.HTTPError, match="404") as raised:
            urllib.request.urlopen(server.url + "/v2/nothing")
        raised.value.close()


@pytest.mark.parametrize("body", [b"{", b"[]", b"{}", b'{"model":"m"}', b'{"model":"m","messages":7}'])
def test_what_every_provider_would_refuse_is_refused(body: bytes) -> None:
    with FakeProvider(always="Hello") as server:
        for path in ("/v1/chat/completions", "/v1/responses", "/v1/messages"):
            with pytest.raises(urllib.error.HTTPError, match="400") as raised:
                urllib.request.urlopen(urllib.request.Request(server.url + path, body))
            assert json.load(raised.value)["error"]["message"]
            raised.value.close()


def test_the_script_is_not_asked_for_a_request_that_fails() -> None:
    with FakeProvider("Hello", quirks=[status(503).first(2)]) as server:
        assert [post(server).status for _ in range(3)] == [503, 503, 200]


def test_a_reply_that_was_broken_is_given_again() -> None:
    with FakeProvider("Hello", "Bye", quirks=[cut(5).first(2)]) as server:
        assert [post(server).ended for _ in range(2)] == [False, False]
        assert "Hello" in post(server).body.decode()
        assert "Bye" in post(server).body.decode()


def test_quirks_are_changed_while_it_runs() -> None:
    forgotten_brackets: Any = cut
    with FakeProvider(always="Hello") as server:
        assert post(server).status == 200
        server.use(status(500).first(1))
        assert repr(status(500).first(1)) == "status(500).first(1)"
        assert [post(server).status for _ in range(2)] == [500, 200]
        with pytest.raises(ConfigurationError, match="is not a quirk"):
            server.use(forgotten_brackets)


def test_connections_are_kept_and_requests_may_come_in_pieces() -> None:
    data = request_bytes("chat")
    with FakeProvider(always="Hello") as server, socket.create_connection(("127.0.0.1", server.port)) as client:
        for _ in range(2):
            for at in range(0, len(data), 40):
                client.sendall(data[at : at + 40])
            got = b""
            while not got.endswith(b"}}}"):
                got += client.recv(1 << 16)
        assert len(server.requests) == 2
        assert server.connections == 1


def test_chunked_and_expecting_requests_are_understood() -> None:
    body = b'{"model":"m","messages":[]}'
    head = b"POST /v1/chat/completions HTTP/1.1\r\nexpect: 100-continue\r\ntransfer-encoding: chunked\r\n\r\n"
    with FakeProvider(always="Hello") as server, socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(head)
        assert client.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 200 OK\r\n")
        assert server.last.body == body


@pytest.mark.parametrize("garbage", [b"hello\r\n", b"POST /v1/messages HTTP/1.1\r\ncontent-length: x\r\n\r\n"])
def test_what_is_no_request_is_refused(garbage: bytes) -> None:
    with FakeProvider(always="Hello") as server, socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(garbage)
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 400 ")
        assert not server.requests


async def test_pauses_of_a_script_are_rests_in_the_stream() -> None:
    clock = HandClock()
    async with FakeProvider(["one ", Pause(30), "two"], clock=clock) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(request_bytes("chat", stream=True))
        head = await reader.readuntil(b"one ")
        assert b"two" not in head
        await until(lambda: clock.waiting)
        await clock.advance(30)
        assert b"two" in await reader.readuntil(b"[DONE]")
        writer.close()


async def test_nothing_is_left_behind() -> None:
    with assert_no_leaks(), FakeProvider(always="Hello") as server:
        post(server)
    with (
        assert_no_leaks(),
        FakeProvider(always="Hello") as server,
        socket.create_connection(("127.0.0.1", server.port)) as client,
    ):
        client.sendall(b"POST /v1/mess")  # a request that never ends
        port = server.port
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))

    async def check() -> None:
        async with assert_no_leaks():
            async with FakeProvider(always="Hello") as server:
                reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            assert await reader.read() == b""
            writer.close()
            await writer.wait_closed()

    await check()


def test_mistakes_are_told_where_they_are_made() -> None:
    with pytest.raises(ConfigurationError, match="not both"):
        FakeProvider("Hello", model=ScriptedModel("Hello"))
    with pytest.raises(ConfigurationError, match="needs replies"):
        FakeProvider()
    server = FakeProvider("Hello")
    with pytest.raises(ConfigurationError, match="is not running"):
        _ = server.url
    with pytest.raises(ConfigurationError, match="no request"):
        _ = server.last
    with server:
        with pytest.raises(ConfigurationError, match="already running"):
            server.__enter__()
        with pytest.raises(OSError), FakeProvider("Hello", port=server.port):
            pass
        post(server)
        assert server.last.json
    with pytest.raises(DecodeError):
        _ = type(server.last)(1, "GET", "/").json
