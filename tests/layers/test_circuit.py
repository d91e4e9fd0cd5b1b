"""The state of circuit breakers: shared by name, in async backends, and the counts of windows."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, TypeVarTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.layers.guarded import GONE, Guarded
from ziggurat.core.clock import CLOCK, Clock
from ziggurat.core.context import Context, root
from ziggurat.core.layer import stack
from ziggurat.layers.circuit import Circuit, MemoryBackend
from ziggurat.layers.circuit_breaker import CircuitBreaker, circuit_breaker
from ziggurat.testing.clock import HandClock
from ziggurat.testing.leaks import assert_no_leaks

T = TypeVar("T")
A = TypeVarTuple("A")


def test_breakers_share_a_circuit_by_its_name() -> None:
    backend = MemoryBackend()
    one, same, other = (CircuitBreaker(consecutive=1, name=name, backend=backend) for name in ("a", "a", "b"))

    async def fails(request: str, ctx: Context) -> None:
        raise GONE

    async def main() -> None:
        with pytest.raises(ConnectionError):
            await stack(fails, circuit_breaker(breaker=one))("q", root())
        assert (same.state(), other.state()) == ("open", "closed")

    asyncio.run(main())


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
def test_state_may_be_kept_far_away(window: dict[str, Any]) -> None:
    async def main() -> None:
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

    asyncio.run(main())


@pytest.mark.parametrize("turns", range(12))
def test_a_permit_far_away_survives_a_cancellation_at_every_turn(turns: int) -> None:
    async def main() -> None:
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

    asyncio.run(main())


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3)), max_size=100), st.booleans())
def test_windows_hold_what_they_should(steps: list[tuple[bool, int]], in_time: bool) -> None:
    """The rate is that of the last 8 calls, or of the calls in the last 10 slices of a second."""
    window: dict[str, Any] = {"window_seconds": 10} if in_time else {"window_calls": 8}
    rules = CircuitBreaker(failure_rate=1.0, minimum_calls=8, **window).rules
    circuit, now = Circuit(), 0
    seen: list[tuple[int, bool]] = []
    for failed, wait in steps:
        now += wait
        circuit.settle(rules, circuit.epoch, int(failed), now)
        seen.append((now, failed))
        held = [each for at, each in seen if at > now - 10] if in_time else [each for _, each in seen[-8:]]
        if len(held) >= 8 and all(held):
            assert circuit.state == "open"
            return
        assert (circuit.state, circuit.calls, circuit.failed) == ("closed", len(held), sum(held))
