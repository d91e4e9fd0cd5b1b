"""A session: a conversation over many runs, saved after each step, written by one run at a time."""

import asyncio
import tempfile
from collections.abc import Sequence

from ziggurat import Agent, Message, tool
from ziggurat.messages import tool_call
from ziggurat.models import FunctionModel
from ziggurat.stores import Session


@tool
def price(item: str) -> float:
    """Look a price up."""
    return {"tea": 3.2, "milk": 1.1}[item]


def reply(messages: Sequence[Message]) -> object:
    """Look up the price of the item asked for, then list all items so far."""
    asked = [message.text for message in messages if message.role == "user"]
    if messages[-1].role == "user":
        return tool_call("price", item=asked[-1])
    return f"{asked[-1]} is {messages[-1].tool_results[0].text}; so far: {', '.join(asked)}"


async def main() -> None:
    store = f"sqlite:///{tempfile.mkdtemp()}/agents.db"

    def agent() -> Agent:
        return Agent(FunctionModel(reply, name="clerk"), tools=[price], store=store)

    await agent().run("tea", session="ada")
    runs = [agent().run(item, session="ada") for item in ("milk", "tea")]  # at once: the second waits for the first
    for run in await asyncio.gather(*runs):
        print(run.text)

    chat = Session("ada", store, limit=4)  # the number of messages a run begins with
    print(len(await chat.get_items()), "items,", len(await chat.get_messages(4)), "messages to begin with")
    await chat.clear()
    print((await agent().run("milk", session=chat)).text)


if __name__ == "__main__":
    asyncio.run(main())
