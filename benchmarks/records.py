"""How long it takes to resume a long run, and to show it from another process.

python -P benchmarks/records.py [steps]
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from statistics import median

from ziggurat import Agent, tool
from ziggurat.messages.message import ToolCall, tool_call
from ziggurat.messages.model import ModelRequest
from ziggurat.models.scripted import ScriptedModel

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 1000


@tool(effect="none")
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool(approval=True)
def ask() -> str:
    """Ask."""
    return "yes"


def reply(request: ModelRequest) -> ToolCall:
    """Add until the last step, which waits for a decision."""
    step = (len(request.messages) + 1) // 2
    return tool_call("add", a=step, b=1) if step < STEPS else tool_call("ask")


async def measure(store: str) -> None:
    agent = Agent(ScriptedModel(always=reply), tools=[add, ask], max_steps=STEPS + 1, store=store)
    await agent.run("Count", run_id="long")
    wall, used = [], []
    for _ in range(7):
        began, cpu = time.perf_counter(), time.process_time()
        run = await agent.resume("long")
        wall.append(time.perf_counter() - began)
        used.append(time.process_time() - cpu)
        assert run.steps == STEPS
        assert run.pending
    figures = f"{median(wall) * 1e3:.0f} ms (CPU {median(used) * 1e3:.0f} ms)"
    print(f"{store.partition(':')[0]:<8} resume of {STEPS:,} steps: {figures}", end="; ")


def show(store: str, folder: str) -> None:
    """Time the program as installed, with its modules compiled beforehand."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = f"{folder}/compiled"
    times = []
    for _ in range(7):
        began = time.perf_counter()
        command = [sys.executable, "-m", "ziggurat", "show", "long", "--store", store]
        shown = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
        times.append(time.perf_counter() - began)
        assert shown.count("add(a=") == 2 * (STEPS - 1)
    print(f"ziggurat show, start of the process included: {median(times):.2f} s")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for url in (f"sqlite:///{folder}/runs.db", f"file:///{folder}/runs"):
            asyncio.run(measure(url))
            show(url, folder)
