"""Every quirk does exactly what it promises, seen through a bare socket."""

import asyncio
import contextlib
import gzip
import json
import re
import socket
import zlib
from email.utils import parsedate_to_datetime

import pytest

from tests.testing.server.conftest import CALLS, request_bytes
from ziggurat.core.errors import ConfigurationError
from ziggurat.testing import HandClock
from ziggurat.testing import server as kit
from ziggurat.testing.server import FakeProvider, parsed, quirks
from ziggurat.testing.server.body_quirks import RATE_LIMITS
from ziggurat.testing.server.reply_quirks import BAD_ARGUMENTS

WIRES = ("chat", "responses", "messages")
ENDS = {"chat": "[DONE]", "responses": "response.completed", "messages": "message_stop"}


def chat_calls(got):
    return got.json["choices"][0]["message"]["tool_calls"]


def deltas_of_calls(got):
    chunks = [event for event in got.events if event != "[DONE]"]
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"] or ()]
    return [call for delta in deltas for call in delta.get("tool_calls") or ()]


# -- P1 and P3: cut and slow ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("stream", [False, True])
def test_a_cut_keeps_exactly_so_many_bytes(ask, wire, stream):
    whole = ask(wire=wire, stream=stream)
    for at in (0, 1, 150, len(whole.body) - 1, -1, -20):
        got = ask(kit.cut(at), wire=wire, stream=stream)
        assert got.body == whole.body[:at]
        assert not got.ended
        clean = ask(kit.cut(at, clean=True), wire=wire, stream=stream)
        assert clean.body == whole.body[:at]
        assert clean.ended


@pytest.mark.parametrize("wire", WIRES)
def test_no_end_is_a_stream_without_its_end(ask, wire):
    got = ask(kit.no_end(), wire=wire, stream=True)
    assert got.ended
    assert ask(wire=wire, stream=True).body.startswith(got.body)
    for word in ("[DONE]", "message_delta", "message_stop", "response.completed", '"tool_calls"}'):
        assert word not in got.body.decode()
    assert ask(kit.no_end(), wire=wire).body == ask(wire=wire).body


async def opened(server, **more):
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(request_bytes("chat", **more))
    return reader, writer


async def until(condition):
    while not condition():  # noqa: ASYNC110 - other ends of sockets tell nobody
        await asyncio.sleep(0)


def test_a_stall_rests_at_its_byte_until_it_is_released():
    async def check():
        async with FakeProvider(always="Hello", quirks=[kit.stall(10)]) as server:
            reader, writer = await opened(server)
            await reader.readuntil(b"\r\n\r\n")
            before = await reader.readexactly(10)
            waiting = asyncio.ensure_future(reader.readuntil(b"}}}"))
            for _ in range(50):
                await asyncio.sleep(0)
            assert not waiting.done()
            server.release()
            assert json.loads(before + await waiting)["choices"][0]["message"]["content"] == "Hello"
            writer.close()

    asyncio.run(check())


def test_a_stall_ends_for_who_has_gone():
    async def check():
        async with FakeProvider(always="Hello", quirks=[kit.stall()]) as server:
            reader, writer = await opened(server)
            await reader.readuntil(b"\r\n\r\n")
            assert server.connections == 1
            writer.close()
            await until(lambda: not server.connections)

    asyncio.run(check())


def test_stalls_paces_and_slow_headers_keep_the_time_of_the_clock():
    async def check():
        clock = HandClock()
        async with FakeProvider(always="Hello you", quirks=[kit.stall(3, seconds=60)], clock=clock) as server:
            reader, writer = await opened(server)
            await until(lambda: clock.waiting)
            await clock.advance(59)
            assert clock.waiting
            await clock.advance(1)
            await reader.readuntil(b"}}}")
            server.use(kit.slow_headers(5))
            writer.write(request_bytes("chat"))
            for byte in b"HTTP":
                await until(lambda: clock.waiting)
                assert await reader.read(100) == bytes([byte])
                await clock.advance(5)
            writer.close()
            await until(lambda: not server.connections)
            server.use(kit.pace(2))
            reader, writer = await opened(server, stream=True)
            for _ in range(5):
                await until(lambda: clock.waiting)
                await clock.advance(2)
            assert (await reader.readuntil(b"[DONE]")).count(b"data: ") == 5
            writer.close()

    asyncio.run(check())


