"""Error replies of providers become errors of the right kind."""

import traceback
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.models.http.support import Asked, serving
from tests.samples import pairs
from ziggurat import Message, ModelRequest, Text
from ziggurat.core import root
from ziggurat.errors import ContextOverflow, ModelError
from ziggurat.messages.conversation import Conversation
from ziggurat.models.http.dialect import DIALECTS, secrets_in
from ziggurat.models.http.failures import duration, failure, failure_of, readable, redacted, retry_after
from ziggurat.models.http.providers import Provider

OPENAI, ANTHROPIC = DIALECTS["openai"], DIALECTS["anthropic"]
WIRES = ("openai", "openai-responses", "anthropic")


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, {"error": {"message": "No auth credentials found", "code": 401}}, "authentication"),
        (400, {"error": {"message": "API key not valid. Please pass a valid API key.", "status": "INVALID_ARGUMENT"}},
         "authentication"),
        (400, [{"error": {"code": 400, "message": "API key expired", "status": "INVALID_ARGUMENT"}}], "authentication"),
        (403, {"error": {"message": "Project does not have access", "code": "model_access"}}, "permission"),
        (402, {"error": {"message": "Insufficient Balance"}}, "permission"),
        (429, {"error": {"code": "insufficient_quota", "type": "insufficient_quota", "message": "..."}}, "permission"),
        (400, {"type": "error", "error": {"type": "invalid_request_error", "message":
               "Your credit balance is too low to access the API."}}, "permission"),
        (404, {"error": {"code": "model_not_found", "message": "no such model"}}, "not_found"),
        (404, "404 page not found", "not_found"),
        (400, {"error": {"code": "model_not_found", "type": "invalid_request_error", "message": "x"}}, "not_found"),
        (400, {"error": {"type": "invalid_request_error", "message": "bad"}}, "invalid_request"),
        (422, {"detail": [{"loc": ["body", "messages"], "msg": "field required", "type": "missing"}]},
         "invalid_request"),
        (400, {"error": {"message": "max_tokens is too large: 200000. This model supports at most 16384 completion "
                         "tokens, whereas you provided 200000."}}, "invalid_request"),
        (400, {"error": {"code": "context_length_exceeded", "message": "x"}}, "context_overflow"),
        (400, {"error": {"type": "exceed_context_size_error", "message": "x", "code": 400}}, "context_overflow"),
        (400, {"object": "error", "message": "This model's maximum context length is 4096 tokens.", "code": 400},
         "context_overflow"),
        (400, {"type": "error", "error": {"type": "invalid_request_error", "message":
               "prompt is too long: 210000 tokens > 200000 maximum"}}, "context_overflow"),
        (400, {"type": "error", "error": {"type": "invalid_request_error", "message":
               "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"}}, "context_overflow"),
        (400, {"error": {"message": "The input token count (1200000) exceeds the maximum number of tokens allowed "
                         "(1048576)."}}, "context_overflow"),
        (413, {"error": {"message": "Request too large for model `x` on tokens per minute (TPM): Limit 6000",
                         "code": "rate_limit_exceeded", "type": "tokens"}}, "context_overflow"),
        (413, b"", "context_overflow"),
        (400, {"error": {"message": "This model's maximum prompt length is 131072 but the request contains 200000 "
                         "tokens."}}, "context_overflow"),
        (400, {"error": {"code": "content_filter", "message": "The response was filtered"}}, "content_filter"),
        (403, {"error": {"message": "Your chosen model requires moderation and your input was flagged"}},
         "content_filter"),
        (429, {"error": {"type": "tokens", "code": "rate_limit_exceeded", "message": "Rate limit"}}, "rate_limited"),
        (429, b"", "rate_limited"),
        (529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "overloaded"),
        (503, b"<html><title>503 Service Temporarily Unavailable</title></html>", "overloaded"),
        (498, {"error": {"message": "capacity", "code": "capacity_exceeded"}}, "overloaded"),
        (500, {"error": {"type": "server_error", "message": "x"}}, "server"),
        (502, b"<html><body><h1>502 Bad Gateway</h1></body></html>", "server"),
        (500, {"type": "error", "error": {"type": "api_error", "message": "Internal server error"}}, "server"),
        (504, b"", "timeout"),
        (408, b"", "timeout"),
        (400, {"error": {"code": "tool_use_failed", "message": "x"}}, "malformed"),
        (307, b"", "invalid_request"),
        (418, "teapot", "invalid_request"),
        (200, {"error": {"code": 502, "message": "Provider returned error"}}, "server"),
        (None, {"error": {"code": 429, "message": "Provider returned error"}}, "rate_limited"),
        (None, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "overloaded"),
        (None, {"error": {"message": "The server had an error while processing your request"}}, "server"),
        (None, {"error": "something broke"}, "server"),
    ],
)  # fmt: skip
def test_kinds(status: int | None, body: object, kind: str) -> None:
    error = failure(status, {}, body if isinstance(body, (bytes, str)) else msgspec.json.encode(body), OPENAI)
    assert error.kind == kind
    assert error.status == status
    assert isinstance(error, ContextOverflow) == (kind == "context_overflow")
    assert error.transient == (kind in ("rate_limited", "overloaded", "server", "timeout", "malformed"))


