"""Quirks of status, headers and body: what is answered instead of a reply, and how the reply is encoded."""

import gzip
import time
import zlib
from collections.abc import Mapping
from email.utils import formatdate

from msgspec.structs import replace

from tests.provider.catalogue import quirk_maker
from ziggurat import fake_provider
from ziggurat.core.errors import ConfigurationError
from ziggurat.testing.server.loopback import Headers, HttpResponse, ReceivedRequest, error_answer
from ziggurat.testing.server.quirk import Quirk

_PAGE = b"<!DOCTYPE html>\n<html><head><title>502 Bad Gateway</title></head><body>502 Bad Gateway</body></html>\n"


def _date(seconds: float) -> str:
    return formatdate(time.time() + seconds, usegmt=True)


RATE_LIMITS: Mapping[str, Headers | float] = {
    "none": (),
    "integer": (("retry-after", "2"),),
    "zero": (("retry-after", "0"),),
    "fraction": (("retry-after", "1.5"),),
    "huge": (("retry-after", "1000000000"),),
    "negative": (("retry-after", "-5"),),
    "garbage": (("retry-after", "abc"),),
    "empty": (("retry-after", ""),),
    "infinite": (("retry-after", "inf"),),
    "two": (("retry-after", "2"), ("retry-after", "7")),
    "milliseconds": (("retry-after-ms", "1500"),),
    "both": (("retry-after-ms", "1500"), ("retry-after", "2")),
    "date": 30.0,
    "past": -30.0,
    "openai": (
        ("x-ratelimit-limit-requests", "60"),
        ("x-ratelimit-remaining-requests", "0"),
        ("x-ratelimit-reset-requests", "1m2.5s"),
        ("x-ratelimit-remaining-tokens", "1000"),
        ("x-ratelimit-reset-tokens", "20ms"),
    ),
    "anthropic": (
        ("retry-after", "3"),
        ("anthropic-ratelimit-requests-remaining", "0"),
        ("anthropic-ratelimit-requests-reset", "2099-01-01T00:00:00Z"),
    ),
    "never": (("x-should-retry", "false"), ("retry-after", "1")),
}
"""The forms of `rate_limited`: headers, or the offset of a date from now in seconds."""


status = quirk_maker(
    "refusal", good="raises an error classified by what to do; retries 408, 409, 429 and 5xx and no other."
)(fake_provider.status)


@quirk_maker("rate limit")
def rate_limited(form: str = "integer") -> Quirk:
    """Answers 429 with the time to wait in this form.

    Good client: waits at least that long if the form is valid, but not past its deadline.
    """
    if form not in RATE_LIMITS:
        raise ConfigurationError(f"there is no form {form!r} of rate_limited; there are {', '.join(RATE_LIMITS)}")

    def instead(seen: ReceivedRequest) -> HttpResponse:
        limit = RATE_LIMITS[form]
        headers = limit if isinstance(limit, tuple) else (("retry-after", _date(limit)),)
        return error_answer(seen.wire, 429, headers=headers)

    return Quirk(instead=instead)


@quirk_maker("outage")
def burst(count: int = 3, code: int = 503) -> Quirk:
    """Answers the first requests with this status, all later ones from the script.

    Good client: retries with growing pauses and within a budget, and the run continues.
    """
    return status(code).first(count)


@quirk_maker("refusal")
def context_overflow() -> Quirk:
    """Answers 400: the conversation is too long, in the wording of the format.

    Good client: distinguishes it from other bad requests, so that the conversation can be shortened.
    """

    def instead(seen: ReceivedRequest) -> HttpResponse:
        if seen.wire == "messages":
            return error_answer(seen.wire, 400, "prompt is too long: 210041 tokens > 200000 maximum")
        text = (
            "This model's maximum context length is 128000 tokens. However, your messages resulted in 210041 tokens. "
            "Please reduce the length of the messages."
        )
        return error_answer(seen.wire, 400, text, code="context_length_exceeded")

    return Quirk(instead=instead)


@quirk_maker("body")
def html(code: int = 200) -> Quirk:
    """Answers with an HTML page instead of the reply, with this status.

    Good client: raises a typed error that shows the start of the page.
    """
    return Quirk(instead=lambda _: HttpResponse(code, (("content-type", "text/html; charset=utf-8"),), (_PAGE,)))


@quirk_maker("body")
def redirect(location: str, code: int = 307) -> Quirk:
    """Redirects the client to another location.

    Good client: sends no key to another host.
    """
    return Quirk(instead=lambda _: HttpResponse(code, (("location", location),)))


