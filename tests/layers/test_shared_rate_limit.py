"""Rate limits whose window several limiters share, as those of several processes do."""

import asyncio
from collections.abc import Callable
from math import inf
from typing import Any, TypeVar, TypeVarTuple

import pytest
from hypothesis import given, strategies as st

from ziggurat import Context, Event, stack
from ziggurat.core import CLOCK, root
from ziggurat.core.clock import Clock
from ziggurat.errors import LimitExceeded, ModelError
from ziggurat.events import Queued
from ziggurat.layers import RateLimiter, rate_limit
from ziggurat.layers.rate_limiter import RateWindow
from ziggurat.testing import HandClock, assert_no_leaks, run_until_idle

T = TypeVar("T")
A = TypeVarTuple("A")


class Windows:
    """A backend in the process, that answers a turn of the event loop later."""

    def __init__(self) -> None:
        self.window = RateWindow()
        self.lets_all_pass = False

    def time(self, clock: Clock) -> float:
        return clock.monotonic()

    async def update_window(self, name: str, change: Callable[[RateWindow, *A], T], /, *args: *A) -> T:
        await asyncio.sleep(0)
        return change(self.window, *args)


async def answer(request: Any, ctx: Context) -> Any:
    if isinstance(request, Exception):
        raise request
    return request


class Processes:
    """Limiters that share a window, and when the calls of each passed."""

    def __init__(self, count: int, **settings: Any) -> None:
        self.backend, self.clock = Windows(), HandClock()
        self.limiters = [RateLimiter(backend=self.backend, **settings) for _ in range(count)]
        self.ctx = root().within(CLOCK, self.clock)
        self.passed: list[tuple[float, Any]] = []

    async def call(self, process: int, request: Any, estimate: float = 1, real: float = 1) -> Any:
        async def note(request: Any, ctx: Context) -> Any:
            self.passed.append((self.clock.monotonic(), request))
            return await answer(request, ctx)

        layer = rate_limit(
            limiter=self.limiters[process], estimate=lambda request: estimate, measure=lambda outcome: real
        )
        return await stack(note, layer)(request, self.ctx)

    def begin(self, process: int, request: Any, *weights: float) -> "asyncio.Task[Any]":
        return asyncio.ensure_future(self.call(process, request, *weights))


STEPS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 10)), max_size=60)


@given(STEPS, st.integers(1, 4), st.integers(10, 15))
def test_no_period_holds_more_than_the_limits_and_the_wait_is_known(
    steps: list[tuple[int, int]], requests: int, weight: int
) -> None:
    limits, window, passed, now = (
        RateLimiter(requests=requests, weight=weight, seconds=10.0),
        RateWindow(),
        list[tuple[float, int]](),
        0.0,
    )
    for gap, heavy in steps:
        now += gap / 10
        _, wait = window.take(limits, heavy, now)
        recent = [amount for at, amount in passed if at + 10 > now]
        if wait:
            assert 0 < wait <= 10.1 + 1e-9
            trial = RateWindow(list(window.slices), window.closed_until)
            assert trial.take(limits, heavy, now + wait + 1e-6)[1] == 0  # there is room then
            slices = [amount for at, amount in passed if at + 10.1 >= now]
            assert len(slices) >= requests or sum(slices) + heavy > weight
        else:
            assert len(recent) < requests
            assert sum(recent) + heavy <= weight
            passed.append((now, heavy))
        assert len(window.slices) <= 101


async def test_all_processes_together_stay_below_the_limit() -> None:
    it = Processes(3, requests=5, seconds=10, max_wait=1_000)
    async with assert_no_leaks():
        calls = [it.begin(number % 3, number) for number in range(20)]
        for _ in range(80):
            await it.clock.advance(0.5)
        await asyncio.gather(*calls)
        assert [sum(start <= at < start + 10 for at, _ in it.passed) for start in (0, 10, 20, 30)] == [5, 5, 5, 5]
        for process in range(3):  # in each they come in their order
            mine = [number for _, number in it.passed if number % 3 == process]
            assert mine == sorted(mine)


async def test_weights_are_corrected_for_all_processes() -> None:
    it = Processes(2, weight=10, seconds=10, max_wait=0)
    await it.call(0, "a", 8, 2)
    await it.call(1, "b", 8, 8)
    with pytest.raises(LimitExceeded) as raised:
        await it.call(0, "c", 1, 1)
    assert raised.value.retry_after == pytest.approx(10, abs=0.2)
    await it.clock.advance(10.2)
    await it.call(0, "d", 1, 10)
    with pytest.raises(LimitExceeded):
        await it.call(1, "e", 1, 1)


async def test_the_wish_of_the_service_to_be_left_alone_holds_for_all_processes() -> None:
    it = Processes(2, requests=10, seconds=10, max_wait=30)
    with pytest.raises(ModelError):
        await it.call(0, ModelError("slow down", kind="rate_limited", retry_after=20))
    late = it.begin(1, "a")
    await it.clock.advance(19)
    assert not late.done()
    await it.clock.advance(2)
    assert await late == "a"


async def test_a_wait_for_others_is_an_event_and_ends_at_the_deadline() -> None:
    it, events = Processes(2, requests=1, seconds=10, max_wait=15), list[Event]()
    it.ctx = it.ctx.heard_by(events.append)
    await it.call(0, "a")
    waiting = it.begin(1, "b")
    await run_until_idle()
    assert [type(event) for event in events] == [Queued]
    with pytest.raises(LimitExceeded):
        await it.call(1, "c")  # after b, so in 20 s
    await it.clock.advance(10.2)
    assert await waiting == "b"


@pytest.mark.parametrize("turns", range(1, 6))
async def test_a_call_that_is_cancelled_gives_everything_back(turns: int) -> None:
    it = Processes(2, requests=1, seconds=10, max_wait=0)
    call = it.begin(0, "a")
    for _ in range(turns):
        await asyncio.sleep(0)
    call.cancel()
    await run_until_idle()
    if not it.passed:  # else it was made
        assert await it.call(1, "b") == "b"


async def test_a_backend_that_is_away_refuses_or_lets_all_pass() -> None:
    it = Processes(1, requests=1, seconds=10)
    it.backend.lets_all_pass = True
    assert await it.call(0, "a") == "a"
    it.backend.window = RateWindow()
    assert await it.call(0, "b") == "b"  # more than the limit of this process
    it = Processes(1, requests=1, seconds=10)
    it.backend.window.closed_until = inf
    with pytest.raises(LimitExceeded) as raised:
        await it.call(0, "c")
    assert raised.value.transient
    assert raised.value.retry_after is None
