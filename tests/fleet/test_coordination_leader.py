"""One leader at a time, with a number that only grows."""

import asyncio
import time
from contextlib import nullcontext, suppress

import pytest
from redis.asyncio import Redis

from tests.samples import amount
from ziggurat.errors import LeaseLost
from ziggurat.fleet import RedisLeader


async def test_one_leads_at_a_time_and_numbers_grow(client: Redis, other: Redis) -> None:
    inside, most = 0, 0
    numbers: list[int] = []

    async def work(one: Redis) -> None:
        nonlocal inside, most
        async with RedisLeader(one, "office", ttl=0.5).lead() as term:
            inside += 1
            most = max(most, inside)
            numbers.append(term.number)
            term.check()
            await asyncio.sleep(0)
            inside -= 1

    await asyncio.gather(*(work(one) for one in (client, other) * amount(3, 10)))
    assert most == 1
    assert numbers == list(range(1, len(numbers) + 1))


async def test_a_leader_whose_lease_redis_has_lost_ends(client: Redis, other: Redis) -> None:
    entered = asyncio.Event()

    async def lead() -> None:
        async with RedisLeader(client, "office", ttl=0.3).lead():
            entered.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(lead())
    await entered.wait()
    await other.flushdb()
    with pytest.raises(LeaseLost):
        await task


async def test_a_term_is_over_for_its_leader_before_another_one_begins(client: Redis, other: Redis) -> None:
    """The process is paused: its event loop does not run until the lease has lapsed."""
    for _ in range(amount(2, 20)):
        with pytest.raises(LeaseLost):
            async with RedisLeader(client, "office", ttl=0.1).lead() as term:
                time.sleep(0.15)  # noqa: ASYNC251 - it blocks the event loop on purpose
                async with RedisLeader(other, "office", ttl=0.1).lead() as later:
                    assert later.number > term.number
                    term.check()


@pytest.mark.parametrize("turns", range(12))
async def test_a_block_that_ends_together_with_its_term_is_not_cancelled_later(client: Redis, turns: int) -> None:
    with pytest.raises(LeaseLost):
        async with RedisLeader(client, "office", ttl=0.04).lead() as term:
            time.sleep(0.05)  # noqa: ASYNC251 - it blocks the event loop on purpose
            for _ in range(turns):
                await asyncio.sleep(0)
            term.check()
    for _ in range(12):
        await asyncio.sleep(0)


@pytest.mark.parametrize("checks", [True, False])
async def test_a_block_that_drops_the_cancellation_of_its_term_can_lead_again(
    client: Redis, other: Redis, checks: bool
) -> None:
    """The client of Redis drops some on Python 3.11, in `wait_for`."""
    task = asyncio.current_task()
    assert task is not None
    with pytest.raises(LeaseLost) if checks else nullcontext():
        async with RedisLeader(client, "office", ttl=0.1).lead() as term:
            await other.flushdb()
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            if checks:
                term.check()
    assert task.cancelling() == 0
    async with asyncio.timeout(5), RedisLeader(client, "office", ttl=60).lead() as term:
        term.check()


async def test_a_block_that_fails_resigns(client: Redis, other: Redis) -> None:
    with pytest.raises(KeyError):
        async with RedisLeader(client, "office", ttl=60).lead():
            raise KeyError
    async with asyncio.timeout(5), RedisLeader(other, "office", ttl=60).lead() as term:
        assert term.number == 2
