"""Agents as tools: the budget, permissions and usage of the outer agent include all agents below it."""

import asyncio

from ziggurat import Agent, Budget, Usage
from ziggurat.messages import tool_call
from ziggurat.testing import ScriptedModel

COST = Usage(input=200, output=40, requests=1)
LIBRARY = {"ziggurat": "A ziggurat is a stepped tower of ancient Mesopotamia."}


def look_up(word: str) -> str:
    """Look a word up in the library."""
    return LIBRARY.get(word, "nothing is known")


researcher = Agent(
    ScriptedModel(tool_call("look_up", word="ziggurat"), "It is a stepped tower.", usage=COST),
    tools=[look_up],
    name="researcher",
    description="Finds facts.",
)
writer = Agent(ScriptedModel("Tier upon tier it climbs.", usage=COST), name="writer", description="Writes verses.")
editor = Agent(
    ScriptedModel(
        [tool_call("researcher", input="What is a ziggurat?"), tool_call("writer", input="A verse on towers")],
        "Tier upon tier it climbs: a stepped tower.",
        usage=COST,
    ),
    tools=[researcher, writer],  # both are called at the same time
    name="editor",
    budget=Budget(tokens=20_000, requests=10),
)


async def main() -> None:
    run = await editor.run("A line about ziggurats")
    print(run.text)
    for step in run.trace():
        for call, result in zip(step.calls, step.results, strict=True):
            print(f"  {call.name}: {result.text}")
    print(f"{run.model_calls} model calls, {run.tool_calls} tool calls, {run.usage.total} tokens")


if __name__ == "__main__":
    asyncio.run(main())
