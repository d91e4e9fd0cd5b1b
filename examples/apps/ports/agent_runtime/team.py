"""Two analysts report to a leader, who makes one answer of theirs."""

import asyncio

from ziggurat import Agent
from ziggurat.teams import TeamResult, star
from ziggurat.testing import ScriptedModel


def agent(name: str) -> Agent:
    return Agent(ScriptedModel(always=f"{name} says: urgent"), name=name)


async def main() -> None:
    team = star(agent("leader"), agent("analyst-1"), agent("analyst-2"), rounds=3)
    run = await team.run("How urgent are these tickets?")
    print("answer:", run.text)
    print("model calls:", run.model_calls)
    print("answers:", TeamResult.of(run).answers)


if __name__ == "__main__":
    asyncio.run(main())
