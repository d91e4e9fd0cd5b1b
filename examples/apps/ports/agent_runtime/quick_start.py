"""An agent with memories and a tool, on a model that only writes text."""

import asyncio

from ziggurat import stack
from ziggurat.memory import AgentMemory, Remembering, importance, open_memory
from ziggurat.models import react
from ziggurat.runtime import Runtime
from ziggurat.testing import ScriptedModel


def double(n: int) -> int:
    """Double a number."""
    return 2 * n


async def main() -> None:
    store = open_memory("memory:")
    memory = AgentMemory(store, "demo")
    await memory.remember("Ann counts in dozens.", importance=0.9)
    await memory.remember("Ben prefers round numbers.", importance=0.8)
    model = ScriptedModel(
        'Thought: The tool doubles.\nAction: double {"n": 21}',
        "Thought: It has.\nAction: FINAL_ANSWER 42",
    )
    runtime = Runtime(
        stack(model, react()),
        memory=Remembering(store, "demo", limit=3, score=importance),
        instructions="You help with sums.",
        tools=[double],
        max_steps=5,
    )
    run = await runtime.run("Double 21 for Ann and Ben.")
    print(f"{run.text}: {run.steps} steps, {run.memory_hits} memories, {run.seconds:.0f} s")


if __name__ == "__main__":
    asyncio.run(main())
