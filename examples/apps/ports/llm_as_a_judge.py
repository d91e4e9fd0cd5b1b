"""One agent writes, another judges, until it passes (openai-agents: llm_as_a_judge)."""

import asyncio
from typing import Literal

from msgspec import Struct

from ziggurat import Agent, user
from ziggurat.messages import Model


class Feedback(Struct):
    feedback: str
    score: Literal["pass", "needs_improvement", "fail"]


async def main(model: str | Model) -> None:
    writer = Agent(model, instructions="Write a very short outline of a story. Use the feedback, if there is any.")
    judge = Agent(
        model,
        instructions="Judge the outline of a story and say what to improve. Never let the first try pass.",
        output=Feedback,
    )
    messages = [user("A detective story in space.")]
    while True:
        outline = await writer.run(history=messages)
        verdict = (await judge.run(history=[*outline.messages, user("Is it good?")])).raise_for_stop().output
        print(f"score: {verdict.score}")
        if verdict.score == "pass":
            break
        messages = [*outline.messages, user(f"Feedback: {verdict.feedback}")]
    print(outline.text)


if __name__ == "__main__":
    asyncio.run(main("openai:gpt-5-mini"))
