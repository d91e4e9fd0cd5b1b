"""Time travel: the state after each node of a run, made of its record, and a fork that goes on from one of them."""

import asyncio
from typing import Annotated

from msgspec import Struct

from ziggurat.plans import Graph, append
from ziggurat.stores import InMemoryStore


class Joke(Struct):
    topic: str = ""
    said: Annotated[list[str], append] = []


graph = Graph(Joke)


@graph.node(writes="topic")
async def topic(state: Joke) -> str:
    return state.topic or "socks"


@graph.node(writes="said")
async def joke(state: Joke) -> list[str]:
    return [f"where do {state.topic} go?"]


@graph.node(writes="said")
async def laugh(state: Joke) -> list[str]:
    return [f"ha, {len(state.said)}"]


graph.edge(topic, joke, laugh)
jokes = graph.build("jokes", store=InMemoryStore())


async def main() -> None:
    await jokes.run(Joke(), run_id="joke-1")
    for point in await jokes.history("joke-1"):
        print(point.number, point.node, point.state.topic, point.state.said)
    again = await jokes.fork("joke-1", at=3)  # with the first two nodes as they were
    other = await jokes.fork("joke-1", at=1, prompt='{"topic": "keys"}')  # with another state
    print(again.output.said[-1], other.output.said[0], (await jokes.history("joke-1"))[0].state.topic, sep="; ")


if __name__ == "__main__":
    asyncio.run(main())
