"""The state of circuit breakers: shared by name, in async backends, and the counts of windows."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import product
from typing import Any, TypeVar, TypeVarTuple

import msgspec
import pytest
from hypothesis import given, strategies as st

from tests.layers.guarded import GONE, Guarded
from tests.samples import sample
from ziggurat import Context, stack
from ziggurat.core import CLOCK, root
from ziggurat.core.clock import Clock
from ziggurat.layers import CircuitBreaker
from ziggurat.layers.circuit_breaker import Circuit, LocalBackend, circuit_breaker
from ziggurat.testing import HandClock, assert_no_leaks

T = TypeVar("T")
A = TypeVarTuple("A")

ENDS = ["hangs", "raises", "late success", "late failure"]
OPEN_SECONDS, PERMITS = 10, 2
STEPS = st.one_of(
    st.just(("call",)),
    st.tuples(st.just("end"), st.integers(0, 5), st.sampled_from([False, True, None])),
    st.tuples(st.just("wait"), st.sampled_from([1, 4, OPEN_SECONDS])),
)


class Specification:
    """What a breaker that opens after two failures in a row does, written down in the words of its documentation."""

    def __init__(self) -> None:
        self.state = "closed"
        self.period = 0  # counts changes of state
        self.failures = self.successes = 0
        self.changed = self.now = 0
        self.trials: dict[int, int] = {}

    def change(self, state: str) -> None:
        self.state, self.period, self.changed = state, self.period + 1, self.now
        self.failures = self.successes = 0
        self.trials.clear()

    def call(self, name: int) -> bool:
        if self.state == "closed":
            return True
        if self.state == "open":
            if self.now < self.changed + OPEN_SECONDS:
                return False
            self.change("half_open")
        current = [began for began in self.trials.values() if self.now < began + OPEN_SECONDS]
        if len(current) + self.successes >= PERMITS:
            return False
        self.trials[name] = self.now
        return True

    def end(self, name: int, period: int, outcome: bool | None) -> None:
        if period != self.period or self.state == "open":
            return
        self.trials.pop(name, None)
        if outcome:
            self.failures += 1
            if self.state == "half_open" or self.failures == 2:
                self.change("open")
        elif outcome is False:
            self.failures, self.successes = 0, self.successes + 1
            if self.state == "half_open" and self.successes >= PERMITS:
                self.change("closed")


def replaced(circuit: Circuit) -> Circuit:
    """Return the circuit as another process reads it."""
    return msgspec.json.decode(msgspec.json.encode(circuit), type=Circuit)


@given(st.lists(STEPS, max_size=60))
def test_any_sequence_of_calls_ends_and_waits_follows_the_specification(steps: list[tuple[Any, ...]]) -> None:
    rules = CircuitBreaker(consecutive=2, open_seconds=OPEN_SECONDS, permits=PERMITS)
    circuit, expected = Circuit(), Specification()
    running: list[tuple[int, int, int]] = []  # name, ticket, and the period in which it began
    for name, (what, *arguments) in enumerate(steps):
        if what == "wait":
            expected.now += arguments[0]
        elif what == "call":
            verdict = circuit.admit(rules, expected.now)
            assert (verdict.ticket >= 0) is expected.call(name)
            if verdict.ticket >= 0:
                running.append((name, verdict.ticket, expected.period))
        elif running:
            index, outcome = arguments
            ended, ticket, period = running.pop(index % len(running))
            circuit.settle(rules, ticket, outcome, expected.now)
            expected.end(ended, period, outcome)
        circuit = replaced(circuit)
        assert circuit.state == expected.state
        assert len(circuit.trials) <= PERMITS
        after = replaced(circuit)
        assert after.admit(rules, expected.now + OPEN_SECONDS).ticket >= 0  # whatever happened, it is tried again


@pytest.mark.parametrize(("end", "far"), sample(product(ENDS, [False, True]), 5))
async def test_a_trial_that_does_not_end_loses_its_permit_after_one_open_period(far: bool, end: str) -> None:
    clock = HandClock()
    it = Guarded(consecutive=1, permits=1, open_seconds=30, backend=FarBackend(clock) if far else None)
    it.ctx = it.ctx.within(CLOCK, clock)
    it.thing.clock = clock

    async def ask(*requests: object) -> list[object]:
        asking = asyncio.create_task(it.ask(*requests))
        await clock.advance(1)
        return await asking

    async def state() -> str:
        asking = asyncio.ensure_future(later(it.breaker.state())) if far else None
        await clock.advance(1)
        return str(it.breaker.state() if asking is None else await asking)

    await ask(GONE)
    await clock.advance(30)
    forever: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    trial = asyncio.create_task(it.service(forever, it.ctx))
    await clock.advance(1)
    assert await ask("x") == ["CircuitOpen"]
    await clock.advance(30)
    if end == "late success":
        forever.set_result("fine")
    elif end == "late failure":
        forever.set_exception(GONE)
    elif end == "raises":
        forever.set_exception(KeyError("a bug, which says nothing of health"))
    await clock.advance(1)
    if end == "late failure":
        assert await state() == "open"
    else:
        assert await ask("x") == ["x"]
        assert await state() == "closed"
    trial.cancel()
    await clock.advance(1)
    assert await asyncio.gather(trial, return_exceptions=True)
    assert await state() == ("open" if end == "late failure" else "closed")


class AsyncBackend(LocalBackend):
    """A backend that answers with awaitables."""

    async def update(self, name: str, change: Callable[[Circuit, *A], T], /, *args: *A) -> T:  # type: ignore[override]
        return super().update(name, change, *args)


@pytest.mark.parametrize("far", [False, True])
def test_a_trial_whose_event_loop_is_gone_does_not_keep_its_permit(far: bool) -> None:
    it = Guarded(consecutive=1, permits=1, open_seconds=30, backend=AsyncBackend() if far else None)
    loop = asyncio.new_event_loop()

    async def begin() -> None:
        await it.ask(GONE)
        await it.clock.advance(30)
        trials.append(asyncio.create_task(it.service(loop.create_future(), it.ctx)))
        for _ in range(5):
            await asyncio.sleep(0)

    trials: list[asyncio.Task[object]] = []
    loop.run_until_complete(begin())
    loop.close()
    coroutine = trials[0].get_coro()
    assert coroutine is not None
    coroutine.close()  # as the collector does
    trials[0]._log_destroy_pending = False  # type: ignore[attr-defined]
    if far:
        asyncio.run(it.clock.advance(30))  # nothing could be awaited, so it lapses
    assert asyncio.run(it.ask("x")) == ["x"]


async def test_breakers_share_a_circuit_by_its_name() -> None:
    backend = LocalBackend()
    one, same, other = (CircuitBreaker(consecutive=1, name=name, backend=backend) for name in ("a", "a", "b"))

    async def fails(request: str, ctx: Context) -> None:
        raise GONE

    with pytest.raises(ConnectionError):
        await stack(fails, circuit_breaker(breaker=one))("q", root())
    assert (same.state(), other.state()) == ("open", "closed")


async def later(answer: T | Awaitable[T]) -> T:
    """Wait for a result that must be an awaitable."""
    assert isinstance(answer, Awaitable)
    return await answer


class FarBackend:
    """A backend that stores circuits as bytes and answers asynchronously."""

    def __init__(self, clock: HandClock) -> None:
        self.kept: dict[str, bytes] = {}
        self.clock = clock
        self.lock = asyncio.Lock()

    def time(self, clock: Clock) -> float:
        return clock.now()

    async def update(self, name: str, change: Callable[[Circuit, *A], T], /, *args: *A) -> T:
        async with self.lock:
            circuit = msgspec.json.decode(self.kept[name], type=Circuit) if name in self.kept else Circuit()
            await self.clock.sleep(0.01)
            answer = change(circuit, *args)
            self.kept[name] = msgspec.json.encode(circuit)
            return answer


@pytest.mark.parametrize("window", [{}, {"failure_rate": 0.5, "window_seconds": 10, "minimum_calls": 5}])
async def test_state_may_be_kept_far_away(window: dict[str, Any]) -> None:
    async with assert_no_leaks():
        clock = HandClock(auto=True)
        far = FarBackend(clock)
        it = Guarded(permits=3, backend=far, **window)
        it.clock = it.thing.clock = clock
        it.ctx = it.ctx.within(CLOCK, clock)
        await it.ask(*[GONE] * 5)
        assert await later(it.breaker.state()) == "open"
        await clock.advance(30)
        answers = await asyncio.gather(*[it.ask(5.0) for _ in range(100)])
        assert answers.count([5.0]) == 3
        assert await later(it.breaker.state()) == "closed"


@pytest.mark.parametrize("turns", sample(range(12), 4))
async def test_a_permit_far_away_survives_a_cancellation_at_every_turn(turns: int) -> None:
    async with assert_no_leaks():
        clock = HandClock()
        it = Guarded(permits=1, backend=FarBackend(clock))
        it.ctx = it.ctx.within(CLOCK, clock)
        it.thing.clock = clock
        opening = asyncio.create_task(it.ask(*[GONE] * 5))
        await clock.advance(1)
        await opening
        await clock.advance(30)
        trial = asyncio.create_task(it.ask(0.02))
        for _ in range(turns):
            await clock.advance(0.004)
        trial.cancel()
        await clock.advance(1)
        assert trial.done()
        after = asyncio.create_task(it.ask("x"))
        await clock.advance(1)
        assert await after == ["x"]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3)), max_size=100))
def test_the_window_holds_what_it_should(steps: list[tuple[bool, int]]) -> None:
    """The rate is that of the calls in the last 10 slices of a second."""
    rules = CircuitBreaker(failure_rate=1.0, minimum_calls=8, window_seconds=10)
    circuit, now = Circuit(), 0
    seen: list[tuple[int, bool]] = []
    for failed, wait in steps:
        now += wait
        circuit.settle(rules, circuit.epoch, failed, now)
        seen.append((now, failed))
        held = [each for at, each in seen if at > now - 10]
        if len(held) >= 8 and all(held):
            assert circuit.state == "open"
            return
        counts = [(calls, failures) for _, calls, failures in circuit.slices]
        assert circuit.state == "closed"
        assert [sum(each) for each in zip(*counts, strict=True)] == [len(held), sum(held)]
