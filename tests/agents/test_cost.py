"""What a step costs: the number of Python functions that are called for it, which is the same on every machine."""

import asyncio
import gc
import sys
from types import FrameType

from ziggurat.agents.agent import Agent
from ziggurat.messages.parts import tool_call
from ziggurat.models.scripted import ScriptedModel
from ziggurat.tools.function import tool


@tool
async def add(a: int, b: int) -> int:
    return a + b


STEP = 46
"""Calls for a step with one call of an async tool, without a store; those of the model and the tool are among them.

A tool that is not async runs in a thread, and how often the event loop turns until it has ended differs.
"""

RUN = 131
"""Calls for a run that is answered at once."""


def calls_in(steps: int) -> int:
    """Return how many calls of Python functions a run of so many steps makes; one run in 64 makes new ids besides."""
    return min(_calls_in_one(steps) for _ in range(2))


def _calls_in_one(steps: int) -> int:
    agent = Agent(ScriptedModel(*[tool_call("add", a=1, b=2)] * steps, "done"), tools=[add], max_steps=1_000)
    number = 0

    def count(frame: FrameType, what: str, value: object) -> None:
        nonlocal number
        number += what == "call"

    async def run() -> int:
        gc.disable()  # it may call finalizers of other tests
        sys.setprofile(count)
        try:
            return (await agent.run("go")).steps
        finally:
            sys.setprofile(None)
            gc.enable()

    assert asyncio.run(run()) == steps + 1
    return number


def test_a_step_makes_a_bounded_number_of_calls() -> None:
    calls_in(2)  # what is made once
    few, some, many = calls_in(10), calls_in(30), calls_in(130)
    assert (some - few) / 20 <= STEP
    assert (many - some) / 100 <= STEP


def test_a_run_makes_a_bounded_number_of_calls() -> None:
    calls_in(0)  # what is made once
    assert calls_in(0) <= RUN
