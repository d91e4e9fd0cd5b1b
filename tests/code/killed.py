"""A process that runs or continues a program in the middle of which something happens, and that may be killed there."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from ziggurat import Agent, AgentRun, Approve, Budget, Deny, Message, ModelRequest, ModelResponse, Text, tool
from ziggurat.agents import Answer
from ziggurat.code import CodeTool
from ziggurat.flows import ask
from ziggurat.messages import tool_call

PROGRAM = """
first = look(1)
try:
    paid = {call}
except Exception as error:
    paid = type(error).__name__
rest = [look(n) for n in range(2, 5)]
print(first, paid, rest)
"""
CALLS = {
    "approval": "pay(10)",
    "denial": "pay(10)",
    "question": "choose()",
    "budget": "[buy(1), buy(2), buy(3)]",
    "error": "fail()",
    "batch": "look_batched([5, {'n': 6}])",
}
"""What happens in the middle, and the call that does it."""


def agent(kind: str, store: str, ledger: Path, dies_at: int = 0) -> Agent:
    """Make the agent as each process makes it; it dies after it has looked at a number."""

    @tool(effect="none")
    async def look(n: int) -> int:
        """Look."""
        note(f"look {n}")
        if n == dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return n

    @tool(effect="once", approval=True)
    async def pay(amount: int) -> str:
        """Pay."""
        return note(f"paid {amount}")

    @tool(effect="once")
    async def buy(n: int) -> str:
        """Buy."""
        return note(f"bought {n}")

    @tool
    async def choose() -> str:
        """Choose."""
        return await ask("Which?", choices=["a", "b"])

    @tool
    async def fail() -> str:
        """Fail."""
        raise ValueError("broken")

    def note(text: str) -> str:
        with ledger.open("a") as file:
            file.write(f"{text}\n")
        return text

    async def model(request: ModelRequest, ctx: object) -> ModelResponse:
        results = request.messages[-1].tool_results
        part = Text(results[0].text) if results else tool_call("run_code", code=PROGRAM.format(call=CALLS[kind]))
        return ModelResponse(Message("assistant", (part,)))

    budget = Budget(tools={"buy": 2}) if kind == "budget" else None
    tools = [CodeTool([look, pay, buy, choose, fail])]
    return Agent(model, name="coder", tools=tools, budget=budget, store=store)


def decisions(kind: str, run: AgentRun) -> Mapping[str, Approve | Deny | Answer]:
    """Return what is decided about what waits in a run."""
    answer: dict[str, Approve | Deny | Answer] = {"approval": Approve(), "denial": Deny("no"), "question": Answer("b")}
    return {item.id: answer[kind] for item in run.pending}


async def main(kind: str, store: str, ledger: str, dies_at: str) -> None:
    coder = agent(kind, store, Path(ledger), int(dies_at))
    run = await coder.run("Go", run_id="r")
    print(json.dumps([item.path for item in run.pending]), flush=True)
    if run.pending:
        await coder.resume("r", decisions(kind, run))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
