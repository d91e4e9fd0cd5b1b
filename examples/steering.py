"""Steering: send a message to a run in the background, redirect it, and stop it after its step."""

import asyncio

from ziggurat import Agent, Denied, ModelRequest, ToolCall
from ziggurat.agents import Steerable
from ziggurat.events import Steered, ToolStarted
from ziggurat.messages import tool_call
from ziggurat.testing import ScriptedModel

dug = asyncio.Event()


async def dig(where: str) -> str:
    """Dig somewhere; it takes long."""
    dug.set()
    await asyncio.sleep(3600)
    return "sand"


def reply(request: ModelRequest) -> str | ToolCall:
    said = [message.text for message in request.messages if message.role == "user"]
    return tool_call("dig", where="the desert") if len(said) == 1 else f"I did as told: {'; '.join(said[1:])}"


async def main() -> None:
    agent = Agent(ScriptedModel(always=reply), tools=[dig])
    handle = agent.start("Find the ziggurat")
    async for item in handle.events():
        match item.what:
            case ToolStarted():
                await dug.wait()
                await handle.inject("It is made of bricks")
                await handle.redirect("Not there: look in Ur")  # cancels the tool call; its result says so
            case Steered(_, verb, step):
                print(f"step {step}: {verb}")
            case _:
                pass
    run = await handle.result()
    print(run.observations[0])
    print(run.text)

    careful = Agent(ScriptedModel(always=reply), middleware=[Steerable("cancel")])
    handle = careful.start("Find the ziggurat")
    try:
        await handle.redirect("Stop and sing instead")
    except Denied as error:
        print(error)
    await handle.cancel(after_step=True)  # completed steps are kept, and the run can be resumed
    print((await handle.result()).stop)


if __name__ == "__main__":
    asyncio.run(main())
