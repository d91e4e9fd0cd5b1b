"""Streaming: the same run, with its events as they happen, including nested agents."""

import asyncio

from ziggurat import Agent
from ziggurat.events import Delta, ToolEnded, ToolStarted
from ziggurat.messages import tool_call
from ziggurat.testing import ScriptedModel
from ziggurat.tools import calculator

clerk = Agent(
    ScriptedModel(tool_call("calculator", expression="17 * 23"), "17 times 23 is 391."),
    tools=[calculator],
    name="clerk",
    description="Works out sums.",
)
agent = Agent(ScriptedModel(tool_call("clerk", input="17 * 23"), "The clerk says: 391."), tools=[clerk])


async def main() -> None:
    async with agent.stream("What is 17 times 23?") as events:
        async for event in events:
            depth = "  " * event.path.count("/step-")
            match event:
                case ToolStarted(_, call):
                    print(f"{depth}{call.name} {call.arguments}")
                case ToolEnded(_, call, result):
                    print(f"{depth}{call.name} -> {result.text}")
                case Delta(text=text):
                    print(f"{depth}{text.strip()}")
                case _:
                    pass
    run = events.response
    print(f"{type(run.stop).__name__}: {run.steps} steps, {run.model_calls} model calls")


if __name__ == "__main__":
    asyncio.run(main())
