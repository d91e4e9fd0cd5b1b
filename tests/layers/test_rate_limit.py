import asyncio
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ziggurat import ConfigurationError, Context, Event, stack
from ziggurat.core import CLOCK, root
from ziggurat.core.context import JOURNAL
from ziggurat.errors import LimitExceeded, ModelError
from ziggurat.events import Queued
from ziggurat.journal import LocalJournal
from ziggurat.layers import RateLimiter
from ziggurat.layers.rate_limiter import rate_limit
from ziggurat.layers.retry import retry, timeout
from ziggurat.testing import HandClock, assert_no_leaks, run_until_idle


class Passing:
    """Records when each request passes; a request is a name, or (name, estimate, actual weight, seconds)."""

    def __init__(self, limiter: RateLimiter, clock: HandClock | None = None) -> None:
        self.clock = clock or HandClock()
        self.limiter = limiter
        self.passed: list[tuple[float, Any]] = []
        weighs = limiter.weight is not None
        self.service = stack(
            self,
            rate_limit(
                limiter=limiter,
                estimate=(lambda request: request[1]) if weighs else None,
                measure=(lambda outcome: outcome[2]) if weighs else None,
            ),
        )
        self.ctx = root().within(CLOCK, self.clock)
        self.tasks: dict[object, asyncio.Task[object]] = {}

    async def __call__(self, request: Any, ctx: Context) -> Any:
        self.passed.append((self.clock.monotonic(), request[0]))
        if len(request) > 3 and request[3]:
            await self.clock.sleep(request[3])
        return request

    async def come(self, *requests: Any) -> None:
        for request in requests:
            self.tasks[request[0]] = asyncio.create_task(self.service(request, self.ctx))
        await run_until_idle()

    def names(self) -> str:
        return "".join(str(name) for _, name in self.passed)


async def test_what_is_over_the_limit_waits_until_there_is_room() -> None:
    it = Passing(RateLimiter(requests=2, seconds=10))
    async with assert_no_leaks():
        await it.come("a")
        await it.clock.advance(4)
        await it.come(*"bcde")
        assert it.names() == "ab"
        await it.clock.advance(5.9)
        assert it.names() == "ab"
        await it.clock.advance(0.1)
        assert it.names() == "abc"
        await it.clock.advance(10)
        assert it.passed == [(0, "a"), (4, "b"), (10, "c"), (14, "d"), (20, "e")]
        await it.clock.advance(30)
        await it.come(*"fg")
        assert it.names() == "abcdefg"
        assert it.clock.waiting == 0


async def test_turns_come_in_order_and_nobody_slips_in() -> None:
    it = Passing(RateLimiter(weight=10, seconds=10))
    await it.come(("a", 9, 9), ("b", 8, 8), ("c", 1, 1), ("d", 1, 1))
    assert it.names() == "a"  # c and d would fit, but b was there first
    await it.clock.advance(10)
    assert it.names() == "abcd"


async def test_who_would_wait_too_long_is_refused_at_once() -> None:
    it = Passing(RateLimiter(requests=1, seconds=10, max_wait=25))
    await it.come(*"abcd")
    with pytest.raises(LimitExceeded, match="no room for 30 s") as raised:
        await it.tasks["d"]
    assert raised.value.retry_after == 30
    assert raised.value.transient
    assert (raised.value.kind, raised.value.limit, raised.value.used) == ("rate", 1, 1)
    assert it.limiter.waiting == 2
    await it.clock.advance(20)
    assert it.names() == "abc"


async def test_who_has_to_be_done_before_its_turn_is_refused_at_once() -> None:
    it = Passing(RateLimiter(requests=1, seconds=10))
    await it.come("a")
    with pytest.raises(LimitExceeded) as raised:
        await stack(it.service, timeout(seconds=9))("b", it.ctx)
    assert raised.value.retry_after == 10
    task = asyncio.create_task(stack(it.service, timeout(seconds=11))("c", it.ctx))
    await it.clock.advance(10)
    assert await task == "c"


async def test_a_full_queue_refuses_at_once() -> None:
    it = Passing(RateLimiter(requests=1, seconds=10, queue=1))
    await it.come(*"abc")
    with pytest.raises(LimitExceeded) as raised:
        await it.tasks["c"]
    assert raised.value.retry_after == 20
    await it.clock.advance(10)
    assert it.names() == "ab"


