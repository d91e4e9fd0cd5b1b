import asyncio
import re
import time

from ziggurat.core import CLOCK, root
from ziggurat.core.clock import SYSTEM_CLOCK, Clock, SystemClock, new_id
from ziggurat.core.context import IDS, RANDOM

from .hand import HandClock


def test_the_systems_clock_tells_the_time() -> None:
    assert abs(SYSTEM_CLOCK.now() - time.time()) < 5
    assert SYSTEM_CLOCK.monotonic() <= SYSTEM_CLOCK.monotonic()


async def test_the_systems_timers_fire_and_can_be_called_off() -> None:
    called: list[str] = []
    fired = asyncio.Event()
    clock: Clock = SYSTEM_CLOCK
    off = clock.call_at(clock.monotonic(), lambda: called.append("off"))
    off.cancel()
    clock.call_at(clock.monotonic() - 10, fired.set)  # a time in the past is due at once
    await fired.wait()
    await clock.sleep(0)
    off.cancel()
    assert called == []


def test_ids_are_fit_for_paths_files_and_addresses() -> None:
    ids = {new_id() for _ in range(200)}
    assert len(ids) == 200
    assert all(re.fullmatch("[a-z0-9]{26,32}", each) for each in ids)


def test_a_context_draws_from_the_runs_sources_or_the_systems() -> None:
    clock = HandClock()
    ctx = root().within(CLOCK, clock).within(IDS, lambda: "id-1").within(RANDOM, lambda: 0.25)
    child = ctx.under("a").at("b")
    assert child.clock is clock
    assert child.new_id() == "id-1"
    assert child.random() == 0.25
    ctx = root()
    assert ctx.clock is SYSTEM_CLOCK
    assert ctx.new_id() != ctx.new_id()
    assert 0 <= ctx.random() < 1


async def test_a_hand_clock_wakes_sleepers_in_order() -> None:
    clock = HandClock()
    woken: list[str] = []

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append(f"{name}@{clock.monotonic():g}")

    tasks = [asyncio.create_task(sleeper("b", 2)), asyncio.create_task(sleeper("a", 1))]
    await clock.advance(3)
    await asyncio.gather(*tasks)
    assert woken == ["a@1001", "b@1002"]


async def test_a_timer_whose_function_fails_takes_none_along() -> None:
    def fail() -> None:
        raise ValueError("on purpose")

    loop, clock, told = asyncio.get_running_loop(), SystemClock(), list[str]()
    loop.set_exception_handler(lambda loop, context: told.append(str(context["exception"])))
    clock.call_at(clock.monotonic(), fail)
    done = asyncio.Event()
    clock.call_at(clock.monotonic(), done.set)
    await done.wait()
    assert told == ["on purpose"]
