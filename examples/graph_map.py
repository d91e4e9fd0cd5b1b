"""Map and reduce: a node is called for each item at the same time; what comes of it keeps the order of the items."""

import asyncio
from typing import Annotated

from msgspec import Struct

from ziggurat.plans import Graph, append


class Jokes(Struct):
    topic: str
    subjects: list[str] = []
    jokes: Annotated[list[str], append] = []
    best: str = ""


graph = Graph(Jokes)


@graph.node(writes="subjects")
async def subjects(state: Jokes) -> list[str]:
    return ["lions", "elephants", "penguins"]


async def joke(subject: str) -> list[str]:
    return [f"a joke about {subject}"]


@graph.node(writes="best")
async def best(state: Jokes) -> str:
    return max(state.jokes, key=len)


graph.map(joke, "subjects", writes="jokes", limit=3)
graph.edge(subjects, joke, best)
jokes = graph.build("jokes")


async def main() -> None:
    run = await jokes.run(Jokes("animals"))
    print(", ".join(run.output.jokes))
    print(run.output.best)


if __name__ == "__main__":
    asyncio.run(main())
