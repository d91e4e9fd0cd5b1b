"""A person's answer in the middle: an agent drafts, somebody chooses the tone, an agent writes."""

import asyncio

from ziggurat import Agent
from ziggurat.agents import Answer
from ziggurat.flows import ask, flow
from ziggurat.stores import InMemoryStore
from ziggurat.testing import ScriptedModel

drafter = Agent(ScriptedModel("Draft: we are late."), name="drafter")
writer = Agent(ScriptedModel("Dear Ada, we are sorry to be late."), name="writer")


@flow(store=InMemoryStore())
async def letter(topic: str) -> str:
    """Write a letter in the tone that a person chooses."""
    draft = (await drafter.run(topic)).text
    tone = await ask(f"Which tone? {draft}", choices=["formal", "friendly"])
    return (await writer.run(f"Make this {tone}: {draft}")).text


async def main() -> None:
    run = await letter.run("Tell Ada that we are late", run_id="letter-1")
    (question,) = run.pending
    print(question.reason)
    run = await letter.resume("letter-1", {question.id: Answer("formal")})
    print(run.output, f"({run.model_calls} model calls)")


if __name__ == "__main__":
    asyncio.run(main())