# -- P2: streams as they are ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wire", WIRES)
def test_line_ends(ask, wire):
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
def test_marks_comments_and_fields(ask, wire):
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
def test_one_event_on_several_lines(ask, wire):
    whole = ask(wire=wire, stream=True)
    got = ask(kit.multi_line(), wire=wire, stream=True)
    joined = ["".join(re.findall(r"^data: (.*)$", event, re.MULTILINE)) for event in got.body.decode().split("\n\n")]
    assert [text if text == "[DONE]" else json.loads(text) for text in joined if text] == whole.events
    assert got.body.count(b"data: ") > 3 * len(whole.events)


@pytest.mark.parametrize("wire", WIRES)
def test_a_torn_event_is_followed_by_whole_ones(ask, wire):
    whole = ask(wire=wire, stream=True).body.split(b"\n\n")
    got = ask(kit.torn_event(3), wire=wire, stream=True).body.split(b"\n\n")
    assert got[:2] + got[3:] == whole[:2] + whole[3:]
    assert whole[2].startswith(got[2])
    with pytest.raises(json.JSONDecodeError):
        json.loads(got[2].partition(b"data: ")[2])


@pytest.mark.parametrize("wire", WIRES)
def test_fragments_are_the_same_bytes_in_other_pieces(ask, wire):
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
def test_ends_of_streams(ask, wire):
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
def test_an_error_after_a_status_of_200(ask, wire):
    whole = ask(wire=wire, stream=True)
    got = ask(kit.error_event(3, "Overloaded", "overloaded_error"), wire=wire, stream=True)
    assert (got.status, got.ended) == (200, True)
    assert got.events[:-1] == whole.events[:3]
    assert "overloaded_error" in json.dumps(got.events[-1])
    plain = ask(kit.error_event(), wire=wire)
    assert plain.status == 200
    assert plain.json["error"]["message"] == "Overloaded"


def test_deltas_of_calls_as_other_servers_send_them(ask):
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
def test_interleaved_calls_stay_open_side_by_side(ask, wire):
    events = ask(kit.interleaved(), wire=wire, stream=True).events
    key = "output_index" if wire == "responses" else "index"
    kinds = ("response.function_call_arguments.delta", "content_block_delta")
    order = [event[key] for event in events if event["type"] in kinds and event[key] > 0]
    assert order[:3] == [1, 2, 1]
    opened = {event[key] for event in events if event["type"] in ("response.output_item.added", "content_block_start")}
    closed = {event[key] for event in events if event["type"] in ("response.output_item.done", "content_block_stop")}
    assert opened == closed == {0, 1, 2}


def test_contents_in_parts(ask):
    assert ask(kit.content_parts()).json["choices"][0]["message"]["content"] == [
        {"type": "text", "text": "Let me ädd. "}
    ]
    assert ask(kit.content_parts(), stream=True).events[1]["choices"][0]["delta"]["content"][0]["type"] == "text"


# -- P4 to P6: refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", RATE_LIMITS)
def test_every_form_of_retry_after(ask, form):
    got = ask(kit.rate_limited(form))
    assert got.status == 429
    told = RATE_LIMITS[form]
    if isinstance(told, tuple):
        assert [pair for pair in got.headers if "retry" in pair[0] or "ratelimit" in pair[0]] == list(told)
    else:
        assert parsedate_to_datetime(got.header("retry-after"))


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("code", [400, 401, 403, 404, 408, 413, 429, 500, 503, 529, 599])
def test_statuses(ask, wire, code):
    got = ask(kit.status(code, "No.", retry_after="7"), wire=wire)
    assert (got.status, got.header("retry-after"), got.json["error"]["message"]) == (code, "7", "No.")
    assert ("type" in got.json) == (wire == "messages")


def test_refusals_with_a_meaning(ask):
    assert ask(kit.context_overflow()).json["error"]["code"] == "context_length_exceeded"
    assert "prompt is too long" in ask(kit.context_overflow(), wire="messages").json["error"]["message"]
    assert ask(kit.status(400, error_code="content_filter")).json["error"]["code"] == "content_filter"
    got = ask(kit.redirect("http://127.0.0.1:9/elsewhere"))
    assert (got.status, got.header("location")) == (307, "http://127.0.0.1:9/elsewhere")


