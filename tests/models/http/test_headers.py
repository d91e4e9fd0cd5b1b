"""The time to retry, from every header that states it."""

import pytest

from ziggurat.models.http.headers import duration, retry_after

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
        ({"retry-after": "1000000000"}, 1e9),
        ({"retry-after": "Fri, 21 Nov 2025 00:02:00 GMT"}, 120.0),
        ({"retry-after": "Friday, 21-Nov-25 00:02:00 GMT"}, 120.0),
        ({"retry-after": "Thu, 20 Nov 2025 00:00:00 GMT"}, 0.0),  # in the past: at once
        ({"retry-after": "2025-11-21T00:00:30Z"}, 30.0),
        ({"retry-after": "abc"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "Fri, 99 Nov 99999 00:00:00 GMT"}, None),
        ({"retry-after": "5, 10"}, 10.0),  # two headers
        ({"retry-after": "5, abc"}, 5.0),
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
