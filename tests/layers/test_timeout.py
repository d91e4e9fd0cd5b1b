import asyncio
from typing import Any

import pytest

from ziggurat import ConfigurationError, Context, Timeout, stack
from ziggurat.core import CLOCK, root
from ziggurat.layers.retry import timeout
from ziggurat.testing import HandClock, assert_no_leaks
from ziggurat.testing.expect import expect


async def test_an_answer_in_time_passes() -> None:
    clock = HandClock()
    service, handle = expect(str, str)
    task = asyncio.create_task(stack(service, timeout(seconds=5))("q", root().within(CLOCK, clock)))
    _, reply = await handle.next()
    await clock.advance(4.9)
    reply.send("in time")
    assert await task == "in time"
    assert clock.waiting == 0


async def test_a_late_call_is_cancelled() -> None:
    clock = HandClock()
    async with assert_no_leaks():
        service, handle = expect(str, str)
        ctx = root("trip").within(CLOCK, clock)
        task = asyncio.create_task(stack(service, timeout(seconds=5))("q", ctx))
        _, reply = await handle.next()
        await clock.advance(5)
        with pytest.raises(Timeout, match="trip timed out after 5 s") as raised:
            await task
        assert raised.value.transient
        assert raised.value.seconds == 5
        assert reply.abandoned


async def test_what_is_called_sees_the_deadline_and_never_a_later_one() -> None:
    clock = HandClock(auto=True)
    seen: list[float | None] = []

    async def service(request: str, ctx: Context) -> None:
        seen.append(ctx.deadline)

    await stack(service, timeout(seconds=5), timeout(seconds=9))("q", root().within(CLOCK, clock))
    await stack(service, timeout(seconds=9), timeout(seconds=5))("q", root().within(CLOCK, clock))
    assert seen == [5, 5]


async def test_cancelling_from_outside_stays_cancelling() -> None:
    clock = HandClock()
    service, handle = expect(str, str)
    task = asyncio.create_task(stack(service, timeout(seconds=5))("q", root().within(CLOCK, clock)))
    await handle.next()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert clock.waiting == 0


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), "5", None, True, 10**400])
def test_a_limit_that_makes_no_sense_is_refused(seconds: Any) -> None:
    with pytest.raises(ConfigurationError, match="seconds"):
        timeout(seconds=seconds)


def test_the_limit_must_be_given() -> None:
    unset: Any = timeout
    with pytest.raises(ConfigurationError, match="missing: seconds"):
        unset()


@pytest.mark.parametrize(("outer", "inner", "blamed"), [(5, 9, 5), (9, 5, 5), (5, 5, 5)])
async def test_of_nested_timeouts_the_one_that_passed_is_blamed(outer: int, inner: int, blamed: int) -> None:
    clock = HandClock()
    service, handle = expect(str, str)
    ctx = root().within(CLOCK, clock)
    task = asyncio.create_task(stack(service, timeout(seconds=outer), timeout(seconds=inner))("q", ctx))
    await handle.next()
    await clock.advance(20)
    with pytest.raises(Timeout) as raised:
        await task
    assert raised.value.seconds == blamed
    assert task.cancelling() == 0
    assert clock.waiting == 0


async def test_a_timeout_after_a_cancellation_is_not_blamed() -> None:
    clock = HandClock()
    cleaning = asyncio.Event()

    async def slow_to_end(request: str, ctx: Context) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await cleaning.wait()

    task = asyncio.create_task(stack(slow_to_end, timeout(seconds=5))("q", root().within(CLOCK, clock)))
    await clock.advance(1)
    task.cancel()
    await clock.advance(9)
    cleaning.set()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_cleaning_up_after_a_timeout_is_completed() -> None:
    clock = HandClock()
    cleaned: list[str] = []

    async def tidy(request: str, ctx: Context) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await ctx.clock.sleep(3)
            cleaned.append("all")

    async with assert_no_leaks():
        task = asyncio.create_task(stack(tidy, timeout(seconds=5))("q", root().within(CLOCK, clock)))
        await clock.advance(6)
        assert not task.done()
        await clock.advance(2)
        with pytest.raises(Timeout):
            await task
    assert cleaned == ["all"]