async def test_a_refusal_is_tried_again_when_it_says() -> None:
    it = Passing(RateLimiter(requests=1, seconds=10, max_wait=0), HandClock(auto=True))
    await it.come("a")
    assert await stack(it.service, retry(jitter="none"))("b", it.ctx) == "b"
    assert it.passed == [(0, "a"), (10, "b")]


async def test_what_never_fits_is_refused_for_good() -> None:
    it = Passing(RateLimiter(weight=10))
    await it.come(("a", 11, 11))
    with pytest.raises(LimitExceeded, match="weight 11 never fits") as raised:
        await it.tasks["a"]
    assert not raised.value.transient


async def test_what_was_estimated_too_high_is_free_again_at_once() -> None:
    it = Passing(RateLimiter(weight=10, seconds=60))
    await it.come(("a", 8, 2, 5), ("b", 8, 8))
    assert it.names() == "a"
    await it.clock.advance(5)
    assert it.passed == [(0, "a"), (5, "b")]


async def test_what_was_estimated_too_low_counts_from_then_on() -> None:
    it = Passing(RateLimiter(weight=10, seconds=60))
    await it.come(("a", 1, 10, 5))
    await it.clock.advance(5)
    await it.come(("b", 5, 5))
    await it.clock.advance(54)
    assert it.names() == "a"
    await it.clock.advance(6)
    assert it.passed == [(0, "a"), (65, "b")]


async def test_who_comes_too_late_by_anothers_weight_is_refused() -> None:
    it = Passing(RateLimiter(weight=10, seconds=60, max_wait=60))
    await it.come(("a", 8, 20, 30), ("b", 8, 8))
    await it.clock.advance(30)
    with pytest.raises(LimitExceeded) as raised:
        await it.tasks["b"]
    assert raised.value.retry_after == 60


async def test_without_a_measure_the_estimate_stands() -> None:
    clock, passed = HandClock(), list[float]()

    async def service(request: float, ctx: Context) -> None:
        passed.append(clock.monotonic())

    limited = stack(service, rate_limit(limiter=RateLimiter(weight=10, seconds=5), estimate=float))
    tasks = [asyncio.create_task(limited(6.0, root().within(CLOCK, clock))) for _ in range(3)]
    await clock.advance(20)
    await asyncio.gather(*tasks)
    assert passed == [0, 5, 10]


@pytest.mark.parametrize("together", [False, True])
async def test_who_is_cancelled_while_waiting_has_taken_nothing(together: bool) -> None:
    it = Passing(RateLimiter(requests=1, seconds=10))
    await it.come(*"abc")
    if together:
        it.clock._elapsed = 10.0
        it.limiter._pump(it.clock)  # b has its turn, and has not continued yet
    it.tasks["b"].cancel()
    await run_until_idle()
    assert it.names() == ("ac" if together else "a")
    await it.clock.advance(10 if not together else 0)
    assert it.names() == "ac"
    await it.clock.advance(10)
    assert it.limiter.waiting == 0
    assert it.clock.waiting == 0


async def test_the_wish_of_the_service_to_be_left_alone_holds_for_all() -> None:
    clock, passed = HandClock(), list[object]()

    async def service(request: object, ctx: Context) -> object:
        passed.append((clock.monotonic(), request))
        if request == "busy":
            raise ModelError("slow down", kind="rate_limited", retry_after=20)
        return request

    limiter = RateLimiter(requests=10, seconds=10, max_wait=30)
    limited = stack(service, rate_limit(limiter=limiter))
    ctx = root().within(CLOCK, clock)
    with pytest.raises(ModelError):
        await limited("busy", ctx)
    task = asyncio.create_task(limited("a", ctx))
    await run_until_idle()
    with pytest.raises(LimitExceeded) as raised:
        await stack(limited, timeout(seconds=15))("in a hurry", ctx)
    assert raised.value.retry_after == 20
    await clock.advance(20)
    assert await task == "a"
    limiter.pause(1e9, clock)
    await clock.advance(30)
    assert await limited("b", ctx) == "b"
    assert passed == [(0, "busy"), (20, "a"), (50, "b")]


async def test_waiting_is_an_event() -> None:
    it, heard = Passing(RateLimiter(requests=1, seconds=10)), list[Event]()
    it.ctx = it.ctx.heard_by(heard.append)
    for name in "abc":
        await it.come(name)
    await it.clock.advance(20)
    assert heard == [Queued("run", "rate", 0, 10.0), Queued("run", "rate", 1, 20.0)]


