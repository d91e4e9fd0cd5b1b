"""Sub-graphs: a graph with a state of its own is a node of another one, and a question in it waits for both."""

import asyncio
from typing import Annotated

from msgspec import Struct

from ziggurat.agents import Answer
from ziggurat.flows import ask
from ziggurat.plans import Graph, append
from ziggurat.stores import InMemoryStore


class Inner(Struct):
    text: str = ""


class Outer(Struct):
    topic: str
    notes: Annotated[list[str], append] = []


inner = Graph(Inner)


@inner.node(writes="text")
async def shout(state: Inner) -> str:
    return f"{state.text.upper()}{await ask('How does it end?')}"


outer = Graph(Outer)


@outer.node(writes="notes")
async def begin(state: Outer) -> list[str]:
    print("begin")  # once: it has ended when the run goes on
    return [f"on {state.topic}"]


outer.node(
    inner.build("inner"), writes="notes", takes=lambda state: Inner(state.topic), gives=lambda inner: [inner.text]
)
outer.edge(begin, "inner")
whole = outer.build("outer", store=InMemoryStore())


async def main() -> None:
    run = await whole.run(Outer("ur"), run_id="outer-1")
    (question,) = run.pending
    print(question.path)
    run = await whole.resume("outer-1", {question.id: Answer("!")})
    print(*run.output.notes, sep=", ")


if __name__ == "__main__":
    asyncio.run(main())
