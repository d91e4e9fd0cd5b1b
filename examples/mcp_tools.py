"""MCP: an agent with the tools of two servers, one approval, and a server that is started again meanwhile."""

import asyncio
import sys
from pathlib import Path

from ziggurat import Agent, Approve
from ziggurat.mcp import mcp
from ziggurat.messages import tool_call
from ziggurat.testing import ScriptedModel

SERVER = [sys.executable, str(Path(__file__).parent / "apps" / "tool_server.py")]
CALLS = [tool_call("library_find", text="tea"), tool_call("notes_keep", text="buy tea")]


async def main() -> None:
    library, notes = mcp(SERVER, name="library"), mcp(SERVER, name="notes", approval=["keep"])
    agent = Agent(ScriptedModel(*CALLS, "Noted."), tools=[library, notes], store="memory:")
    run = await agent.run("Find out about tea, and note what to buy.", run_id="tea")
    print([item.call.name for item in run.pending])
    await notes.close()  # its process ends; the run waits for a person, and then needs another one
    run = await agent.resume("tea", {item.id: Approve() for item in run.pending})
    print(*(f"{result.origin}: {result.text}" for message in run.messages for result in message.tool_results), sep="\n")
    print(run.text)
    await library.close()
    await notes.close()


asyncio.run(main())
