"""A game: a tool that needs to know the winning number, and a yes or no as the answer (pydantic-ai: roulette_wheel)."""

import asyncio
from typing import Literal

from ziggurat import Agent, Context, Key
from ziggurat.messages import Model

WINNING = Key[int]("winning number")


def roulette_wheel(square: int, ctx: Context) -> Literal["winner", "loser"]:
    """Check whether a bet has won.

    Args:
        square: The number that the player bet on.
    """
    return "winner" if square == ctx.scope[WINNING] else "loser"


async def main(model: str | Model) -> None:
    agent = Agent(model, tools=[roulette_wheel], instructions="Use the roulette wheel to say who has won.", output=bool)
    for bet in ("Put my money on square eighteen", "I bet five is the winner"):
        run = await agent.run(bet, deps={WINNING: 18})
        print(f"{bet}: {run.output}")


if __name__ == "__main__":
    asyncio.run(main("openai:gpt-5-mini"))
