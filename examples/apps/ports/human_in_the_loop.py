"""Some calls need approval; the run waits in a store meanwhile (openai-agents: human_in_the_loop)."""

import asyncio

from ziggurat import Agent, Approvals, Approve, Deny, Rule
from ziggurat.messages import Model


def get_weather(city: str) -> str:
    """Get the weather of a city."""
    return f"The weather in {city} is sunny"


def get_temperature(city: str) -> str:
    """Get the temperature of a city."""
    return f"The temperature in {city} is 20° Celsius"


def confirmed(question: str) -> bool:
    print(question, "(y/n): y")
    return True


async def main(model: str | Model, store: str = "sqlite:///agents.db") -> None:
    agent = Agent(
        model,
        tools=[get_weather, get_temperature],
        instructions="You answer questions about weather and temperature with the tools.",
        approvals=Approvals(Rule("get_temperature", when=lambda arguments: "Oakland" in arguments["city"])),
        store=store,
    )
    run = await agent.run("What is the weather and temperature in Oakland?")
    while run.pending:  # the process could end here, and another one could resume the run
        decisions = {
            item.id: Approve() if confirmed(f"{item.call.name} {item.shown}") else Deny() for item in run.pending
        }
        run = await agent.resume(run.id, decisions)
    print(run.output)


if __name__ == "__main__":
    asyncio.run(main("openai:gpt-5-mini"))
