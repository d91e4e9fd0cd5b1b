"""Branches of unequal length run at the same time and meet in a node, which runs once, when both have ended."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated

from msgspec import Struct

from ziggurat.plans import Graph, append


class Letters(Struct):
    seen: Annotated[list[str], append] = []


def letter(name: str) -> Callable[[Letters], Awaitable[list[str]]]:
    async def node(state: Letters) -> list[str]:
        return [name]

    return node


graph = Graph(Letters)
for name in ("a", "b", "b2", "c", "d"):
    graph.node(letter(name), name=name, writes="seen")
graph.edge("a", ("b", "c"))
graph.edge("b", "b2", "d")
graph.edge("c", "d")
branches = graph.build("branches")


async def main() -> None:
    run = await branches.run(Letters())
    print(*run.output.seen)


if __name__ == "__main__":
    asyncio.run(main())
