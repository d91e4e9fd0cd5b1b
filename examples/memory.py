"""Memory: memories fade, are superseded or forgotten, and an audit finds duplicates."""

import asyncio

from ziggurat.core import CLOCK, root
from ziggurat.memory import AgentMemory, EpisodicMemory, audit, half_life, importance, open_memory, product
from ziggurat.testing import HandClock

DAY = 86_400


async def main() -> None:
    clock = HandClock()
    ctx = root().within(CLOCK, clock)
    store = open_memory("memory:")  # or "sqlite:///agents.db", which is kept when the process ends

    episodes = EpisodicMemory(store, "ann", score=product(importance, half_life(hours=24)), capacity=100, ctx=ctx)
    memory = AgentMemory(store, "ann", episodic=episodes, ctx=ctx)

    # episodes fade: an important one of yesterday scores lower than a less important one of today
    await memory.remember("The deployment failed at noon.", importance=0.9)
    await clock.advance(DAY)
    await memory.remember("The deployment went well today.", importance=0.6, origin="tool", taint=["ci"])
    for recalled in await memory.episodic.recall("deployment"):
        print(f"{recalled.score:.2f}  {recalled.content}  {recalled.record.taint}")

    # a fact replaces the one with the same key; the old one can still be read
    await memory.remember("Ann lives in Rome.", kind="semantic", key="home")
    fact = await memory.remember("Ann lives in Oslo.", kind="semantic", key="home")
    print("known:", [recalled.content for recalled in await memory.recall("Where does Ann live?")])
    print("was:", [record.content for record in (await memory.history(fact.id))[1:]])

    # long-term memories fade along a forgetting curve unless they are used
    await memory.remember("The safe opens with two keys.", kind="longterm", importance=0.8)
    await memory.remember("There was cake on Monday.", kind="longterm", importance=0.1)
    await clock.advance(40 * DAY)
    await memory.recall("Which keys open the safe?")
    print("forgotten:", await memory.longterm.prune(), "left:", await memory.longterm.count())

    # an audit finds what was stored more than once
    await memory.remember("Ann lives in Oslo!")
    print([finding.texts for finding in (await audit(store, "ann")).duplicates])


if __name__ == "__main__":
    asyncio.run(main())