def test_waits() -> None:
    body = b'{"error": {"message": "Rate limit reached. Please try again in 1m2.5s."}}'
    assert failure(429, {}, body, OPENAI).retry_after == 62.5
    assert failure(429, {"retry-after": "3"}, body, OPENAI).retry_after == 3.0
    dated = {"retry-after": "Thu, 01 Jan 1970 00:02:01 GMT"}
    assert failure(429, dated, body, OPENAI, now=1.0).retry_after == 120.0
    assert failure(400, {"x-ratelimit-reset-requests": "8s"}, b"", OPENAI).retry_after is None
    assert failure(409, {}, b"", OPENAI).transient


def test_an_unreadable_date_does_not_hide_the_error() -> None:
    error = failure(429, {"retry-after": "Fri, 99 Foo 2025 99:99:99 GMT"}, b'{"error": {"message": "slow"}}', OPENAI)
    assert (error.kind, error.retry_after) == ("rate_limited", None)
    assert "slow" in str(error)


def test_texts_say_who_what_and_how_to_mend_it() -> None:
    error = failure(401, {}, b'{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}',
                    ANTHROPIC)  # fmt: skip
    for part in ("anthropic", "401", "authentication_error", "invalid x-api-key", "ANTHROPIC_API_KEY"):
        assert part in str(error)
    assert "moved to https://elsewhere" in str(failure(308, {"location": "https://elsewhere"}, b"", OPENAI))
    body = {"error": {"code": 429, "message": "Provider returned error", "metadata": {"raw": "upstream is full"}}}
    assert "Provider returned error: upstream is full" in str(failure_of(body, OPENAI))


BODIES = [
    b"", b"\xff\xfe\x00", b"null", b"[]", b"{}", b"1", b'"x"', b'{"error": null}', b'{"error": [1]}', b"[" * 100_000,
    b'{"error": {"message": {"a": [1]}}}',
]  # fmt: skip


@pytest.mark.parametrize("body", BODIES)
def test_any_body_is_read(body: bytes) -> None:
    assert str(failure(500, {}, body, OPENAI)).startswith("openai answered 500")


def test_web_pages_lose_their_tags() -> None:
    page = (
        b"<!DOCTYPE html><html><head><style>p {color: red}</style><script>alert('<p>')</script><title>502</title>"
        b"</head><body><h1>Bad&nbsp;Gateway</h1>\n<p>cloud &amp; sky</p></body></html>"
    )
    assert readable(page) == "502 Bad Gateway cloud & sky"
    assert len(str(failure(502, {}, b"<html>" + b"word " * 10_000, OPENAI))) < 400
    assert readable(b"<html>" + b"<" * 60_000) is not None  # and soon


@pytest.mark.parametrize(
    "text",
    ["sk-abcdef123456", "sk-proj-abc_DEF-123", "sk-ant-api03-xyz", "gsk_abcdef123", "AIzaSyA1234567890abcdefghij",
     "xai-1234567890", "Authorization: Bearer abcd.efgh", "https://host/v1?key=secret123"],
)  # fmt: skip
def test_keys_never_show(text: str) -> None:
    shown = str(failure(401, {}, msgspec.json.encode({"error": {"message": f"wrong: {text} here"}}), OPENAI))
    assert "[key]" in shown
    assert text.split()[-1].rpartition("=")[2] not in shown


