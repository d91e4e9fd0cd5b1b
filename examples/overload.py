"""Overload: limits and a circuit breaker between many callers and a model that is down for some time."""

import asyncio

from ziggurat import Agent, stack
from ziggurat.core.event import CircuitChanged, Event, Queued, UnderPressure
from ziggurat.layers.backpressure import Gate, backpressure
from ziggurat.layers.circuit_breaker import CircuitBreaker, circuit_breaker
from ziggurat.layers.concurrency_limit import Bulkhead, concurrency_limit
from ziggurat.layers.rate_limit import RateLimiter, rate_limit
from ziggurat.layers.retry import RetryBudget, retry
from ziggurat.layers.timeout import timeout
from ziggurat.runs.options import Environment
from ziggurat.testing import HandClock, ScriptedModel

clock = HandClock(auto=True)  # waiting takes no time here; remove it to wait in real time
waited: list[Queued] = []


def tell(event: Event) -> None:
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
    runs = await asyncio.gather(
        *[desk.run(each, environment=Environment(clock=clock), listeners=[tell]) for each in questions]
    )
    answered = [run for run in runs if run.text]
    print(f"{clock.monotonic():4.0f} s  {len(answered)} of {len(runs)} answered, {len(forecaster.calls)} calls")
    print(next(run.stop for run in runs if not run.text))
    print(f"{len(waited)} calls waited for their turn")


if __name__ == "__main__":
    asyncio.run(main())
