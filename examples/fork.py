"""Fork: a run is repeated from its second step with another prompt, and no mail is sent."""

import asyncio
from collections.abc import Sequence

from ziggurat import Agent, Message, tool
from ziggurat.messages import tool_call
from ziggurat.models import FunctionModel
from ziggurat.stores import InMemoryStore


@tool(effect="none")
def find_customer(order: int) -> str:
    """Find who placed an order."""
    print(f"(looked up {order})")
    return "ada@example.org"


@tool(effect="once")
def send_mail(to: str, text: str) -> str:
    """Send a mail."""
    print(f"(mailed {to})")
    return "sent"


def reply(messages: Sequence[Message]) -> object:
    """Look the customer up, write the mail, and report the result."""
    results = [result for message in messages for result in message.tool_results]
    if not results:
        return tool_call("find_customer", order=881)
    if len(results) == 1:
        asked = [message.text for message in messages if message.role == "user"][-1]
        return tool_call("send_mail", to=results[0].text, text="Sorry!" if "sorry" in asked else "It is late.")
    return results[-1].text


async def main() -> None:
    store = InMemoryStore()
    agent = Agent(FunctionModel(reply, name="desk"), tools=[find_customer, send_mail], store=store)
    run = await agent.run("Tell who ordered 881 that it is late", run_id="r-1")
    print(run.text)
    fork = await agent.fork("r-1", at=2, prompt="Say sorry", new_id="r-2")
    print(fork.actions[-1])
    print(fork.text)


if __name__ == "__main__":
    asyncio.run(main())
