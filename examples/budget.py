"""A budget holds for an agent and all below it; a loop is noticed, and the model told."""

import asyncio

from ziggurat import Agent, Budget, Usage
from ziggurat.agents.loop_detection import loop_detection
from ziggurat.agents.stop import max_tool_calls
from ziggurat.messages.message import assistant
from ziggurat.messages.parts import tool_call
from ziggurat.testing import ScriptedModel

COST = Usage(input=900, output=100, requests=1)


def price(model: str, usage: Usage) -> float:
    """Dollars for a call: 1 for a million tokens read, 5 for a million written."""
    return (1 * (usage.input or 0) + 5 * (usage.output or 0)) / 1_000_000


def search(query: str) -> str:
    """Search the web."""
    return f"nothing about {query}"


async def main() -> None:
    # each tool may have a limit of its own: the model is told, and goes on without
    again = [assistant(tool_call("search", query=f"ziggurat {number}")) for number in range(4)]
    agent = Agent(
        ScriptedModel(*again, "I found nothing.", usage=COST), tools=[search], budget=Budget(tools={"search": 2})
    )
    print((await agent.run("Who built it?")).observations[-1])

    # what may be spent in money is asked before each call; the run keeps what it has
    endless = ScriptedModel(always=tool_call("search", query="ziggurat"), usage=COST)
    agent = Agent(endless, tools=[search], budget=Budget(cost=0.01, price=price))
    run = await agent.run("Who built it?")
    print(f"{run.stop.__class__.__name__} after {run.model_calls} calls, {run.usage.total} tokens, {run.steps} steps")

    # three times the same is once too often
    told = ScriptedModel(
        rules=[("in a row", "I give up: nobody knows.")], always=tool_call("search", query="ziggurat"), usage=COST
    )
    agent = Agent(told, tools=[search], stop=loop_detection(action="inject") | max_tool_calls(10))
    run = await agent.run("Who built it?")
    print(f"{run.tool_calls} searches, then: {run.text}")


if __name__ == "__main__":
    asyncio.run(main())
