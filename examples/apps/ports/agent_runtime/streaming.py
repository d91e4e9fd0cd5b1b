"""Thoughts, tokens and actions are printed while a model that only writes text works."""

import asyncio

from ziggurat import Agent, Callbacks, Usage, stack
from ziggurat.models import react
from ziggurat.testing import ScriptedModel


def lookup(word: str) -> str:
    """Look a word up."""
    return f"{word}: not found"


async def main() -> None:
    pieces = ["Thought: I know", " this.\nAction: FINAL_ANSWER 4", "2"]
    model = ScriptedModel(pieces, usage=Usage(input=90, output=12))
    agent = Agent(stack(model, react()), tools=[lookup], max_steps=10)
    listener = Callbacks(
        on_token=lambda token: print(token, end=""),
        on_thought=lambda thought: print("thought:", thought),
        on_action=lambda call: print("action:", call.name),
    )
    run = await agent.run("How much is six times seven?", listeners=[listener])
    print("\ncompleted:", run.has_final_answer)
    print("steps:", run.steps, "tokens:", run.usage.total)
    print("answer:", run.text)


if __name__ == "__main__":
    asyncio.run(main())
