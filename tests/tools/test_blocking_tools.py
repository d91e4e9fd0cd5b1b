"""An async tool that blocks the event loop is named in a warning, once; one that waits, or runs in a thread, is not."""

import asyncio
from typing import Any

import pytest

from tests.core.hand import HandClock
from ziggurat import Agent
from ziggurat.agents import Environment
from ziggurat.core.event import warn_once
from ziggurat.messages import tool_call
from ziggurat.testing import ScriptedModel

CLOCK = HandClock()


async def blocks() -> str:
    await asyncio.sleep(0)
    CLOCK.at += 0.6
    await asyncio.sleep(0)
    return "done"


async def blocks_and_fails() -> str:
    CLOCK.at += 0.6
    raise ValueError


async def is_quick() -> str:
    for _ in range(5):
        CLOCK.at += 0.4
        await asyncio.sleep(0)
    return "done"


async def waits() -> str:
    asyncio.get_running_loop().call_soon(lambda: setattr(CLOCK, "at", CLOCK.at + 5))
    await asyncio.sleep(0)
    return "done"


def runs_in_a_thread() -> str:
    CLOCK.at += 5
    return "done"


@pytest.mark.parametrize("function", [blocks, blocks_and_fails, is_quick, waits, runs_in_a_thread])
async def test_only_a_turn_that_takes_long_is_warned_of(function: Any, caplog: pytest.LogCaptureFixture) -> None:
    warn_once.cache_clear()
    call = tool_call(function.__name__)
    agent = Agent(ScriptedModel(call, call, "Done."), tools=[function])
    run = await agent.run("go", environment=Environment(clock=CLOCK))
    assert len(run.observations) == 2
    named = [function.__name__ in record.message for record in caplog.records if "event loop" in record.message]
    assert named == [True] * function.__name__.startswith("blocks")
