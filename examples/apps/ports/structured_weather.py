"""An agent with a tool gives a typed answer (LangGraph: how-tos/react-agent-structured-output, option 1)."""

import asyncio
from typing import Annotated, Literal

from msgspec import Meta, Struct

from ziggurat import Agent
from ziggurat.messages import Model


class Weather(Struct):
    temperature: Annotated[float, Meta(description="The temperature in degrees Fahrenheit")]
    wind_direction: Annotated[str, Meta(description="The direction of the wind, abbreviated")]
    wind_speed: Annotated[float, Meta(description="The speed of the wind in km/h")]


def get_weather(city: Literal["nyc", "sf"]) -> str:
    """Get the weather of a city."""
    if city == "nyc":
        return "It is cloudy in New York, 70 degrees, with a wind of 5 mph from the north-east"
    return "It is sunny in San Francisco, 75 degrees, with a wind of 3 mph from the south-east"


async def main(model: str | Model) -> None:
    agent = Agent(model, tools=[get_weather], output=Weather)
    print((await agent.run("What is the weather in SF?")).output)


if __name__ == "__main__":
    asyncio.run(main("openai:gpt-5-mini"))
