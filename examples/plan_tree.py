"""A plan as data: facts are collected at the same time, a text is written from them, and improved until it is good."""

import asyncio

from ziggurat import Agent, tool
from ziggurat.plans import Loop, Map, Parallel, Sequence, Task, when, workflow
from ziggurat.stores import InMemoryStore
from ziggurat.testing import ScriptedModel


@tool
async def lookup(topic: str) -> str:
    """Look a topic up."""
    return f"what is known of {topic}"


async def topics(input: str) -> list[str]:  # noqa: A002 - the name of the variable
    return [f"the history of {input}", f"the use of {input}"]


async def score(draft: str) -> float:
    return 0.4 if "short" in draft else 0.9


writer = Agent(ScriptedModel("a short draft", "a draft with all that is known"), name="writer")
overview = Task("overview", tool=lookup, arguments={"topic": "{input}"})
each = Map("facts", "topics", Task("fact", tool=lookup, arguments={"topic": "{item}"}))
article = workflow(
    Parallel([overview, Sequence([Task("topics", function=topics), each])]),
    Loop(
        Sequence([Task("draft", prompt="Write from: {overview} {facts}"), Task("score", function=score)]),
        max_rounds=3,
        until=when("score", float, lambda score: score > 0.8),
    ),
    name="article",
    agent=writer,
    store=InMemoryStore(),
)


async def main() -> None:
    run = await article.run("ziggurats", run_id="article-1")
    for node in run.output.nodes:
        if node.kind == "Task":
            print(node.path, "=", node.output)


if __name__ == "__main__":
    asyncio.run(main())
