"""Tools declare the permissions that they need; a run is granted some, and every check is recorded."""

import asyncio

from ziggurat import Agent, tool
from ziggurat.agents import Environment
from ziggurat.messages import tool_call
from ziggurat.testing import ScriptedModel
from ziggurat.tools import PermissionLog


@tool(permissions=["file_read"])
def read_file(path: str) -> str:
    """Read a file."""
    return "text"


@tool(permissions=["file_read", "file_write"])
def delete_file(path: str) -> str:
    """Delete a file."""
    return "deleted"


async def main() -> None:
    log = PermissionLog()
    model = ScriptedModel(tool_call("read_file", path="a"), tool_call("delete_file", path="a"), "Done.")
    agent = Agent(model, tools=[read_file, delete_file], grants=["file_read"])
    run = await agent.run("Delete a", environment=Environment(permission_log=log))
    print(run.observations[1])
    for check in log:
        print(check.tool, check.allowed, check.missing)


if __name__ == "__main__":
    asyncio.run(main())