# -- P7 and P8: calls -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", BAD_ARGUMENTS)
def test_bad_arguments_are_sent_as_they_are(ask, form):
    good = '{"a":1,"b":2,"note":"a rather long note"}'
    made = BAD_ARGUMENTS[form]
    wanted = made if isinstance(made, str) else made(good)
    quirk = kit.bad_arguments(form)
    assert chat_calls(ask(quirk))[0]["function"]["arguments"] == wanted
    pieces = [call for call in deltas_of_calls(ask(quirk, stream=True)) if call["index"] == 0]
    assert "".join(call["function"]["arguments"] for call in pieces) == wanted
    assert ask(quirk, wire="responses").json["output"][1]["arguments"] == wanted
    body = ask(quirk, wire="messages").body.decode()
    assert (f'"input":{wanted or "{}"}' in body) or json.dumps(wanted, ensure_ascii=False) in body


def test_arguments_of_any_size(ask):
    arguments = chat_calls(ask(kit.huge_arguments(0.5)))[0]["function"]["arguments"]
    assert len(json.loads(arguments)["filler"]) == 500_000
    for wire in WIRES:
        got = ask(kit.huge_arguments(10), wire=wire, stream=True)
        assert got.ended
        assert len(got.body) > 20_000_000
    arguments = chat_calls(ask(kit.deep_arguments()))[0]["function"]["arguments"]
    assert arguments.count("[") == arguments.count("]") == 100_000
    assert b"[" * 100_000 in ask(kit.deep_arguments(), wire="messages").body


def test_names_and_ids(ask):
    for wire in WIRES:
        assert "no_such_tool" in ask(kit.unknown_tool(), wire=wire).body.decode()
        assert '"name":""' in ask(kit.empty_name(), wire=wire, stream=True).body.decode()
        assert ask(kit.same_ids("one"), wire=wire).body.decode().count('"one"') == 2
        reused = ask(kit.reused_ids(), wire=wire).body.decode()
        assert '"call_1"' in reused
        assert '"call_2"' in reused
    assert ["id" in call for call in chat_calls(ask(kit.no_ids()))] == [False, False]
    assert [call["id"] for call in chat_calls(ask(kit.no_ids("null")))] == [None, None]
    assert all(call.get("id", "") == "" for call in deltas_of_calls(ask(kit.no_ids("empty"), stream=True)))
    assert "call_id" not in ask(kit.no_ids(), wire="responses", stream=True).body.decode()
    assert ["id" in block for block in ask(kit.no_ids(), wire="messages").json["content"]] == [False] * 3


def test_ten_thousand_calls(ask):
    calls = chat_calls(ask(kit.many_calls()))
    assert len({call["id"] for call in calls}) == len(calls) == 10_000
    assert len(ask(kit.many_calls(), wire="messages").json["content"]) == 10_000
    assert len(deltas_of_calls(ask(kit.many_calls(300), stream=True))) == 300


def test_arguments_that_are_objects_null_or_cut(ask):
    assert chat_calls(ask(kit.object_arguments()))[1]["function"]["arguments"] == {"a": 5, "b": 4}
    assert chat_calls(ask(kit.null_arguments()))[0]["function"]["arguments"] is None
    streamed = deltas_of_calls(ask(kit.null_arguments(), stream=True))
    assert [call["function"]["arguments"] for call in streamed] == [None, None]
    assert all(block["input"] is None for block in ask(kit.null_arguments(), wire="messages").json["content"][1:])
    got = ask(kit.out_of_tokens())
    assert got.json["choices"][0]["finish_reason"] == "length"
    assert chat_calls(got)[1]["function"]["arguments"] == '{"a":5'
    assert ask(kit.out_of_tokens(), wire="responses").json["status"] == "incomplete"
    assert ask(kit.out_of_tokens(), wire="messages").json["stop_reason"] == "max_tokens"


# -- P9: bodies -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wire", WIRES)
def test_usage_that_is_wrong(ask, wire):
    for stream in (False, True):
        options = {"stream": stream, "stream_options": {"include_usage": True}}
        assert "usage" not in ask(kit.no_usage(), wire=wire, **options).body.decode()
        counts = re.findall(
            r'"\w+put_tokens":(-?\d+)|_tokens":(-?\d+)', ask(kit.negative_usage(), wire=wire, **options).body.decode()
        )
        assert "-1" in {count for pair in counts for count in pair}
    events = ask(kit.usage_everywhere(), wire=wire, stream=True).events
    usages = [event["usage"] for event in events if event != "[DONE]" and isinstance(event.get("usage"), dict)]
    assert len(usages) > 5
    key = "completion_tokens" if wire == "chat" else "output_tokens"
    assert [usage[key] for usage in usages][:5] == [1, 2, 3, 4, 5]


