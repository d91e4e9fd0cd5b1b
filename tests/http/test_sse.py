"""Event streams: the standard's rules, and agreement with a slow, obviously correct parser."""

import random

import pytest

from tests.samples import amount
from ziggurat.http.sse import EventParser, ServerEvent


def read(*chunks: bytes, close: bool = False) -> list[ServerEvent]:
    parser = EventParser()
    events = [event for chunk in chunks for event in parser.feed(chunk)]
    return events + parser.close() if close else events


def texts(*chunks: bytes) -> list[str]:
    return [event.data for event in read(*chunks)]


def plainly(stream: bytes, *, close: bool) -> list[ServerEvent]:
    """Parse a whole stream slowly, line by line, exactly as the standard describes."""
    text = stream.decode("utf-8", "replace")
    text = text[1:] if text[:1] == "\ufeff" else text
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    cut = lines.pop()
    if close:
        lines += [cut, ""] if cut else [""]
    events: list[ServerEvent] = []
    data, kind, last_id = "", "", ""
    for line in lines:
        if line == "":
            if data != "":
                events.append(ServerEvent(kind or "message", data[:-1], last_id))
            data, kind = "", ""
        elif line[0] == ":":
            continue
        else:
            name, colon, value = line.partition(":")
            value = value[1:] if colon and value[:1] == " " else value
            if name == "data":
                data += value + "\n"
            elif name == "event":
                kind = value
            elif name == "id" and "\0" not in value:
                last_id = value
    return events


def test_events_of_one_or_several_lines() -> None:
    assert read(b"event: greeting\ndata: hello\n\n") == [ServerEvent("greeting", "hello")]
    assert texts("data: a\u2028b\u2029c\x0bd\x0ce\x85f\n\n".encode()) == ["a\u2028b\u2029c\x0bd\x0ce\x85f"]
    assert read(b'data: {"a": 1}\n\nevent: ping\n\ndata: x\n\n') == [
        ServerEvent("message", '{"a": 1}'),
        ServerEvent("message", "x"),
    ]
    assert texts(b"data: a\ndata:\ndata\ndata: b\n\n") == ["a\n\n\nb"]
    assert texts(b"data\n\n") == [""]


def test_multi_byte_character_over_chunks() -> None:
    stream = "data: привет 🌍\n\n".encode()
    for cut in range(len(stream)):
        assert texts(stream[:cut], stream[cut:]) == ["привет 🌍"]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_line_ends(end: bytes) -> None:
    stream = end.join([b"event: e", b"data: 1", b"data: 2", b"", b"data: 3", b"", b""])
    expected = [ServerEvent("e", "1\n2"), ServerEvent("message", "3")]
    assert read(stream) == expected
    assert read(*(stream[i : i + 1] for i in range(len(stream)))) == expected


def test_a_carriage_return_ends_a_line_at_once() -> None:
    assert texts(b"data: now\r\r") == ["now"]
    assert texts(b"data: a\r", b"\ndata: b\r", b"\n\r", b"\n") == ["a\nb"]


def test_byte_order_mark_only_at_the_beginning() -> None:
    mark = b"\xef\xbb\xbf"
    for stream in (mark + b"data: a\n\n",):
        for cut in range(len(stream)):
            assert texts(stream[:cut], stream[cut:]) == ["a"]
    assert texts(b"data: a\n\n" + mark + b"data: b\n\n") == ["a"]


def test_comments_fields_and_spaces() -> None:
    parser = EventParser()
    events = parser.feed(b": keep alive\n:\nid: 7\nretry: 250\nretry: soon\nother: x\ndata:  two\ndata:none\n\n")
    assert events == [ServerEvent("message", " two\nnone", "7")]
    assert parser.retry == 250
    assert parser.feed(b"id: a\0b\ndata: x\n\n") == [ServerEvent("message", "x", "7")]
    assert parser.feed(b"id\ndata: x\n\n") == [ServerEvent("message", "x", "")]


def test_the_end_of_a_stream() -> None:
    assert read(b"data: [DONE]") == []
    assert read(b"data: [DONE]", close=True) == [ServerEvent("message", "[DONE]")]
    assert read(b"data: a\n", close=True) == [ServerEvent("message", "a")]
    assert read(b"data: a\n\n", close=True) == [ServerEvent("message", "a")]
    assert read(b"", close=True) == []
    assert read(b"\xef\xbb", close=True) == []


def test_an_event_that_never_ends_is_counted() -> None:
    parser = EventParser()
    for _ in range(100):
        assert parser.feed(b"x" * 1000) == []
    assert parser.held == 100_000
    parser.feed(b"\ndata: a\n\n")
    assert parser.held == 0


PIECES = [
    b"data: ", b"data:", b"data", b"event: x", b"event:", b"id: 1", b"id", b"retry: 5", b": c", b":", b" ", b"x",
    b"\n", b"\n\n", b"\r\n", b"\r", b"\r\n\r\n", b"\n\r", "é".encode(), "🌍".encode(), b"\xff", b"\xf0\x9f",
    b"\xe2\x82", b"\xef\xbb\xbf", b"\0", b'{"a":1}', b"[DONE]", "\u2028".encode(), b"datax: y", b"DATA: z", b"data : w",
]  # fmt: skip


def test_fuzzed_streams_read_as_a_plain_parser_reads_them() -> None:
    draw = random.Random(20)
    for number in range(amount(1_000, 100_000)):
        stream = b"".join(draw.choices(PIECES, k=draw.randint(0, 40)))
        if draw.random() < 0.2:
            stream = b"\xef\xbb\xbf" + stream
        cuts = sorted(draw.randint(0, len(stream)) for _ in range(draw.randint(0, 8)))
        chunks = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
        close = draw.random() < 0.5
        assert read(*chunks, close=close) == plainly(stream, close=close), (number, chunks)
