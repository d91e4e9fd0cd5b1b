"""``ziggurat mcp list`` and ``ziggurat mcp call``: the tools of servers, without an agent."""

import asyncio
import json as standard_json
from typing import Annotated, Any

import typer

from ziggurat.cli import options
from ziggurat.cli.load import load_servers
from ziggurat.cli.terminal import note, write, write_json
from ziggurat.core.codec import encode
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.visible import visible, visible_line
from ziggurat.mcp.client import McpClient
from ziggurat.mcp.wire import ServerTool
from ziggurat.messages.formatting import shortened
from ziggurat.messages.parts import Text, ToolResult

Server = Annotated[
    str,
    typer.Argument(
        metavar="SERVER", help="A command in quotes, an address, or a file of settings that ends with .json."
    ),
]
_WIDTH = 100


def list_tools(server: Server, json: options.JsonRows = False) -> int:
    """List the tools of a server, or of all servers in a file.

    \b
    Examples:
      ziggurat mcp list 'npx -y @modelcontextprotocol/server-memory'
      ziggurat mcp list https://example.com/mcp --json
    """
    for client, tools in asyncio.run(_listed(load_servers([server]))):
        for tool in tools:
            if json:
                about = {"name": tool.name, "description": tool.description or "", "parameters": tool.input_schema}
                write_json(encode({"server": client.name, **about}))
            else:
                text = shortened(visible_line(tool.description or ""), _WIDTH)
                write(f"{visible_line(tool.name)}  {text}")
    return 0


async def _listed(clients: list[McpClient]) -> list[tuple[McpClient, list[ServerTool]]]:
    return [(client, await _tools(client)) for client in clients]


async def _tools(client: McpClient) -> list[ServerTool]:
    async with client:
        return await client.tools()


def call_tool(
    server: Server,
    tool: Annotated[str, typer.Argument(metavar="TOOL", help="The name of the tool.")],
    arguments: Annotated[str, typer.Argument(metavar="ARGUMENTS", help="The arguments as JSON.")] = "{}",
) -> int:
    """Call a tool of a server and write its result; the exit code is 1 if the tool failed.

    \b
    Examples:
      ziggurat mcp call 'uvx mcp-server-time' get_current_time '{"timezone": "UTC"}'
    """
    try:
        given = standard_json.loads(arguments)
    except ValueError as error:
        raise ConfigurationError(f"the arguments must be JSON: {error}") from error
    if not isinstance(given, dict):
        raise ConfigurationError("the arguments must be a JSON object, such as '{\"name\": 1}'")
    clients = load_servers([server])
    if len(clients) != 1:
        raise ConfigurationError(f"a call is made to one server; the file {server!r} has {len(clients)}")
    result = asyncio.run(_called(clients[0], tool, given))
    write(visible(result.text))
    others = 0 if isinstance(result.content, str) else sum(not isinstance(part, Text) for part in result.content)
    if others:
        note(f"{others} pictures, sounds or files are not shown")
    return 0 if result.error is None else 1


async def _called(client: McpClient, tool: str, arguments: dict[str, Any]) -> ToolResult:
    async with client:
        return await client.call(tool, arguments)