KEY = "odd/0815+aZ_bird-Q7"
SAID: dict[str, Callable[[str], object]] = {
    "fields": lambda said: {"error": {"message": f"bad {said}.", "type": said, "code": said, "param": said}},
    "long": lambda said: {"error": {"message": "x" * 280 + said}},  # is cut off within the key
    "text": str,
    "page": lambda said: f"<html><title>{said}</title>{said}</html>",
    "broken": lambda said: f"[{said}",
    "headers only": lambda said: {},
}


async def test_no_error_shows_the_key_or_a_secret_header() -> None:
    body, status = b"", ""

    async def answer(asked: Asked) -> None:
        assert KEY in asked.head
        await asked.reply(body, status, location=f"/{KEY}", retry_after=KEY, x_request_id=KEY)

    statuses = ("400 Bad", "401 No", "429 Wait", "500 Oops", "307 Moved", "200 OK")
    async with serving(answer) as server:
        for kind, status, wire, sent in pairs(SAID, statuses, WIRES, ("key", "header", "address")):  # noqa: B007
            said = SAID[kind](KEY)
            body = said.encode() if isinstance(said, str) else msgspec.json.encode(said)
            settings: dict[str, Any] = {"key": KEY} if sent == "key" else {"key": ""}
            settings |= {"headers": {"X-Token": KEY}} if sent == "header" else {}
            url = f"{server.url}/v1?v=1&token={KEY}" if sent == "address" else f"{server.url}/v1"
            model = Provider(DIALECTS[wire])("m", base_url=url, **settings)
            request = ModelRequest(Conversation([Message("user", (Text("x"),))]).view())
            with pytest.raises(ModelError) as error:
                await model(request, root())
            await model.close()
            seen = "".join(traceback.format_exception(error.value)) + repr(vars(error.value))
            assert "0815" not in seen


def test_secret_headers_and_fields_of_a_query_are_known_by_name() -> None:
    headers = {"Authorization": "Bearer abc-123456789", "x-api-key": "def-123456789", "user-agent": "ziggurat"}
    secrets = ("abc-123456789", "def-123456789", "ghi-123456789")
    assert secrets_in(headers.items(), "/v1/chat?api-version=1&key=ghi-123456789") == secrets
    assert redacted("nothing here") == "nothing here"


NOW = 1_763_683_200.0  # Fri, 21 Nov 2025 00:00:00 GMT


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1m30s", 90.0), ("6ms", 0.006), ("8.64s", 8.64), ("1h0m2.5s", 3602.5), ("2d", 172800.0), ("12", 12.0),
        ("120us", 0.00012), ("", None), ("soon", None), ("1m30", None), ("1 m", None), ("-1", None), ("nan", None),
        ("inf", None), ("1" * 1000, None), ("1s" * 1000, None),
    ],
)  # fmt: skip
def test_durations(text: str, seconds: float | None) -> None:
    assert duration(text) == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "121"}, 121.0),
        ({"retry-after": "Fri, 21 Nov 2025 00:02:00 GMT"}, 120.0),
        ({"retry-after": "Friday, 21-Nov-25 00:02:00 GMT"}, 120.0),
        ({"retry-after": "Thu, 20 Nov 2025 00:00:00 GMT"}, 0.0),  # in the past: at once
        ({"retry-after": "2025-11-21T00:00:30Z"}, 30.0),
        ({"retry-after": "abc"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "Fri, 99 Nov 99999 00:00:00 GMT"}, None),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after-ms": "abc", "retry-after": "9"}, 9.0),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "8.64s",
          "x-ratelimit-remaining-tokens": "500", "x-ratelimit-reset-tokens": "1m30s"}, 8.64),
        ({"x-ratelimit-remaining-tokens": "5", "x-ratelimit-reset-tokens": "6ms"}, 0.006),
        ({"anthropic-ratelimit-tokens-remaining": "0", "anthropic-ratelimit-tokens-reset": "2025-11-21T00:00:42Z",
          "anthropic-ratelimit-requests-remaining": "49", "anthropic-ratelimit-requests-reset":
          "2025-11-21T00:01:00Z"}, 42.0),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1763683210000"}, 10.0),  # milliseconds since 1970
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1763683210"}, 10.0),
        ({"retry-after": "abc", "x-ratelimit-reset": "3"}, 3.0),
    ],
)  # fmt: skip
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, NOW) == (None if seconds is None else pytest.approx(seconds))


def test_limits_count_only_where_they_may_be_the_reason() -> None:
    headers = {"x-ratelimit-reset-requests": "8s"}
    assert retry_after(headers, NOW) == 8.0
    assert retry_after(headers, NOW, limits=False) is None
