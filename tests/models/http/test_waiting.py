"""A provider's wait before a retry is respected, from the header to the next try."""

import asyncio
from email.utils import formatdate
from typing import Any

import pytest

from tests.models.http.support import Asked, model_at, request, serving
from ziggurat import Context, stack
from ziggurat.core import CLOCK, root
from ziggurat.core.clock import SystemClock
from ziggurat.errors import ModelError
from ziggurat.layers import retry

NOW = 1_000_000_000.0


class Impatient(SystemClock):
    """The system's clock, with a fixed date; waits are only recorded."""

    def __init__(self) -> None:
        self.waited: list[float] = []

    @staticmethod
    def now() -> float:
        return NOW

    async def sleep(self, seconds: float) -> None:
        self.waited.append(seconds)


def asked_after(header: str, value: str, **settings: Any) -> tuple[int, list[float], ModelError | None]:
    """Call a server that refuses the first try; return the number of calls, the waits, and the error if any."""
    clock = Impatient()
    failed: list[ModelError] = []

    async def answer(asked: Asked) -> None:
        if asked.number == 1:
            await asked.reply(b'{"error": {"message": "slow down"}}', "429 Too Many Requests", **{header: value})
        else:
            await asked.reply(b'{"say": "Hello"}')

    async def go() -> int:
        async with serving(answer) as server:
            model = stack(model_at(server.url), retry(attempts=3, max_retry_after=120, **settings))
            ctx: Context = root().within(CLOCK, clock)
            try:
                await model(request(), ctx)
            except ModelError as error:
                failed.append(error)
            return len(server.asked)

    return asyncio.run(go()), clock.waited, failed[0] if failed else None


@pytest.mark.parametrize("header", ["retry_after", "retry_after_ms", "date"])
def test_a_wait_of_two_minutes_is_heeded_and_a_longer_one_is_not(header: str) -> None:
    def value(seconds: int) -> tuple[str, str]:
        if header == "date":
            return "retry_after", formatdate(NOW + seconds, usegmt=True)
        return header, str(seconds * (1000 if header.endswith("ms") else 1))

    asked, waited, error = asked_after(*value(120))
    assert (asked, error) == (2, None)
    assert waited == [120]
    asked, waited, error = asked_after(*value(121))
    assert asked == 1, "exactly one call"
    assert waited == []
    assert error is not None
    assert error.kind == "rate_limited"


@pytest.mark.parametrize("value", ["soon", "Fri, 99 Nov 99999 00:00:00 GMT", "-3"])
def test_a_wait_that_cannot_be_read_hides_nothing_and_is_not_heeded(value: str) -> None:
    asked, waited, error = asked_after("retry_after", value, base=0.25)
    assert (asked, error) == (2, None)
    assert all(wait <= 0.25 for wait in waited)
