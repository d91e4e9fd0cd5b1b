"""What a step costs: the number of Python functions that are called for it, which is the same on every machine."""

import asyncio
import gc
import sys
from collections.abc import Callable, Coroutine
from functools import partial
from types import FrameType
from typing import Any

from ziggurat.agents.agent import Agent
from ziggurat.agents.flow import flow
from ziggurat.calls.step import step
from ziggurat.core.layer import stack
from ziggurat.layers.circuit_breaker import CircuitBreaker, circuit_breaker
from ziggurat.layers.concurrency_limit import Bulkhead, concurrency_limit
from ziggurat.layers.retry import RetryBudget, retry
from ziggurat.layers.timeout import timeout
from ziggurat.messages.parts import tool_call
from ziggurat.models.scripted import ScriptedModel
from ziggurat.tools.function import tool


@tool
async def add(a: int, b: int) -> int:
    return a + b


@step
async def double(n: int) -> int:
    return 2 * n


@flow
async def doubles(count: int) -> int:
    return sum([await double(n) for n in range(count)])


STEP = 36
"""Calls for a step with one call of an async tool, without a store; those of the model and the tool are among them.

A tool that is not async runs in a thread, and how often the event loop turns until it has ended differs.
"""

GUARDED_STEP = 130 if sys.version_info >= (3, 12) else 165
"""Calls for a step with guards around its model and its tool; those of asyncio, which runs a task, are among them."""

RECORDED = 10 if sys.version_info >= (3, 12) else 11
"""Calls for a recorded step of a flow, without a store; that of its function is among them."""

RUN = 120 if sys.version_info >= (3, 12) else 124
"""Calls for a run that is answered at once."""


def guards() -> list[Any]:
    """Return the layers that usually protect a call over a network."""
    return [
        retry(attempts=3, budget=RetryBudget()),
        circuit_breaker(breaker=CircuitBreaker(failure_rate=0.5, window_calls=100)),
        timeout(seconds=30),
        concurrency_limit(bulkhead=Bulkhead(64)),
    ]


def calls_in(steps: int, layers: Callable[[], list[Any]] = list) -> int:
    """Return how many calls of Python functions a run of so many steps makes; one run in 64 makes new ids besides."""
    return min(_calls_of(partial(_agent(steps, layers).run, "go")) for _ in range(2))


def _agent(steps: int, layers: Callable[[], list[Any]]) -> Agent:
    model = stack(ScriptedModel(*[tool_call("add", a=1, b=2)] * steps, "done"), *layers())
    return Agent(model, tools=[stack(add, *layers())], max_steps=1_000)


def _calls_of(run: Callable[[], Coroutine[Any, Any, object]]) -> int:
    number = 0

    def count(frame: FrameType, what: str, value: object) -> None:
        nonlocal number
        number += what == "call"

    async def counted() -> None:
        gc.disable()  # it may call finalizers of other tests
        sys.setprofile(count)
        try:
            await run()
        finally:
            sys.setprofile(None)
            gc.enable()

    asyncio.run(counted())
    return number


def test_a_step_makes_a_bounded_number_of_calls() -> None:
    calls_in(2)  # what is made once
    few, some, many = calls_in(10), calls_in(30), calls_in(130)
    assert (some - few) / 20 <= STEP
    assert (many - some) / 100 <= STEP


def test_guards_around_model_and_tool_make_a_bounded_number_of_calls() -> None:
    calls_in(2, guards)  # what is made once
    few, some, many = (calls_in(steps, guards) for steps in (10, 30, 130))
    assert (some - few) / 20 <= GUARDED_STEP
    assert (many - some) / 100 <= GUARDED_STEP


def test_guards_leave_nothing_for_the_garbage_collector() -> None:
    async def found(steps: int) -> int:
        agent = _agent(steps, guards)
        gc.collect()
        gc.disable()
        try:
            await agent.run("go")
            return gc.collect()
        finally:
            gc.enable()

    asyncio.run(found(2))  # what is made once
    assert asyncio.run(found(52)) < asyncio.run(found(2)) + 10


def test_a_recorded_step_of_a_flow_makes_a_bounded_number_of_calls() -> None:
    _calls_of(partial(doubles.run, 2))  # what is made once
    few, some, many = (min(_calls_of(partial(doubles.run, count)) for _ in range(2)) for count in (10, 30, 130))
    assert (some - few) / 20 <= RECORDED
    assert (many - some) / 100 <= RECORDED


def test_a_run_makes_a_bounded_number_of_calls() -> None:
    calls_in(0)  # what is made once
    assert calls_in(0) <= RUN
