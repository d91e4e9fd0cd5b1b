import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ziggurat import ConfigurationError
from ziggurat.core.clock import Clock
from ziggurat.journal import LogInfo
from ziggurat.stores import SqliteStore
from ziggurat.testing import HandClock, run_until_idle


def test_it_is_a_clock() -> None:
    clock: Clock = HandClock(now=5.0)
    assert (clock.now(), clock.monotonic()) == (5.0, 0.0)


@given(st.lists(st.integers(0, 50), max_size=12), st.lists(st.integers(0, 20), max_size=12))
def test_what_is_due_runs_in_order_of_time(waits: list[int], moves: list[int]) -> None:
    clock = HandClock()
    woken: list[tuple[float, int]] = []

    async def sleeper(number: int, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((clock.monotonic(), number))

    async def main() -> None:
        tasks = [asyncio.create_task(sleeper(number, seconds)) for number, seconds in enumerate(waits)]
        passed = 0
        await clock.advance(0)
        for move in moves:
            passed += move
            await clock.advance(move)
            assert clock.monotonic() == passed
            assert sorted(woken) == sorted((seconds, n) for n, seconds in enumerate(waits) if seconds <= passed)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(main())
    assert woken == sorted(woken)
    assert clock.waiting == 0


async def test_what_wakes_may_sleep_again_within_one_move() -> None:
    clock = HandClock()
    ticks: list[float] = []

    async def ticking() -> None:
        for _ in range(4):
            await clock.sleep(1)
            ticks.append(clock.now() - 1_000_000_000)

    task = asyncio.create_task(ticking())
    await clock.advance(3.5)
    assert ticks == [1, 2, 3]
    await clock.advance(0.5)
    await task
    assert ticks == [1, 2, 3, 4]


async def test_a_timer_can_be_called_off_twice() -> None:
    clock = HandClock()
    rung: list[int] = []
    timer = clock.call_at(1, lambda: rung.append(1))
    clock.call_at(1, lambda: rung.append(2))
    timer.cancel()
    timer.cancel()
    await clock.advance(2)
    clock.call_at(1, lambda: rung.append(3))  # overdue
    await clock.advance(0)
    assert rung == [2, 3]


def test_by_itself_it_jumps_when_all_wait() -> None:
    clock = HandClock(auto=True)
    begun = 0.0

    async def busy() -> None:
        for _ in range(100):
            await asyncio.sleep(0)
        assert clock.monotonic() == begun
        await clock.sleep(3_600)

    async def main() -> None:
        await asyncio.gather(busy(), clock.sleep(60))
        await clock.sleep(1)
        assert clock.monotonic() == begun + 3_601

    asyncio.run(main())

    async def leave_one() -> None:
        clock.call_at(1_000_000, lambda: None)

    asyncio.run(leave_one())  # a loop that ends while a timer is set must not stop the clock for the next
    begun = clock.monotonic()
    asyncio.run(main())


async def test_settling_ends_though_somebody_spins() -> None:
    async def spin() -> None:
        while True:  # noqa: ASYNC110
            await asyncio.sleep(0)

    task = asyncio.create_task(spin())
    await run_until_idle(50)
    task.cancel()


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), "5", None])
async def test_time_moves_forward_only(seconds: Any) -> None:
    with pytest.raises(ConfigurationError, match="advance"):
        await HandClock().advance(seconds)


async def test_a_store_that_writes_is_waited_for_before_time_passes(tmp_path: Path) -> None:
    store, clock = SqliteStore(tmp_path / "x.db", synchronous="NORMAL"), HandClock(auto=True)
    created = asyncio.ensure_future(store.create(LogInfo("run:r")))
    await clock.sleep(60)
    assert created.done()
    released = asyncio.ensure_future(store.release("run:r", 1))
    await run_until_idle()
    assert released.done()
    await store.close()
