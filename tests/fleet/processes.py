"""Processes of a fleet for storms: ``python -m tests.fleet.processes ROLE PORT``. They read lines, and write lines."""

import asyncio
import logging
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from redis.asyncio import Redis

from ziggurat import Context, stack
from ziggurat.core import root
from ziggurat.errors import CircuitOpen, LeaseLost, LimitExceeded
from ziggurat.fleet import RedisBackend, RedisJob, RedisLeader, RedisQueue
from ziggurat.layers import CircuitBreaker, RateLimiter, circuit_breaker, rate_limit

CALLERS = 25
"""The number of callers in each process that races."""


class Process:
    """A process that plays a role."""

    def __init__(self, role: str, port: int) -> None:
        command = [sys.executable, "-m", "tests.fleet.processes", role, str(port)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def write(self, line: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    async def read(self) -> str:
        assert self.process.stdout is not None
        line: str = await asyncio.to_thread(self.process.stdout.readline)
        return line.strip()

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            with suppress(BrokenPipeError):
                stream.close()


@contextmanager
def processes(role: str, port: int, count: int) -> Iterator[list[Process]]:
    """Start so many processes, and kill those that are in the list at the end."""
    started = [Process(role, port) for _ in range(count)]
    try:
        yield started
    finally:
        for each in started:
            each.kill()


async def _line() -> str:
    line: str = await asyncio.to_thread(sys.stdin.readline)
    return line.strip()


def _say(line: object) -> None:
    print(line, flush=True)


async def trials(client: Redis) -> None:
    """Race for the permits of a circuit: NAME PERMITS is answered by how many passed; they end at the next line."""
    backend = RedisBackend(client, patience=30)
    while line := await _line():
        name, permits = line.split()
        breaker = CircuitBreaker(name=name, permits=int(permits), consecutive=1, open_seconds=60, backend=backend)
        ended, passed, refused = asyncio.Event(), 0, 0
        known = asyncio.Event()

        def count(passed_more: int, refused_more: int, known: asyncio.Event = known) -> None:
            nonlocal passed, refused
            passed, refused = passed + passed_more, refused + refused_more
            if passed + refused == CALLERS:
                known.set()

        async def trial(request: str, ctx: Context, ended: asyncio.Event = ended) -> str:
            count(1, 0)
            await ended.wait()
            return request

        async def call(service: Any) -> None:
            try:
                await service("x", root())
            except CircuitOpen:
                count(0, 1)

        service = stack(trial, circuit_breaker(breaker=breaker))
        calls = [asyncio.ensure_future(call(service)) for _ in range(CALLERS)]
        await known.wait()
        _say(passed)
        await _line()
        ended.set()
        await asyncio.gather(*calls)
        _say("over")


async def allowance(client: Redis) -> None:
    """Race for the allowance of a period: NAME LIMIT is answered by how many calls passed at once."""
    backend = RedisBackend(client, patience=30)

    async def answer(request: str, ctx: Context) -> str:
        return request

    while line := await _line():
        name, limit = line.split()
        limiter = RateLimiter(name=name, requests=int(limit), seconds=600, max_wait=0, backend=backend)
        service = stack(answer, rate_limit(limiter=limiter))
        calls = [service("x", root()) for _ in range(CALLERS)]
        ends = await asyncio.gather(*calls, return_exceptions=True)
        assert all(each == "x" or isinstance(each, LimitExceeded) for each in ends), ends
        _say(ends.count("x"))


async def hang(client: Redis) -> None:
    """Be a trial that never ends."""

    async def trial(request: str, ctx: Context) -> None:
        _say("trial")
        await asyncio.Event().wait()

    breaker = CircuitBreaker(name="search", consecutive=1, open_seconds=0.5, backend=RedisBackend(client))
    await stack(trial, circuit_breaker(breaker=breaker))("ok", root())


async def lead(client: Redis) -> None:
    """Lead again and again, and act while it leads: as often as it may, and under the number of the term."""
    pid = os.getpid()
    _say("ready")
    while True:
        with suppress(LeaseLost):
            async with RedisLeader(client, "office", ttl=0.2).lead() as term:
                for _ in range(random.randrange(100)):
                    term.check()
                    await client.rpush("acts", f"{term.number} {pid}")
                    await asyncio.sleep(0.002)


async def work(client: Redis) -> None:
    """Do the jobs of a queue; each hundredth one fails."""

    async def mark(job: RedisJob) -> None:
        if job.value % 100 == 0:
            raise ValueError("no")
        await client.sadd("marks", job.value)

    _say("ready")
    await RedisQueue(client, "jobs", lease=0.5).work(mark)


if __name__ == "__main__":
    logging.disable()
    role = {each.__name__: each for each in (trials, allowance, hang, lead, work)}[sys.argv[1]]
    asyncio.run(role(Redis(host="127.0.0.1", port=int(sys.argv[2]))))
