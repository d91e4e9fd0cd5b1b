"""The cost of layers: each around a service that does nothing, and stacks of them in a run of an agent.

    python -P benchmarks/layers.py

CPU time in microseconds; the best of several rounds for a call, and the median over rounds, each next to a plain run,
for a step of an agent (one question to a model and one call of a tool).
"""

import asyncio
import statistics
import time
from collections.abc import Callable
from typing import Any

from ziggurat import Agent, Middleware, stack, tool
from ziggurat.core.context import Context, root
from ziggurat.layers.alternatives import fallback, hedge
from ziggurat.layers.cache import CacheStore, DedupeStore, cache, dedupe
from ziggurat.layers.circuit_breaker import CircuitBreaker, circuit_breaker
from ziggurat.layers.concurrency_limit import Bulkhead, Gate, backpressure, concurrency_limit
from ziggurat.layers.pipeline import pipeline, steer, tap
from ziggurat.layers.rate_limiter import RateLimiter, rate_limit
from ziggurat.layers.retry import RetryBudget, retry, timeout
from ziggurat.messages.message import Message, Text, tool_call
from ziggurat.messages.model import ModelRequest, ModelResponse

CALLS, STEPS, ROUNDS = 2_000, 200, 15


async def nothing(request: int, ctx: Context) -> int:
    """Return the request at once."""
    return request


def look(what: object, ctx: Context) -> None:
    """Do nothing with what a tap passes."""


SERVICES: dict[str, Callable[[], Any]] = {
    "retry": lambda: stack(nothing, retry()),
    "retry, with a budget": lambda: stack(nothing, retry(budget=RetryBudget())),
    "timeout": lambda: stack(nothing, timeout(seconds=30)),
    "circuit_breaker": lambda: stack(nothing, circuit_breaker(breaker=CircuitBreaker(consecutive=5))),
    "circuit_breaker, by rate": lambda: stack(nothing, circuit_breaker(breaker=CircuitBreaker(failure_rate=0.5))),
    "concurrency_limit": lambda: stack(nothing, concurrency_limit(bulkhead=Bulkhead(8))),
    "rate_limit": lambda: stack(nothing, rate_limit(limiter=RateLimiter(requests=1_000_000))),
    "backpressure": lambda: stack(nothing, backpressure(gate=Gate(100, soft=80))),
    "dedupe, new": lambda: stack(nothing, dedupe(store=DedupeStore(), key=fresh_key())),
    "cache, new": lambda: stack(nothing, cache(store=CacheStore(), key=fresh_key())),
    "cache, hit": lambda: stack(nothing, cache(store=CacheStore(), key=str)),
    "cache, hit, SHA-256": lambda: stack(nothing, cache(store=CacheStore())),
    "tap": lambda: stack(nothing, tap(on_request=look, on_response=look, on_error=look)),
    "fallback": lambda: fallback(nothing, nothing),
    "hedge": lambda: hedge(nothing, nothing, delay=1),
    "steer": lambda: steer(lambda request, ctx: "a", a=nothing, b=nothing),
    "pipeline of two": lambda: pipeline(nothing, nothing),
}


def fresh_key() -> Callable[[object], str]:
    """Return a function that never returns the same key twice."""
    number = 0

    def key(request: object) -> str:
        nonlocal number
        number += 1
        return str(number)

    return key


async def cost(service: Any) -> float:
    """Return the cost of one call, in microseconds of CPU time: the best of several rounds."""
    ctx, best = root(), float("inf")
    for _ in range(ROUNDS):
        before = time.process_time()
        for _ in range(CALLS):
            await service(1, ctx.again())
        best = min(best, time.process_time() - before)
    return best / CALLS * 1e6


# -- stacks in a run -------------------------------------------------------------------------------------------------


def taps() -> list[Any]:
    """Return five taps that see every request, response and error."""
    return [tap(on_request=look, on_response=look, on_error=look)] * 5


def guards() -> list[Any]:
    """Return the layers that usually protect a call over a network."""
    return [
        retry(attempts=3, budget=RetryBudget()),
        circuit_breaker(breaker=CircuitBreaker(failure_rate=0.5)),
        timeout(seconds=30),
        concurrency_limit(bulkhead=Bulkhead(64)),
        tap(on_request=look, on_response=look, on_error=look),
    ]


class Empty(Middleware):
    """A middleware that overrides no hook."""


def agent(layers: Callable[[], list[Any]] = list, middleware: tuple[Middleware, ...] = ()) -> Agent:
    """Make an agent that takes STEPS steps, with layers around its model and its tool."""

    async def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    async def model(request: ModelRequest, ctx: Context) -> ModelResponse:
        asked = len(request.messages)
        if asked >= 2 * STEPS:
            return ModelResponse(Message("assistant", (Text("done"),)))
        return ModelResponse(Message("assistant", (tool_call("add", id=f"call_{asked}", a=asked, b=1),)), "tool_calls")

    around = layers()
    adding = stack(tool(add), *layers()) if around else add
    return Agent(stack(model, *around), tools=[adding], max_steps=2 * STEPS, middleware=middleware)


STACKS: dict[str, Callable[[], Agent]] = {
    "plain": agent,
    "one empty middleware": lambda: agent(middleware=(Empty(),)),
    "five taps on both, one empty middleware (bound: 3)": lambda: agent(taps, (Empty(),)),
    "retry, breaker, timeout, limit, tap on both (bound: 25)": lambda: agent(guards),
}


async def added() -> dict[str, tuple[float, float]]:
    """Return for each stack the cost of a step, and how much that exceeds the plain one of the same round."""
    agents = {name: make() for name, make in STACKS.items()}
    measured: dict[str, list[float]] = {name: [] for name in agents}
    for number in range(2 * ROUNDS):
        for name in list(agents) if number % 2 else reversed(agents):
            before = time.process_time()
            run = await agents[name].run("go")
            measured[name].append((time.process_time() - before) / STEPS * 1e6)
            run.raise_for_stop()
    plain = measured["plain"]
    return {
        name: (
            statistics.median(costs),
            statistics.median(cost - base for cost, base in zip(costs, plain, strict=True)),
        )
        for name, costs in measured.items()
    }


def main() -> None:
    """Print both tables."""
    bare = asyncio.run(cost(nothing))
    print(f"a call of a service that does nothing: {bare:.2f} µs; around it, more by")
    for name, make in SERVICES.items():
        print(f"  {name:<28}{asyncio.run(cost(make())) - bare:6.2f} µs")
    print("a step of an agent, and what layers add to it")
    for name, (step, more) in asyncio.run(added()).items():
        print(f"  {name:<58}{step:6.2f} µs  {more:+6.2f}")


if __name__ == "__main__":
    main()
