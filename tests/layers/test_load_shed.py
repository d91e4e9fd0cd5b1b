import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from ziggurat import ConfigurationError, Context, Service, Timeout, stack
from ziggurat.core import CLOCK, root
from ziggurat.core.clock import RANDOM
from ziggurat.core.context import JOURNAL
from ziggurat.errors import LimitExceeded
from ziggurat.journal import LocalJournal
from ziggurat.layers import Bulkhead, Gate, LatencyGradient, RateLimiter
from ziggurat.layers.concurrency_limit import concurrency_limit
from ziggurat.layers.load_shed import load_shed
from ziggurat.layers.retry import retry
from ziggurat.testing import HandClock, run_until_idle
from ziggurat.testing.expect import expect

WRONG: Any = 2.0


async def answer(request: str, ctx: Context) -> str:
    return request


async def test_what_would_wait_beneath_is_refused_at_once() -> None:
    bulkhead = Bulkhead(1)
    service, handle = expect()
    shedding = stack(service, load_shed(when=bulkhead.is_full), retry(), concurrency_limit(bulkhead=bulkhead))
    task = asyncio.create_task(shedding("q", root()))
    _, reply = await handle.next()
    with pytest.raises(LimitExceeded, match="busy") as raised:
        await shedding("q", root())
    assert raised.value.kind == "load"
    assert raised.value.transient
    assert handle.none_waiting()
    assert bulkhead.waiting == 0
    reply.send("a")
    assert await task == "a"


@pytest.mark.parametrize("limit", [Bulkhead(1), Gate(1), RateLimiter(requests=1)])
async def test_every_limit_tells_whether_it_is_full(limit: Bulkhead | Gate | RateLimiter) -> None:
    assert not limit.is_full()
    assert await stack(answer, load_shed(when=limit.is_full))("q", root()) == "q"


def measured(gradient: LatencyGradient) -> tuple[Service[float, float], Context]:
    clock = HandClock(auto=True)

    async def service(request: float, ctx: Context) -> float:
        await ctx.clock.sleep(request)
        return request

    ctx = root().within(CLOCK, clock).within(RANDOM, Random(7).random)
    return stack(service, load_shed(gradient=gradient)), ctx


async def test_it_sheds_the_more_the_slower_calls_become_and_recovers() -> None:
    gradient = LatencyGradient(tolerance=2, minimum_calls=50)
    service, ctx = measured(gradient)

    async def passed(seconds: float, calls: int) -> int:
        ends = [await asyncio.gather(service(seconds, ctx), return_exceptions=True) for _ in range(calls)]
        return sum(end == seconds for (end,) in ends)

    assert await passed(1.0, 500) == 500
    assert await passed(1.9, 20) == 20  # slower, but within what is tolerated
    assert await passed(1.0, 300) == 300
    through = await passed(8.0, 200)
    assert 50 < through < 120
    assert gradient.share() < 0.6
    await passed(1.0, 100)
    assert gradient.share() == 1.0
    assert await passed(1.0, 50) == 50


def test_it_sheds_nothing_before_it_knows_what_is_usual() -> None:
    gradient = LatencyGradient(minimum_calls=50)
    for seconds in (1.0, *[100.0] * 48):
        gradient.observe(seconds)
    assert gradient.share() == 1.0


def test_what_takes_next_to_no_time_is_never_slow() -> None:
    gradient = LatencyGradient(minimum_calls=10, floor=0.01)
    for seconds in [1e-7] * 500 + [0.009] * 50:
        gradient.observe(seconds)
        assert gradient.share() == 1.0
    gradient.observe(1.0)
    assert gradient.share() < 1.0
    assert repr(gradient) == "LatencyGradient(tolerance=2, minimum_calls=10, floor=0.01)"


async def test_timeouts_are_slow_calls_and_other_failures_tell_nothing() -> None:
    gradient = LatencyGradient()
    service, handle = expect()
    clock = HandClock()
    ctx = root().within(CLOCK, clock)
    for error in (Timeout(seconds=5), ConnectionError()):
        task = asyncio.create_task(stack(service, load_shed(gradient=gradient))("q", ctx))
        _, reply = await handle.next()
        await clock.advance(5)
        reply.fail(error)
        await asyncio.gather(task, return_exceptions=True)
    assert (gradient.calls, gradient.recent) == (1, 5.0)


def test_in_a_replay_nothing_is_shed() -> None:
    service = stack(answer, load_shed(when=lambda: True))
    with pytest.raises(LimitExceeded):
        asyncio.run(service("q", root()))
    assert asyncio.run(service("q", root().within(JOURNAL, LocalJournal("replay")))) == "q"


@pytest.mark.parametrize(
    "make",
    [
        load_shed, lambda: load_shed(when=WRONG), lambda: load_shed(gradient=WRONG),
        lambda: LatencyGradient(tolerance=1), lambda: LatencyGradient(minimum_calls=0),
        lambda: LatencyGradient(floor=-1), lambda: LatencyGradient(floor=float("nan")),
    ],
)  # fmt: skip
def test_settings_that_make_no_sense_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(ConfigurationError, match=r"load_shed|LatencyGradient"):
        make()


async def test_overload_keeps_what_gets_through_quick() -> None:
    """With ten times the possible load, as many calls as fit are answered at full speed, the rest refused at once."""
    bulkhead, clock = Bulkhead(10), HandClock(auto=True)
    answered, refused = list[float](), list[float]()

    async def service(request: float, ctx: Context) -> float:
        await ctx.clock.sleep(1)
        return request

    shedding = stack(service, load_shed(when=bulkhead.is_full), concurrency_limit(bulkhead=bulkhead))

    async def client(number: int) -> None:
        await clock.sleep(number / 100)
        began = clock.monotonic()
        try:
            await shedding(1.0, root().within(CLOCK, clock))
            answered.append(clock.monotonic() - began)
        except LimitExceeded:
            refused.append(clock.monotonic() - began)

    await asyncio.gather(*[client(number) for number in range(2_000)])
    await run_until_idle()
    assert set(refused) == {0}
    assert max(answered) == pytest.approx(1)
    assert len(answered) >= 0.9 * 10 * 20  # 10 at once, a second each, for 20 seconds
