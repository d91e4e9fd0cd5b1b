"""A task is split into parts, and three workers do them until enough are done."""

import asyncio

from ziggurat import Agent
from ziggurat.teams import TeamResult, swarm
from ziggurat.testing import ScriptedModel


def worker(name: str) -> Agent:
    return Agent(ScriptedModel(always=f"{name} has done its part"), name=name)


async def main() -> None:
    workers = [worker(f"worker-{number}") for number in (1, 2, 3)]
    team = swarm(*workers, split="breadth", threshold=0.8, max_members=4)
    run = await team.run("Read up on async Rust, compare it with C++, and sum up the trade-offs")
    print("failures:", len(TeamResult.of(run).failures))
    print(run.text)


if __name__ == "__main__":
    asyncio.run(main())