def test_choices_that_are_not_there(ask):
    for quirk, value in ((kit.choices_null(), None), (kit.choices_empty(), [])):
        assert ask(quirk).json["choices"] == value
        assert ask(quirk, wire="responses").json["output"] == value
        assert ask(quirk, wire="messages").json["content"] == value
        events = ask(quirk, stream=True).events[:-1]
        assert [event["choices"] == value for event in events[:4]] == [False, True, False, True]
        assert [event for event in events if event["choices"] != value] == ask(stream=True).events[:-1]


@pytest.mark.parametrize("wire", WIRES)
def test_what_nobody_knows(ask, wire):
    whole = ask(wire=wire, stream=True)
    got = ask(kit.unknown_events(), wire=wire, stream=True)
    assert [event for event in got.events if "x_unknown" not in json.dumps(event)] == whole.events
    assert len(got.events) > len(whole.events) + 5
    for stream in (False, True):
        assert '"x_unknown":{"since":2031' in ask(kit.unknown_fields(), wire=wire, stream=stream).body.decode()
    wrong = ask(kit.wrong_types(), wire=wire)
    assert wrong.json["id"] == 7
    assert isinstance(next(value for key, value in wrong.json["usage"].items() if key.endswith("tokens")), str)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("stream", [False, True])
def test_bodies(ask, wire, stream):
    def got(quirk):
        return ask(quirk, wire=wire, stream=stream)

    whole = ask(wire=wire, stream=stream)
    page = got(kit.html())
    assert (page.status, page.header("content-type")) == (200, "text/html; charset=utf-8")
    assert page.body.startswith(b"<!DOCTYPE html>")
    assert got(kit.html(502)).status == 502
    empty = got(kit.empty_body())
    assert (empty.status, empty.body, empty.ended) == (200, b"", True)
    assert got(kit.content_type("text/csv")).header("content-type") == "text/csv"
    assert got(kit.content_type("")).header("content-type") is None
    assert got(kit.content_type()).body == whole.body
    packed = got(kit.gzip_body())
    assert (packed.header("content-encoding"), gzip.decompress(packed.body)) == ("gzip", whole.body)
    half = got(kit.half_json())
    assert (half.body, half.ended) == (whole.body[: len(whole.body) // 2], True)
    at = len(whole.body) * 3 // 4
    assert got(kit.invalid_utf8()).body == whole.body[:at] + b"\xff\xfe\xc3" + whole.body[at:]
    deep = b'{"choices":' * 100_000 + b"1" + b"}" * 100_000
    assert got(kit.deep_body()).body == (b"data: " + deep + b"\n\n" + whole.body if stream else deep)
    assert got(kit.plain_for_stream()).body == ask(wire=wire, stream=False).body
    big = got(kit.big_text(1))
    assert big.ended
    assert len(big.body) > 900_000
    assert "add" not in got(kit.empty_reply()).body.decode()


def test_a_bomb_is_small_until_it_is_unpacked(ask):
    got = ask(kit.gzip_bomb(64))
    assert len(got.body) < 200_000
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
    size, data = 0, got.body
    while data and not unpacker.eof:
        out = unpacker.decompress(data, 1 << 20)
        size, data, last = size + len(out), unpacker.unconsumed_tail, out
    assert unpacker.eof  # the checksum is right
    assert size > 64_000_000
    assert last.endswith(b"}")
    small = ask(kit.gzip_bomb(1), stream=True)
    assert gzip.decompress(small.body) == b":" + b" " * 1_000_000 + b"\n\n" + ask(stream=True).body


# -- P10: connections -------------------------------------------------------------------------------------------------


def test_connections_that_go_wrong(ask):
    whole = ask()
    got = ask(kit.reset(20))
    assert got.was_reset
    assert (got.body, got.header("content-length")) == (whole.body[:20], str(len(whole.body)))
    assert ask(kit.hang_up()).raw == b""
    assert not ask(kit.hang_up()).was_reset
    assert ask(kit.hang_up(hard=True)).was_reset
    assert ask(kit.not_http()).raw.startswith(b"\x15\x03\x01")
    open_ended = ask(kit.until_close())
    assert (open_ended.sent, open_ended.header("connection")) == (whole.body, "close")
    assert open_ended.header("content-length") is None
    long = ask(kit.wrong_length(50))
    assert (long.body, long.header("content-length")) == (whole.body, str(len(whole.body) + 50))
    early = ask(kit.interim())
    assert early.status == 103
    assert early.sent == whole.raw


@pytest.mark.parametrize("on_next", [False, True])
def test_a_connection_that_is_kept_in_name_only(on_next):
    with (
        FakeProvider(model=CALLS, quirks=[kit.stale(on_next)]) as server,
        socket.create_connection(("127.0.0.1", server.port)) as client,
    ):
        client.sendall(request_bytes("chat"))
        got = b""
        while not got.endswith(b"}}}"):
            got += client.recv(1 << 16)
        assert b"connection: keep-alive" in got
        if on_next:
            client.sendall(request_bytes("chat"))
            with contextlib.suppress(ConnectionResetError):
                assert client.recv(100) == b""
        else:
            assert client.recv(100) == b""
        assert len(server.requests) == 1


# -- together, limited, listed ----------------------------------------------------------------------------------------


def test_quirks_are_put_together(ask):
    whole = ask(stream=True).body
    got = ask(kit.cut(60), kit.crlf(), kit.bom(), stream=True)
    assert got.body == b"\xef\xbb\xbf" + whole.replace(b"\n", b"\r\n")[:60]
    assert ask(kit.gzip_body(), kit.cut(30)).body == ask(kit.gzip_body()).body[:30]
    assert ask(kit.status(503), kit.content_type("text/html")).header("content-type") == "text/html"


def test_quirks_for_some_requests(post):
    some = [kit.status(500).on(2), kit.status(429).after(3), kit.status(418).when("teapot")]
    some.append(kit.status(402).when(lambda seen: seen.wire == "messages"))
    with FakeProvider(always="Hello", quirks=some) as server:
        assert post(server, text="teapot").status == 418
        assert [post(server).status for _ in range(3)] == [500, 200, 429]
        server.use(*some)
        assert post(server, "messages").status == 402


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("cut=120", "cut(at_byte=120)"),
        ("cut=-5,clean=true", "cut(at_byte=-5, clean=True)"),
        ("crlf", "crlf()"),
        ("split=10+20", "split(at_bytes=(10, 20))"),
        ("status=429,retry_after=abc,first=3", "status(code=429, retry_after='abc').first(3)"),
        ("status=500,on=2+4", "status(code=500).on(2, 4)"),
        ("crlf,after=1", "crlf().after(1)"),
        ("bad_arguments=nan", "bad_arguments(form='nan')"),
        ("huge_arguments=0.5", "huge_arguments(megabytes=0.5)"),
        ("html,when=hi", "html().when('hi')"),
    ],
)
def test_quirks_on_a_command_line(text, name):
    assert repr(parsed(text)) == name


