"""Storms: clients of MCP that go away at any moment leave nothing behind."""

import asyncio
import random
from contextlib import suppress

from tests.samples import SEED, amount
from tests.serve.mcp.clients import TASKS, LegacyClient, ModernClient, Refused, serving_mcp
from tests.serve.mcp.test_modern import guess, pay, text_of
from ziggurat import tool


@tool
async def wait() -> str:
    """Wait for a moment."""
    for _ in range(20):
        await asyncio.sleep(0)
    return "done"


async def test_calls_that_are_cut_at_any_moment_leave_no_task_and_no_run_in_progress() -> None:
    chance = random.Random(SEED)
    async with serving_mcp(tools=[wait, pay, guess], task_after=0) as server:
        assert text_of(await ModernClient(server).call("wait")) == "done"
        legacy = LegacyClient(server)
        await legacy.connect()
        before = len(asyncio.all_tasks())

        async def cut(number: int) -> None:
            name, arguments = (("wait", {}), ("pay", {"amount": 1}), ("guess", {"secret": 1}))[number % 3]
            clients = (ModernClient(server), ModernClient(server, {"elicitation": {}, **TASKS}), legacy)
            with suppress(TimeoutError, Refused, AssertionError):
                async with asyncio.timeout(chance.random() * 0.05):
                    await clients[number % 2 if number % 5 else 2].call(name, arguments)

        for begun in range(0, amount(30, 2_000), 10):
            await asyncio.gather(*(cut(begun + number) for number in range(10)))
        async with asyncio.timeout(20):
            while (await server.get("/runs?status=running&limit=500"))["runs"] or len(asyncio.all_tasks()) > before:
                await asyncio.gather(*(asyncio.sleep(0) for _ in range(5)))
        assert text_of(await ModernClient(server).call("wait")) == "done"
