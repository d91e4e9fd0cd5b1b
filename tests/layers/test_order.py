"""The recommended order of layers: what each position is for."""

import asyncio

import pytest

from ziggurat import Agent, Context, Timeout, stack, tool
from ziggurat.core import CLOCK, root
from ziggurat.core.context import JOURNAL
from ziggurat.errors import CircuitOpen, LimitExceeded
from ziggurat.journal import LocalJournal
from ziggurat.journal.entries import Failure
from ziggurat.layers import Bulkhead, CircuitBreaker, Gate, RateLimiter, RetryBudget
from ziggurat.layers.alternatives import fallback
from ziggurat.layers.circuit_breaker import circuit_breaker
from ziggurat.layers.concurrency_limit import backpressure, concurrency_limit
from ziggurat.layers.rate_limiter import rate_limit
from ziggurat.layers.retry import retry, timeout
from ziggurat.messages import stops, tool_call
from ziggurat.testing import HandClock, ScriptedModel, assert_no_leaks, run_until_idle
from ziggurat.testing.expect import expect


class Upstream:
    """A service that takes a second, and may be down or hang."""

    def __init__(self) -> None:
        self.calls = self.inside = self.most = 0
        self.state = "well"

    async def __call__(self, request: str, ctx: Context) -> str:
        self.calls += 1
        self.inside += 1
        self.most = max(self.most, self.inside)
        try:
            await ctx.clock.sleep(1e9 if self.state == "hangs" else 1)
            if self.state == "down":
                raise ConnectionError("down")
            return request
        finally:
            self.inside -= 1


class Stacked:
    """An upstream in the recommended order, and all its state."""

    def __init__(self) -> None:
        self.upstream = Upstream()
        self.clock = HandClock(auto=True)
        self.gate = Gate(1_000)
        self.breaker = CircuitBreaker(consecutive=5, open_seconds=30, permits=2)
        self.slots = Bulkhead(10)
        self.limiter = RateLimiter(requests=1_000, seconds=1)
        self.service = stack(
            self.upstream,
            timeout(seconds=300),
            backpressure(gate=self.gate),
            retry(attempts=4, budget=RetryBudget(minimum_per_second=1)),
            circuit_breaker(breaker=self.breaker),
            timeout(seconds=10),
            concurrency_limit(bulkhead=self.slots),
            rate_limit(limiter=self.limiter),
        )
        self.ctx = root().within(CLOCK, self.clock)

    async def ask(self, number: int, *, apart: float = 0.0) -> list[str | BaseException]:
        """Make `number` calls, each `apart` seconds after the one before."""
        return await asyncio.gather(*[self._later(each * apart) for each in range(number)], return_exceptions=True)

    async def _later(self, seconds: float) -> str:
        await self.clock.sleep(seconds)
        return await self.service("q", self.ctx)

    def is_empty(self) -> bool:
        return (self.gate.depth, self.slots.running, self.slots.waiting, self.limiter.waiting, self.clock.waiting) == (
            0,
            0,
            0,
            0,
            0,
        )


@pytest.mark.parametrize(("state", "unnoticed"), [("down", 5), ("hangs", 50)])
async def test_an_outage_is_neither_hammered_nor_forgotten(state: str, unnoticed: int) -> None:
    """Calls before the breaker opens get through, and then about one trial in each open period."""
    it = Stacked()
    async with assert_no_leaks():
        assert await it.ask(50) == ["q"] * 50
        it.upstream.state, it.upstream.calls = state, 0
        ends = await it.ask(200, apart=0.2)
        assert {type(end) for end in ends} <= {ConnectionError, CircuitOpen, Timeout}
        assert it.upstream.calls <= unnoticed + 20  # of 800 tries
        assert it.upstream.most <= 10
        assert it.is_empty()
        it.upstream.state = "well"
        await it.clock.sleep(60)
        assert (await it.ask(2), await it.ask(50)) == (["q"] * 2, ["q"] * 50)
        assert it.breaker.state() == "closed"