@pytest.mark.parametrize(
    "text", ["nothing", "cut", "cut=a,b=1", "crlf=1", "status=500,first=x", "bad_arguments=odd", ""]
)
def test_quirks_that_cannot_be_are_refused(text):
    with pytest.raises(ConfigurationError):
        parsed(text)


@pytest.mark.parametrize("make", [kit.bad_arguments, kit.rate_limited, kit.no_ids])
def test_forms_that_there_are_not_are_refused(make):
    with pytest.raises(ConfigurationError, match="there is no form 'odd'"):
        make("odd")


NEEDED = {"cut": "5", "pace": "0", "status": "500", "redirect": "http://127.0.0.1:9/", "stall": "5,seconds=0"}
HEAVY = {"huge_arguments": "0.1", "big_text": "0.1", "gzip_bomb": "1", "many_calls": "20", "slow_headers": "0"}


@pytest.mark.parametrize("entry", quirks(), ids=lambda entry: entry.name)
def test_every_quirk_is_listed_said_and_answers(ask, entry):
    assert entry.name in kit.__all__
    assert entry.says.endswith(".")
    assert entry.good.endswith(".")
    given = (NEEDED | HEAVY).get(entry.name)
    quirk = parsed(entry.name + (f"={given}" if given else ""))
    for wire in WIRES:
        for stream in (False, True):
            ask(quirk, wire=wire, stream=stream)
