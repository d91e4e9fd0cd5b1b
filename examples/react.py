"""ReAct: a model that only writes text calls tools through thoughts, actions and observations."""

import asyncio

from ziggurat import Agent, Callbacks, ToolError, stack
from ziggurat.models import react
from ziggurat.testing import ScriptedModel

PRICES = {"tea": 320, "milk": 140}


def price(article: str) -> int:
    """The price of an article in cents.

    Args:
        article: Name of the article.
    """
    if article not in PRICES:
        raise ToolError(f"there is no {article}; there are {', '.join(PRICES)}")
    return PRICES[article]


text_model = ScriptedModel(
    'Thought: I need the price.\nAction: price {"article": "cha"}',
    'Thought: It is called tea here.\nAction: price {"article": "tea"}',
    "Thought: Now I know.\nAction: FINAL_ANSWER Tea costs 3.20.",
)


async def main() -> None:
    agent = Agent(stack(text_model, react()), tools=[price], max_steps=5)
    listener = Callbacks(on_action=lambda call: print(f"action: {call.name} {call.arguments}"))
    run = await agent.run("What does cha cost?", listeners=[listener])
    for step in run.trace():
        print(f"{step.index}. {step.thought}", f"[{step.observation}]" if step.observation else "")
    print(run.text)
    print(f"failed tool calls: {run.failed_tool_calls}, most common action: {run.most_common_action}")


if __name__ == "__main__":
    asyncio.run(main())
