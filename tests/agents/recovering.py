"""A process for the tests of recovery: it begins runs and waits to be killed, or recovers those of another."""

import asyncio
import os
import sys
from pathlib import Path

from ziggurat import Agent, Context, tool
from ziggurat.messages import tool_call
from ziggurat.stores import connect
from ziggurat.testing import ScriptedModel

RUNS = 10


def agent_of(url: str, ledger: Path, *, hangs: bool) -> Agent:
    """Return an agent that pays once, waits, and pays once more; every payment is a line of the ledger."""

    def note(what: str, ctx: Context) -> None:
        file = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, f"{what} {ctx.run_id}\n".encode())
        os.close(file)

    @tool(effect="once")
    async def pay(ctx: Context) -> str:
        note("pay", ctx)
        return "paid"

    @tool(effect="none")
    async def wait(ctx: Context) -> str:
        if hangs:
            note("waiting", ctx)
            await asyncio.Event().wait()
        await asyncio.sleep(0.01)
        return "waited"

    @tool(effect="once")
    async def thank(ctx: Context) -> str:
        note("thank", ctx)
        return "thanked"

    rules = [("go", tool_call("pay")), ("paid", tool_call("wait")), ("waited", tool_call("thank"))]
    model = ScriptedModel(rules=rules, always="done")
    return Agent(model, tools=[pay, wait, thank], name="payer", store=connect(url))


async def main(what: str, url: str, ledger: str) -> None:
    """Begin runs, or recover them and print their ids."""
    agent = agent_of(url, Path(ledger), hangs=what == "begin")
    if what == "begin":
        await asyncio.gather(*(agent.run("go", run_id=f"r-{number}") for number in range(RUNS)))
    print("ready", flush=True)
    sys.stdin.readline()  # so that all processes begin at the same time
    recovery = await agent.recover(concurrency=3)
    assert not recovery.errors, recovery.errors
    print(*(f"{run_id}={run.text}" for run_id, run in recovery.runs.items()), flush=True)
    await agent.store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
