"""Overload: limits and a circuit breaker between many callers and a model that is down for some time."""

import asyncio

from ziggurat import Agent, Event, stack
from ziggurat.agents import Environment
from ziggurat.events import CircuitChanged, Queued, UnderPressure
from ziggurat.layers import (
    Bulkhead,
    CircuitBreaker,
    Gate,
    RateLimiter,
    RetryBudget,
    backpressure,
    circuit_breaker,
    concurrency_limit,
    rate_limit,
    retry,
    timeout,
)
from ziggurat.testing import HandClock, ScriptedModel

clock = HandClock(auto=True)  # waiting takes no time here; remove it to wait in real time
waited: list[Queued] = []


def report(event: Event) -> None:
    """Print what the limits do; each emits events."""
    if isinstance(event, CircuitChanged):
        print(f"{clock.monotonic():4.0f} s  {event.circuit} is {event.after.replace('_', ' ')}")
    elif isinstance(event, UnderPressure):
        print(f"{clock.monotonic():4.0f} s  {event.depth} questions at once")
    elif isinstance(event, Queued):
        waited.append(event)


async def main() -> None:
    down = [ConnectionError("down")] * 4
    forecaster = ScriptedModel(*down, always="It will be sunny.", name="forecaster")
    model = stack(
        forecaster,
        retry(attempts=4, base=1, budget=RetryBudget()),
        circuit_breaker(breaker=CircuitBreaker(consecutive=3, open_seconds=20, name="forecaster")),
        timeout(seconds=30),
        concurrency_limit(bulkhead=Bulkhead(2, queue=100)),
        rate_limit(limiter=RateLimiter(requests=5, seconds=10)),
    )
    desk = Agent(model).layered(backpressure(gate=Gate(8, soft=7)))
    questions = [f"What will the weather be in {days} days?" for days in range(1, 11)]
    environment = Environment(clock=clock)
    runs = await asyncio.gather(*[desk.run(each, environment=environment, listeners=[report]) for each in questions])
    print(f"{clock.monotonic():4.0f} s  {sum(bool(run.text) for run in runs)} of {len(runs)} answered", end=", ")
    print(f"{len(forecaster.calls)} calls")
    print(next(run.stop for run in runs if not run.text))
    print(f"{len(waited)} calls waited for their turn")


if __name__ == "__main__":
    asyncio.run(main())