async def test_nothing_is_kept_wherever_callers_give_up() -> None:
    """Permits, slots and turns come back from calls cancelled after every turn of the event loop."""
    it = Stacked()
    it.clock = HandClock()
    it.ctx = it.ctx.within(CLOCK, it.clock)
    it.limiter.requests = 15
    async with assert_no_leaks():
        for turns in range(40):
            tasks = [asyncio.create_task(it.service("q", it.ctx)) for _ in range(30)]
            for turn in range(turns):
                await (it.clock.advance(0.3) if turn % 4 == 3 else asyncio.sleep(0))
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await run_until_idle()
            assert it.is_empty()
            await it.clock.advance(1)


async def test_a_late_try_is_a_failure_to_the_breaker() -> None:
    it = Stacked()
    it.upstream.state = "hangs"
    await it.ask(5)
    assert it.breaker.state() == "open"


async def test_waiting_between_tries_takes_no_slot() -> None:
    bulkhead, clock = Bulkhead(1), HandClock()
    service, handle = expect()
    ctx = root().within(CLOCK, clock)
    limited = stack(service, retry(jitter="none", base=5), concurrency_limit(bulkhead=bulkhead))
    one = asyncio.create_task(limited("one", ctx))
    _, reply = await handle.next()
    reply.fail(ConnectionError())
    await run_until_idle()
    other = asyncio.create_task(limited("other", ctx))
    request, reply = await handle.next()
    assert request == "other"
    reply.send("done")
    assert await other == "done"
    await clock.advance(5)
    _, reply = await handle.next()
    reply.send("done")
    assert await one == "done"


def test_an_open_breaker_lets_a_fallback_answer() -> None:
    breaker = CircuitBreaker()
    breaker.force_open()
    first = stack(ScriptedModel(always="first", name="first"), circuit_breaker(breaker=breaker))
    run = Agent(fallback(first, ScriptedModel(always="second", name="second"))).run_sync("?")
    assert run.text == "second"


def test_a_run_that_is_refused_says_so_and_is_not_said_to_have_used_up_anything() -> None:
    breaker = CircuitBreaker(name="forecaster")
    breaker.force_open()
    run = Agent(stack(ScriptedModel(always="x"), circuit_breaker(breaker=breaker))).run_sync("?")
    assert isinstance(run.stop, stops.Failed)
    assert run.stop.kind == "CircuitOpen"
    assert "forecaster" in run.stop.error


def test_a_refused_tool_is_told_to_the_model() -> None:
    slots = Bulkhead(1, queue=0)
    slots.take("another call")

    @tool
    async def weather(city: str) -> str:
        return "rain"

    model = ScriptedModel(tool_call("weather", city="Rome"), "I cannot.")
    run = Agent(model, tools=[stack(weather, concurrency_limit(bulkhead=slots))]).run_sync("?")
    assert run.text == "I cannot."
    assert "slots are taken" in run.observations[0]
    assert slots.running == 1


async def test_a_refusal_is_on_record_and_not_decided_again() -> None:
    """A refused try stays refused when the run is read back, though the limit would let it pass now."""
    slots, journal, clock = Bulkhead(1, queue=0), LocalJournal(), HandClock(auto=True)
    model = ScriptedModel(always="Here.", name="m")
    limited = stack(model, concurrency_limit(bulkhead=slots))

    async def ask(journal: LocalJournal) -> object:
        ctx = root("trip/model").within(JOURNAL, journal).within(CLOCK, clock)
        return await ctx.once("m", "q", limited, returns=object)  # type: ignore[arg-type]

    slots.take("another call")
    with pytest.raises(LimitExceeded):
        await ask(journal)
    slots.release("another call")
    assert [type(entry) for entry in journal.entries] == [Failure]
    again = LocalJournal.load(journal.dump())
    with pytest.raises(LimitExceeded) as raised:
        await ask(again)
    assert raised.value.transient
    assert raised.value.kind == "concurrency"
    assert model.calls == []
    assert len(again.entries) == 1
