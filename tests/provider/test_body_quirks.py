"""Tests of the quirks of status, headers and body, through a plain socket."""

import gzip
import json
import re
import zlib
from email.utils import parsedate_to_datetime
from typing import Any

import pytest

from tests import provider as kit
from tests.provider.body_quirks import RATE_LIMITS
from tests.provider.client import WIRES, Got, ask
from ziggurat.fake_provider import Quirk


@pytest.mark.parametrize("form", RATE_LIMITS)
def test_every_form_of_retry_after(form: str) -> None:
    got = ask(kit.rate_limited(form))
    assert got.status == 429
    told = RATE_LIMITS[form]
    if isinstance(told, tuple):
        assert [pair for pair in got.headers if "retry" in pair[0] or "ratelimit" in pair[0]] == list(told)
    else:
        assert parsedate_to_datetime(got.header("retry-after") or "").timestamp() > 0


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("code", [400, 401, 403, 404, 408, 413, 429, 500, 503, 529, 599])
def test_statuses(wire: str, code: int) -> None:
    got = ask(kit.status(code, "No.", retry_after="7"), wire=wire)
    assert (got.status, got.header("retry-after"), got.json["error"]["message"]) == (code, "7", "No.")
    assert ("type" in got.json) == (wire == "messages")


def test_refusals_with_a_meaning() -> None:
    assert ask(kit.context_overflow()).json["error"]["code"] == "context_length_exceeded"
    assert "prompt is too long" in ask(kit.context_overflow(), wire="messages").json["error"]["message"]
    assert ask(kit.status(400, error_code="content_filter")).json["error"]["code"] == "content_filter"
    got = ask(kit.redirect("http://127.0.0.1:9/elsewhere"))
    assert (got.status, got.header("location")) == (307, "http://127.0.0.1:9/elsewhere")


@pytest.mark.parametrize("wire", WIRES)
def test_usage_that_is_wrong(wire: str) -> None:
    for stream in (False, True):
        options: dict[str, Any] = {"stream": stream, "stream_options": {"include_usage": True}}
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


def test_choices_that_are_not_there() -> None:
    for quirk, value in ((kit.choices_null(), None), (kit.choices_empty(), [])):
        assert ask(quirk).json["choices"] == value
        assert ask(quirk, wire="responses").json["output"] == value
        assert ask(quirk, wire="messages").json["content"] == value
        events = ask(quirk, stream=True).events[:-1]
        assert [event["choices"] == value for event in events[:4]] == [False, True, False, True]
        assert [event for event in events if event["choices"] != value] == ask(stream=True).events[:-1]


@pytest.mark.parametrize("wire", WIRES)
def test_what_nobody_knows(wire: str) -> None:
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
def test_bodies(wire: str, stream: bool) -> None:
    def got(quirk: Quirk) -> Got:
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


def test_a_bomb_is_small_until_it_is_unpacked() -> None:
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
