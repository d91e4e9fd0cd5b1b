"""Code mode: a model writes one program that calls the tools; a person approves a call in the middle of it."""

import asyncio
from collections.abc import Sequence

from ziggurat import Agent, Approvals, Approve, Message, tool
from ziggurat.code import CodeTool
from ziggurat.messages import tool_call
from ziggurat.models import FunctionModel

PROGRAM = """
late = [order for order in orders("open") if order["days"] > 14]
for order in late:
    try:
        print(refund(order["id"], order["price"]))
    except PermissionError as error:
        print(order["id"], "was not refunded:", error)
sum(order["price"] for order in late)
"""


@tool(effect="none")
def orders(status: str) -> list[dict[str, int]]:
    """List orders."""
    print("(listed the orders)")
    return [{"id": number, "days": 5 * number, "price": 10 * number} for number in range(1, 6)]


@tool(effect="once")
def refund(order: int, amount: int) -> str:
    """Refund an order."""
    print(f"(refunded {order})")
    return f"refunded {amount} for order {order}"


def reply(messages: Sequence[Message]) -> object:
    """Write the program, then report what it has printed and returned."""
    results = messages[-1].tool_results
    return results[0].text if results else tool_call("run_code", code=PROGRAM)


async def main() -> None:
    model = FunctionModel(reply, name="coder")
    agent = Agent(model, tools=[CodeTool([orders, refund])], approvals=Approvals("refund"))
    run = await agent.run("Refund all orders that are more than two weeks late.")
    while run.pending:
        item = run.pending[0]
        print(f"{item.path.rpartition('/')[2]} {item.call.arguments}")
        run = await agent.resume(run.id, {item.id: Approve()})
    print(run.text)


if __name__ == "__main__":
    asyncio.run(main())
