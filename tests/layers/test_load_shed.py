import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ziggurat import ConfigurationError, Context, stack
from ziggurat.core import CLOCK, root
from ziggurat.core.context import JOURNAL
from ziggurat.errors import LimitExceeded
from ziggurat.journal import LocalJournal
from ziggurat.layers import Bulkhead, Gate, RateLimiter
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


def test_in_a_replay_nothing_is_shed() -> None:
    service = stack(answer, load_shed(when=lambda: True))
    with pytest.raises(LimitExceeded):
        asyncio.run(service("q", root()))
    assert asyncio.run(service("q", root().within(JOURNAL, LocalJournal("replay")))) == "q"


@pytest.mark.parametrize(
    "make",
    [
        load_shed, lambda: load_shed(when=WRONG),
    ],
)  # fmt: skip
def test_settings_that_make_no_sense_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(ConfigurationError, match="load_shed"):
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
