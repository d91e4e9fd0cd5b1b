"""Runs that are controlled from another process than the one that drives them, which is killed now and then.

``python -m tests.agents.controlling`` measures, on each store, how long it takes until a request reaches a run, and a
piece of a reply its reader.
"""

import asyncio
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.stores.server import PostgresServer
from ziggurat import Agent, AgentRun, Context, Event, ModelRequest, tool
from ziggurat.events import Skipped, Steered, ToolDelta
from ziggurat.messages import tool_call
from ziggurat.stores import connect
from ziggurat.testing import ScriptedModel


def agent_of(url: str) -> Agent[Any]:
    """Return an agent that looks again and again until it is told to finish."""

    @tool(effect="none")
    async def look(ctx: Context) -> str:
        """Look, and report the time."""
        await ctx.emit(ToolDelta(ctx.path, "look", repr(time.time())))
        await asyncio.sleep(0.005)
        return "seen"

    def reply(request: ModelRequest) -> Any:
        return "done" if any(message.text == "finish" for message in request.messages) else tool_call("look")

    return Agent(ScriptedModel(always=reply), tools=[look], name="watch", store=connect(url), max_steps=1_000_000)


async def drive(url: str, run_id: str) -> None:
    """Drive a run, and print the times at which it was steered and ended."""
    agent = agent_of(url)

    def note(event: Event) -> None:
        if isinstance(event, Steered) and not event.replayed:
            print(time.time(), flush=True)

    handle = agent.start("Go", run_id=run_id, listeners=[note])
    await handle.recorded()
    print("ready", flush=True)
    await handle.result()
    print(time.time(), flush=True)
    await agent.store.close()


class Driver:
    """A process that drives a run; it can be read from when the run is on record."""

    def __init__(self, url: str, run_id: str) -> None:
        command = [sys.executable, "-m", "tests.agents.controlling", url, run_id]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self._line()

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    async def time(self) -> float:
        """Return the next time that it prints."""
        return float(await asyncio.to_thread(self._line))

    def kill(self) -> None:
        """Kill it."""
        self.process.kill()
        self.end()

    def end(self) -> None:
        """Wait for its end."""
        self.process.communicate()


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Agent[Any]]:
    """Yield the agent, and close its store."""
    agent = agent_of(url)
    try:
        yield agent
    finally:
        await agent.store.close()


async def told_while_killed(url: str, messages: int, kills: int, seed: int) -> tuple[list[str], AgentRun[Any]]:
    """Send messages to a run whose driver is killed between some of them; return them, and the run at its end."""
    chance = random.Random(seed)
    killed = set(chance.sample(range(messages), kills))
    texts = [f"note {number}" for number in range(messages)] + ["finish"]
    async with opened(url) as agent:
        driver, attached = Driver(url, "r"), agent.attach("r")
        for number, text in enumerate(texts):
            assert await attached.inject(text)
            if number in killed:
                await asyncio.sleep(chance.uniform(0, 0.3))
                driver.kill()
                driver = Driver(url, "r")
        run = await attached.result()
        driver.end()
    return texts, run


async def cancelled_while_killed(url: str, pause: float) -> tuple[AgentRun[Any], AgentRun[Any]]:
    """Cancel a run and kill its driver; return how the next one ended it, and how it ends when it is resumed."""
    async with opened(url) as agent:
        driver, attached = Driver(url, "c"), agent.attach("c")
        assert await attached.cancel()
        await asyncio.sleep(pause)
        driver.kill()
        cancelled = (await agent.recover()).runs.get("c") or await attached.result()
        resumed = agent.start(run_id="c")
        assert await resumed.recorded()
        assert await attached.inject("finish")
        return cancelled, await resumed.result()


# -- measurements ------------------------------------------------------------------------------------------------------


async def _steered(url: str, times: int) -> list[float]:
    """Return the seconds from each injection to its effect."""
    seconds: list[float] = []
    async with opened(url) as agent:
        driver, attached = Driver(url, "steered"), agent.attach("steered")
        for _ in range(times):
            await asyncio.sleep(random.uniform(0, 0.3))
            began = time.time()
            await attached.inject("by the way")
            seconds.append(await driver.time() - began)
        await attached.inject("finish")
        driver.end()
    return seconds


async def _cancelled(url: str, times: int) -> list[float]:
    """Return the seconds from the cancellation of each run to its end."""
    seconds: list[float] = []
    async with opened(url) as agent:
        for number in range(times):
            driver, attached = Driver(url, f"cancelled-{number}"), agent.attach(f"cancelled-{number}")
            await asyncio.sleep(random.uniform(0, 0.3))
            began = time.time()
            await attached.cancel()
            seconds.append(await driver.time() - began)
            driver.end()
    return seconds


async def _read(url: str, times: int) -> list[float]:
    """Return the seconds from each piece that a run emits to its reader in this process."""
    seconds: list[float] = []
    skipped = 0
    async with opened(url) as agent:
        driver, attached = Driver(url, "read"), agent.attach("read")
        async for item in attached.events():
            if isinstance(item.what, Skipped):
                skipped += item.what.count
            if isinstance(item.what, ToolDelta):
                seconds.append(time.time() - float(item.what.text))
                if len(seconds) == times:
                    break
        await attached.inject("finish")
        driver.end()
    print(f"{skipped} events were skipped")
    return seconds


def _share(seconds: list[float], share: float) -> str:
    return f"{sorted(seconds)[min(len(seconds) - 1, int(share * len(seconds)))] * 1000:6.0f} ms"


async def measure(url: str, times: int) -> None:
    """Print how long requests and pieces take."""
    for name, work, count in (("inject", _steered, times), ("cancel", _cancelled, times // 5), ("piece", _read, 500)):
        seconds = await work(url, count)
        print(f"{url.partition(':')[0]:12}{name:8} p50 {_share(seconds, 0.5)}  p99 {_share(seconds, 0.99)}", flush=True)


def main() -> None:
    """Drive a run, or measure on each store."""
    if len(sys.argv) > 2:
        asyncio.run(drive(sys.argv[1], sys.argv[2]))
        return
    with tempfile.TemporaryDirectory() as folder:
        urls = [f"sqlite:///{folder}/runs.db", f"file://{folder}/runs", PostgresServer().url]
        for url in urls:
            asyncio.run(measure(url, int(sys.argv[1]) if len(sys.argv) > 1 else 100))


if __name__ == "__main__":
    main()
