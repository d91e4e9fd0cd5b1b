"""Durability: a run is killed in the middle, and another process continues it without doing anything twice."""

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ziggurat import Agent, Context, Message, tool
from ziggurat.messages import tool_call
from ziggurat.models import FunctionModel


@tool(effect="once")
async def pay(to: str, ctx: Context) -> str:
    """Pay somebody."""
    print(f"paid {to}, as {ctx.idempotency_key}", flush=True)
    return "paid"


@tool(effect="repeatable")
def note(text: str) -> str:
    """Note something down."""
    if "killed" in sys.argv:
        os._exit(9)  # the process is gone, as after kill -9
    print(f"noted: {text}", flush=True)
    return "noted"


def reply(messages: Sequence[Message]) -> object:
    """Pay, note it, then answer."""
    done = sum(message.role == "tool" for message in messages)
    return [tool_call("pay", to="Ada"), tool_call("note", text="Ada was paid"), "Ada was paid, and it is noted."][done]


def agent(store: str) -> Agent:
    return Agent(FunctionModel(reply, name="clerk"), tools=[pay, note], store=store)


def main() -> None:
    if "killed" in sys.argv:
        agent(sys.argv[2]).run_sync("Pay Ada", run_id="r-17")
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{Path(folder) / 'agents.db'}"
        killed = subprocess.run([sys.executable, __file__, "killed", store], check=False)  # noqa: S603
        print("the first process ended with", killed.returncode, flush=True)
        run = asyncio.run(agent(store).resume("r-17"))
        print(run.text, f"{run.steps} steps")


if __name__ == "__main__":
    main()
