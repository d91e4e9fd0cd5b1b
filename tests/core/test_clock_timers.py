"""Timers in a queue ring as timers of the event loop do, whatever is cancelled, and the queue stays small."""

import asyncio
import random
import time
from contextvars import ContextVar
from functools import partial
from operator import itemgetter
from weakref import ref

import pytest

from tests.samples import amount
from ziggurat.core import SYSTEM_CLOCK
from ziggurat.core.clock import QueuedTimer, Timers

NUMBER = ContextVar("NUMBER", default=0)


def _expected(delays: list[float], cancelled: set[int], cancels: dict[int, int], failing: set[int]) -> list[int]:
    """Return which timers ring, in order: a model of the queue that sorts once."""
    rung: list[int] = []
    off = set(cancelled)
    for number in sorted(range(len(delays)), key=lambda each: (delays[each], each)):
        if number not in off:
            rung.append(number)
            if number not in failing:
                off.add(cancels.get(number, number))
    return rung


@pytest.mark.parametrize("seed", range(amount(8, 40)))
async def test_they_ring_in_order_but_for_those_that_are_cancelled_before(seed: int) -> None:
    source = random.Random(seed)
    count = source.choice([1, 5, 50, 400])
    delays = [source.randrange(20) / 10_000 - source.choice([1, 0]) for _ in range(count)]
    some = range(count)
    cancelled = set(source.sample(some, source.randrange(count)))
    cancels = {each: source.choice(some) for each in source.sample(some, count // 3)}
    failing = set(source.sample(some, count // 5))
    rung: list[int] = []
    lost: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: lost.append(context["exception"]))
    timers, now, made = Timers(asyncio.get_running_loop()), time.monotonic(), list[QueuedTimer]()

    def ring(number: int) -> None:
        rung.append(number)
        if number in failing:
            raise ValueError(number)
        if number in cancels:
            made[cancels[number]].cancel()

    for number, delay in enumerate(delays):
        made.append(timers.call_at(now + delay, partial(ring, number)))
    for number in cancelled:
        made[number].cancel()
    done = asyncio.Event()
    timers.call_at(now + 0.003, done.set)
    await done.wait()
    assert all(each.callback is None for each in made)
    assert rung == _expected(delays, cancelled, cancels, failing)
    assert len(lost) == len(failing & set(rung))


@pytest.mark.parametrize("at_once", [1, 3, 100])
async def test_cancelled_timers_do_not_pile_up_behind_one_that_waits(at_once: int) -> None:
    timers = Timers(asyncio.get_running_loop())
    first = timers.call_at(time.monotonic() + 60, lambda: None)
    for _ in range(1_000):
        limits = [timers.call_at(time.monotonic() + 60 + each, lambda: None) for each in range(at_once)]
        for each in limits:
            each.cancel()
        assert len(timers.queue) <= 130 + 2 * at_once
    first.cancel()


async def test_a_timer_that_is_set_by_another_rings_too_and_an_earlier_one_is_not_late() -> None:
    timers, done, rung = Timers(asyncio.get_running_loop()), asyncio.Event(), list[str]()
    late = timers.call_at(time.monotonic() + 60, lambda: rung.append("late"))

    def set_another() -> None:
        timers.call_at(time.monotonic(), done.set)

    timers.call_at(time.monotonic(), set_another)
    await asyncio.wait_for(done.wait(), 5)
    assert (rung, late.callback is None) == ([], False)


async def test_a_timer_does_not_refer_to_the_call_that_set_it() -> None:
    done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    NUMBER.set(7)
    SYSTEM_CLOCK.call_at(time.monotonic(), lambda: done.set_result(NUMBER.get()))
    assert await done == 0


async def test_a_timer_that_is_overdue_when_it_is_set_lets_others_go_first() -> None:
    turns: list[str] = []
    done = asyncio.Event()

    def again() -> None:
        turns.append("timer")
        if len(turns) < 20:
            SYSTEM_CLOCK.call_at(0, again)
            asyncio.get_running_loop().call_soon(turns.append, "other")
        else:
            done.set()

    SYSTEM_CLOCK.call_at(0, again)
    await done.wait()
    assert turns == ["timer", "other"] * 10 + ["timer"]


def test_each_event_loop_has_timers_of_its_own() -> None:
    first, second = asyncio.new_event_loop(), asyncio.new_event_loop()
    rung: list[tuple[int, asyncio.AbstractEventLoop]] = []

    async def rings(number: int, *, waits: bool) -> None:
        done = asyncio.Event()
        SYSTEM_CLOCK.call_at(time.monotonic(), lambda: rung.append((number, asyncio.get_running_loop())))
        SYSTEM_CLOCK.call_at(time.monotonic(), done.set)
        if waits:
            await done.wait()

    first.run_until_complete(rings(1, waits=False))
    second.run_until_complete(rings(2, waits=True))
    first.run_until_complete(rings(3, waits=True))
    first.close()
    second.close()
    assert sorted(rung, key=itemgetter(0)) == [(1, first), (2, second), (3, first)]


def test_an_event_loop_that_is_closed_leaves_none_of_its_timers() -> None:
    class Connection:
        def close(self) -> None: ...

    async def main() -> "ref[Connection]":
        connection = Connection()
        SYSTEM_CLOCK.call_at(time.monotonic() + 60, connection.close)
        return ref(connection)

    assert asyncio.run(main())() is None