@quirk_maker("body")
def empty_body() -> Quirk:
    """Answers 200 with the right content type and no body.

    Good client: raises a typed error.
    """
    return Quirk(answer=lambda answer, _: replace(answer, pieces=()), breaks=True)


@quirk_maker("body")
def content_type(value: str = "text/plain") -> Quirk:
    """Sends the right body with a wrong content type; an empty value omits the header.

    Good client: reads it anyway, or raises a typed error.
    """

    def answer(answer: HttpResponse, seen: ReceivedRequest) -> HttpResponse:
        others = tuple(pair for pair in answer.headers if pair[0] != "content-type")
        return replace(answer, headers=(*others, ("content-type", value)) if value else others)

    return Quirk(answer=answer)


@quirk_maker("body")
def gzip_body() -> Quirk:
    """Compresses the body with gzip, whether requested or not.

    Good client: decompresses it, or raises a typed error.
    """

    def answer(answer: HttpResponse, seen: ReceivedRequest) -> HttpResponse:
        packed = gzip.compress(answer.body, mtime=0)
        return replace(answer, headers=(*answer.headers, ("content-encoding", "gzip")), pieces=(packed,))

    return Quirk(answer=answer)


@quirk_maker("body")
def gzip_bomb(megabytes: int = 256) -> Quirk:
    """Sends a small gzip body that decompresses to this size: blanks (in a stream a comment), then the reply.

    Good client: stops at its limit; its memory does not grow with the size.
    """

    def answer(answer: HttpResponse, seen: ReceivedRequest) -> HttpResponse:
        before, after = (b":", b"\n\n") if seen.stream else (b"", b"")
        packed = _bomb(before, megabytes, after + answer.body)
        return replace(answer, headers=(*answer.headers, ("content-encoding", "gzip")), pieces=(packed,))

    return Quirk(answer=answer, breaks=True)


def _bomb(before: bytes, megabytes: int, after: bytes) -> bytes:
    """Compress blanks between two texts; one compressed megabyte is made and repeated."""
    blanks = b" " * 1_000_000
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    start = packer.compress(before) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(blanks) + packer.flush(zlib.Z_FULL_FLUSH)
    end = packer.compress(after) + packer.flush(zlib.Z_FINISH)
    check = zlib.crc32(before)
    for _ in range(megabytes):
        check = zlib.crc32(blanks, check)
    check = zlib.crc32(after, check)
    size = (len(before) + megabytes * len(blanks) + len(after)) & 0xFFFFFFFF
    head = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
    return head + start + block * megabytes + end + check.to_bytes(4, "little") + size.to_bytes(4, "little")


@quirk_maker("body")
def half_json() -> Quirk:
    """Sends the first half of the body as if it were complete.

    Good client: raises a typed error: malformed for a plain reply, interrupted for a stream.
    """

    def answer(answer: HttpResponse, seen: ReceivedRequest) -> HttpResponse:
        body = answer.body
        return replace(answer, pieces=(body[: len(body) // 2],))

    return Quirk(answer=answer, breaks=True)


@quirk_maker("body")
def invalid_utf8() -> Quirk:
    """Inserts bytes that are not UTF-8 before the last quarter of the body.

    Good client: raises a typed error, or uses replacement characters; no crash.
    """

    def answer(answer: HttpResponse, seen: ReceivedRequest) -> HttpResponse:
        body = answer.body
        at = len(body) * 3 // 4
        return replace(answer, pieces=(body[:at] + b"\xff\xfe\xc3" + body[at:],))

    return Quirk(answer=answer, breaks=True)


@quirk_maker("body")
def deep_body(depth: int = 100_000) -> Quirk:
    """Sends JSON nested this deep instead of the reply; in a stream as its first event.

    Good client: raises a typed error; nothing overflows.
    """

    def answer(answer: HttpResponse, seen: ReceivedRequest) -> HttpResponse:
        deep = b'{"choices":' * depth + b"1" + b"}" * depth
        return replace(answer, pieces=(b"data: " + deep + b"\n\n", *answer.pieces) if seen.stream else (deep,))

    return Quirk(answer=answer, breaks=True)


@quirk_maker("body")
def plain_for_stream() -> Quirk:
    """Sends a plain reply where a stream was requested.

    Good client: reads it anyway, or raises a typed error; never returns an empty reply.
    """
    return Quirk(plain=True)
