"""A group chat: an agent chooses who speaks next, and says when the question is answered."""

import asyncio

from ziggurat import Agent
from ziggurat.teams import group_chat
from ziggurat.testing import ScriptedModel

writer = Agent(
    ScriptedModel("A ziggurat is a tower.", "A ziggurat is a stepped tower of mud brick."),
    name="writer",
    description="Writes one sentence.",
)
critic = Agent(ScriptedModel("What is it made of?", "Good."), name="critic", description="Says what is missing.")
moderator = Agent(ScriptedModel("writer", "critic", "the writer again", "critic", "DONE"), name="moderator")

chat = group_chat(writer, critic, speaker=moderator, turns=8, store="memory:")


async def main() -> None:
    """Run the chat, and print who has said what."""
    run = await chat.run("What is a ziggurat?")
    for message in run.messages[run.start :]:
        print(f"{message.name}: {message.text}")
    print(f"{run.agent} had the last word, after {run.model_calls} model calls")


asyncio.run(main())
