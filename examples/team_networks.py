"""star, mesh and ring: the same three members answer twice, and hear a leader, each other, or their neighbour."""

import asyncio

from ziggurat import Agent, Runnable
from ziggurat.messages import ModelRequest
from ziggurat.teams import TeamResult, mesh, ring, star
from ziggurat.testing import ScriptedModel

COLOURS = {"ann": "red", "ben": "blue", "cem": "green"}


def answer(request: ModelRequest, own: str) -> str:
    """Answer with the colours that were heard, and one's own."""
    heard = {word for each in request.messages if each.text.startswith("[") for word in each.text.split()[1:]}
    return " ".join(sorted(heard | {own}))


def members() -> list[Agent]:
    return [
        Agent(ScriptedModel(always=lambda request, own=colour: answer(request, own)), name=name)
        for name, colour in COLOURS.items()
    ]


def leader() -> Agent:
    return Agent(ScriptedModel("black", "white"), name="leader")


teams: list[Runnable] = [
    star(leader(), *members(), rounds=2),
    mesh(*members(), rounds=2),
    ring(*members(), rounds=2),
]


async def main() -> None:
    """Ask each team the same question."""
    for team in teams:
        run = await team.run("Which colours are there?")
        result = TeamResult.of(run)
        print(f"{team.name}: {run.agent} says {run.text}; all agree: {result.is_unanimous}")
        for name in COLOURS:
            print(f"  {name}: {result.answers[name]}")


asyncio.run(main())
