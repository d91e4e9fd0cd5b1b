"""Whatever races and groups have lost, each event that was sent is used once, in a random program of them."""

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest

from tests.samples import SEED, amount
from ziggurat import Agent, Message, Runnable, tool
from ziggurat.agents import Environment
from ziggurat.flows import Flow, event, first, flow, gather, step
from ziggurat.layers import fallback, hedge
from ziggurat.messages import tool_call
from ziggurat.models import FunctionModel
from ziggurat.stores import InMemoryStore
from ziggurat.testing import HandClock, assert_no_leaks, run_until_idle

END = "none"


class Program:
    """Races, one after the other or beside each other, whose alternatives work, wait for events, and may fail."""

    def __init__(self, seed: int) -> None:
        self.random, self.clock, self.number = random.Random(seed), HandClock(), 0
        self.whole = self.part(2)
        self.sent = self.random.randint(0, 6)

    def part(self, depth: int) -> Any:
        kind = self.random.choice(
            ["work", "event", "event", *(["hedge", "hedge", "fallback", "first", "gather"] * (depth > 0))]
        )
        self.number += 1
        if kind == "work":
            return kind, self.number, self.random.choice([1, 3, 10, 40]), self.random.random() < 0.2
        if kind == "event":
            return kind, self.number
        return kind, self.number, [self.sequence(depth - 1) for _ in range(2)]

    def sequence(self, depth: int) -> list[Any]:
        return [self.part(depth) for _ in range(self.random.randint(1, 3))]

    async def run(self, parts: Sequence[Any]) -> list[str]:
        """Return the events that were used."""
        return [used for part in parts for used in await self.run_part(part)]

    async def run_part(self, part: Any) -> list[str]:
        kind, number, *rest = part
        if kind == "event":
            return [await event("go", str)]
        if kind == "work":
            seconds, fails = rest

            @step(name=f"work{number}")
            async def work() -> None:
                await self.clock.sleep(seconds)
                if fails:
                    raise ConnectionError("failed")

            await work()
            return []
        [alternatives] = rest
        if kind == "gather":
            return [used for each in await gather(*map(self.run, alternatives)) for used in each]
        if kind == "first":
            return await first(*map(self.run, alternatives))
        agents = [self.agent(f"agent{number}{place}", each) for place, each in enumerate(alternatives)]
        both = hedge(*agents, delay=2) if kind == "hedge" else fallback(*agents)
        said = (await Runnable(both, name=f"desk{number}").run("Go")).text
        return [] if said == "-" else said.split()

    def agent(self, name: str, parts: list[Any]) -> Agent[str]:
        @tool(effect="none")
        async def go() -> str:
            """Go."""
            return " ".join(await self.run(parts)) or "-"

        def reply(messages: Sequence[Message]) -> Any:
            if messages[-1].role != "tool":
                return tool_call("go")
            [result] = messages[-1].tool_results
            if result.error is not None:
                raise ConnectionError("failed")
            return result.text

        return Agent(FunctionModel(reply), name=name, tools=[go])

    def flow(self, store: InMemoryStore) -> Flow[None, list[str]]:
        @flow(name="order", store=store)
        async def order() -> list[str]:
            try:
                used = await self.run([self.whole])
            except ConnectionError:
                used = ["failed"]
            await event("over")
            while (left := await event("go", str, timeout=1, default=END)) != END:
                used.append(left)
            return used

        return order


@pytest.mark.parametrize("seed", range(SEED, SEED + amount(20, 1000)))
async def test_each_event_is_used_once(seed: int) -> None:
    program = Program(seed)
    order = program.flow(InMemoryStore(clock=program.clock))
    async with assert_no_leaks():
        handle = order.start(run_id="r", environment=Environment(clock=program.clock))
        for number in range(program.sent):
            await program.clock.advance(program.random.choice([0, 1, 5, 20]))
            await run_until_idle()
            await handle.send("go", f"e{number}")
            await run_until_idle()
        sent, over = program.sent, False
        result = asyncio.ensure_future(handle.result())
        while not result.done():
            await program.clock.advance(1)
            await run_until_idle()
            status = await handle.status()
            if over or status.driven or status.status != "Suspended":
                continue
            over = any("over" in item.reason for item in status.pending)
            await handle.send("over" if over else "go", f"e{sent}")
            sent += not over
        run = result.result()
    if "failed" not in run.output:
        assert sorted(run.output) == sorted(f"e{number}" for number in range(sent))
    assert len(set(run.output)) == len(run.output)
    assert (await order.replay("r")).output == run.output
