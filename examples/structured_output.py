"""Structured output: a type goes in, a value comes out; an answer that does not fit is sent back."""

import asyncio
from typing import Literal

from msgspec import Struct

from ziggurat import Agent
from ziggurat.messages import tool_call
from ziggurat.testing import ScriptedModel


class Item(Struct):
    """One thing that was ordered."""

    article: str
    count: int = 1


class Order(Struct):
    """What a customer wants."""

    kind: Literal["order", "refund", "question"]
    items: list[Item]


async def main() -> None:
    model = ScriptedModel(
        tool_call("final_answer", kind="praise", items=[]),  # no such kind: the model is told, and asked again
        tool_call("final_answer", kind="order", items=[{"article": "tea", "count": 2}, {"article": "milk"}]),
    )
    run = await Agent(model, output=Order).run("Two teas and a milk, please.")
    order: Order = run.output
    print(order.kind)
    for item in order.items:
        print(f"  {item.count} x {item.article}")
    print(f"asked {run.model_calls} times")


if __name__ == "__main__":
    asyncio.run(main())
