"""Waiting for user input: a node asks, the run waits in the store, and the answer has the type that was asked for."""

import asyncio
from typing import Annotated

from msgspec import Struct

from ziggurat.agents import Answer
from ziggurat.flows import ask, step
from ziggurat.plans import Graph, append
from ziggurat.stores import InMemoryStore


class Review(Struct):
    text: str
    notes: Annotated[list[str], append] = []


@step
async def draft(text: str) -> str:
    print("drafting")  # once, although the node is called again when the answer is there
    return f"{text}, in short"


graph = Graph(Review)


@graph.node(writes="notes")
async def feedback(state: Review) -> list[str]:
    stars = await ask(f"How many stars for {await draft(state.text)!r}?", int)
    return ["*" * stars]


@graph.node(writes="notes")
async def thank(state: Review) -> list[str]:
    return [f"thanks for {state.notes[-1]}"]


graph.edge(feedback, thank)
review = graph.build("review", store=InMemoryStore())


async def main() -> None:
    run = await review.run(Review("Ziggurats"), run_id="review-1")
    (question,) = run.pending
    run = await review.resume("review-1", {question.id: Answer(3)})
    print(question.reason, *run.output.notes)


if __name__ == "__main__":
    asyncio.run(main())
