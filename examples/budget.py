"""Budgets and loop detection: a budget applies to an agent and all below it; a loop is reported to the model."""

import asyncio

from ziggurat import Agent, Budget, Usage, loop_detection
from ziggurat.messages import assistant, tool_call
from ziggurat.testing import ScriptedModel

COST = Usage(input=900, output=100, requests=1)


def price(model: str, usage: Usage) -> float:
    """Return the dollars for a call: 1 per million input tokens, 5 per million output tokens."""
    return (1 * (usage.input or 0) + 5 * (usage.output or 0)) / 1_000_000


def search(query: str) -> str:
    """Search the web."""
    return f"nothing about {query}"


async def main() -> None:
    # each tool can have its own limit: the model is told, and goes on without the tool
    again = [assistant(tool_call("search", query=f"ziggurat {number}")) for number in range(4)]
    agent = Agent(
        ScriptedModel(*again, "I found nothing.", usage=COST), tools=[search], budget=Budget(tools={"search": 2})
    )
    print((await agent.run("Who built it?")).observations[-1])

    # a limit in money is checked before each call; a run that stops keeps its results
    endless = ScriptedModel(always=tool_call("search", query="ziggurat"), usage=COST)
    agent = Agent(endless, tools=[search], budget=Budget(cost=0.01, price=price))
    run = await agent.run("Who built it?")
    print(f"{run.stop.__class__.__name__} after {run.model_calls} calls, {run.usage.total} tokens, {run.steps} steps")

    # the same call three times in a row is a loop
    told = ScriptedModel(
        rules=[("in a row", "I give up: nobody knows.")], always=tool_call("search", query="ziggurat"), usage=COST
    )
    agent = Agent(told, tools=[search], stop=loop_detection(action="inject"))
    run = await agent.run("Who built it?")
    print(f"{run.tool_calls} searches, then: {run.text}")


if __name__ == "__main__":
    asyncio.run(main())