async def test_in_a_replay_nobody_waits() -> None:
    it = Passing(RateLimiter(requests=1, max_wait=0))
    ctx = it.ctx.within(JOURNAL, LocalJournal("replay"))
    assert [await it.service(name, ctx) for name in "abc"] == ["a", "b", "c"]


ARRIVALS = st.lists(
    st.tuples(
        st.integers(0, 12),  # quarters of a second after the one before
        st.integers(0, 10),  # estimate
        st.integers(0, 14),  # real weight
        st.integers(0, 20),  # how long it takes, in quarters
        st.booleans(),  # cancelled a while later
    ),
    max_size=40,
)


@given(ARRIVALS, st.integers(1, 4), st.integers(10, 15), st.sampled_from([3.0, 1e9]))
def test_no_window_ever_holds_more_than_the_limit(
    arrivals: list[tuple[int, int, int, int, bool]], requests: int, weight: int, max_wait: float
) -> None:
    """Requests never, weight never as known when each passed; in order, none lost, all settled."""
    seconds = 5.0
    limiter = RateLimiter(requests=requests, weight=weight, seconds=seconds, max_wait=max_wait, queue=1_000)
    it = Passing(limiter)
    by_name: dict[int, tuple[int, int, float]] = {}

    async def main() -> None:
        async with assert_no_leaks():
            for name, (gap, estimate, real, takes, cancelled) in enumerate(arrivals):
                await it.clock.advance(gap / 4)
                by_name[name] = (estimate, real, takes / 4)
                await it.come((name, estimate, real, takes / 4))
                if cancelled and name:
                    it.tasks[name - 1].cancel()
            await it.clock.advance(10_000)
            ends = await asyncio.gather(*it.tasks.values(), return_exceptions=True)
            assert all(isinstance(end, (tuple, LimitExceeded, asyncio.CancelledError)) for end in ends)
            assert max_wait < 1e9 or not any(isinstance(end, LimitExceeded) for end in ends)
            assert (limiter.waiting, it.clock.waiting) == (0, 0)
            await asyncio.wait_for(limiter.take(weight, it.ctx), 1.0)  # and all is free again

    asyncio.run(main())
    assert [name for _, name in it.passed] == sorted(name for _, name in it.passed)
    cancelled = {name - 1 for name, arrival in enumerate(arrivals) if arrival[4]}
    for at, name in it.passed:
        window = [(then, other) for then, other in it.passed if at - seconds < then <= at]
        assert sum(other <= name or then < at for then, other in window) <= requests
        known = 0
        for then, other in window:
            if then == at and other > name:
                continue
            estimate, real, takes = by_name[other]
            settled = then + takes <= at and other != name and other not in cancelled
            known += min(estimate, real) if settled or other in cancelled else estimate
        assert known <= weight


async def test_all_of_the_allowance_can_be_used() -> None:
    it = Passing(RateLimiter(requests=7, seconds=10, queue=2_000, max_wait=1e9), HandClock(auto=True))
    await it.come(*[(number,) for number in range(700)])
    await asyncio.gather(*it.tasks.values())
    assert it.passed[-1] == (990, 699)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({}, "limits nothing"),
        ({"requests": 0}, "requests"),
        ({"weight": 0}, "weight"),
        ({"requests": 1, "seconds": float("inf")}, "seconds"),
        ({"requests": 1, "max_wait": -1}, "max_wait"),
        ({"requests": 1, "queue": -1}, "queue"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        RateLimiter(**settings)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"limiter": 5}, "made once and passed"),
        ({"limiter": RateLimiter(weight=5)}, "estimate"),
        ({"limiter": RateLimiter(weight=5), "estimate": 5}, "estimate"),
        ({"limiter": RateLimiter(weight=5), "estimate": float, "measure": 5}, "measure"),
    ],
)
def test_the_layer_says_what_it_needs(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        rate_limit(**settings)


async def echo(request: str, ctx: Context) -> str:
    return request


@pytest.mark.parametrize(
    ("setting", "weight"), [("estimate", each) for each in ("3", None, float("nan"), -1, True)] + [("measure", [1])]
)
async def test_a_weight_that_is_no_number_is_named(setting: str, weight: Any) -> None:
    functions: Any = {"estimate": lambda request: 1, setting: lambda request: weight}
    service = stack(echo, rate_limit(limiter=RateLimiter(weight=9), **functions))
    with pytest.raises(ConfigurationError, match=f"{setting}=..."):
        await service("x", root())
