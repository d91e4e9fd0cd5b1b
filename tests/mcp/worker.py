"""A worker whose agent has the tools of a server, as a program: ``python -m tests.mcp.worker STORE LOG ERA TOOL``."""

import asyncio
import sys

from tests.mcp.serving import stdio
from tests.mcp.test_agent import Model
from ziggurat import Agent
from ziggurat.mcp import McpClient


def clerk(store: str, log: str, era: str, tool: str) -> tuple[Agent[str], McpClient]:
    """Return an agent that calls one tool of the test server, and the server."""
    server = stdio(f"log={log}", f"era={era}", approval=["destroy"])
    return Agent(Model((tool, "{}")), tools=[server], store=store, name="clerk"), server


async def main(*arguments: str) -> None:
    agent, server = clerk(*arguments)
    async with server:
        await agent.recover()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
