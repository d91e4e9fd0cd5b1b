"""``ziggurat mcp``: agents and tools for clients of the Model Context Protocol, and servers of it."""

import asyncio
import os
import secrets
import signal
import sys
from types import FunctionType
from typing import Annotated, Any

import typer.core
from typer import Argument

from ziggurat.agents.runnable import Runnable
from ziggurat.cli import load, options, terminal
from ziggurat.cli.agents import in_store
from ziggurat.cli.store import open_store
from ziggurat.cli.terminal import write
from ziggurat.core import codec, errors
from ziggurat.mcp.client import McpClient
from ziggurat.mcp.wire import ServerTool
from ziggurat.messages.formatting import shortened
from ziggurat.messages.message import Text, ToolResult
from ziggurat.serve.guard import check_address
from ziggurat.serve.mcp.methods import Methods
from ziggurat.serve.mcp.offering import McpServer
from ziggurat.serve.mcp.stdio import serve_stdio
from ziggurat.serve.served import ServedAgents
from ziggurat.tools.function import FunctionTool

_MAX_RUNS = 100


class _Group(typer.core.TyperGroup):
    """Serves what is named where no command is."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        named = args and args[0] not in self.commands and args[0] not in ctx.help_option_names
        return super().parse_args(ctx, ["serve", *args] if named else args)


mcp: typer.Typer = typer.Typer(cls=_Group, no_args_is_help=True, rich_markup_mode=None)


@mcp.callback()
def _mcp() -> None:
    """Serve agents and tools to clients of MCP, and use servers of it.

    \b
    Examples:
      ziggurat mcp desk.py:agent
      ziggurat mcp desk.py:agent tools.py:search --store sqlite:///runs.db
    """


@mcp.command()
def serve(
    names: Annotated[list[str], Argument(metavar="FILE.PY:NAME...", help="Agents, tools, or one McpServer.")],
    token: options.Token = None,
    store: options.Store = None,
) -> int:
    """Serve agents and tools by standard input and output, to the client that starts this: ``ziggurat mcp NAME``."""
    check_address("localhost", token)
    agents, server = _loaded(names)
    served = ServedAgents([in_store(agent, store) for agent in agents], None, _MAX_RUNS)
    methods = Methods(served, server, token or secrets.token_urlsafe(32), open_store(store))
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what tools print must not come between the messages
    asyncio.run(_serve(methods, out))
    return 0


async def _serve(methods: Methods, out: Any) -> None:
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    await serve_stdio(methods, sys.stdin.buffer, out, ended)


def _loaded(names: list[str]) -> tuple[list[Runnable[Any]], McpServer]:
    values = [load.load_any(name, "agent or tool", McpServer, FunctionType, FunctionTool) for name in names]
    agents = [each for each in values if isinstance(each, Runnable)]
    servers = [each for each in values if isinstance(each, McpServer)]
    tools = [each for each in values if not isinstance(each, Runnable | McpServer)]
    if len(servers) > 1 or (servers and tools):
        raise errors.ConfigurationError("name one McpServer, and give it the tools: McpServer(tools=[...])")
    return agents, servers[0] if servers else McpServer(tools=tools)


Server = Annotated[
    str,
    Argument(metavar="SERVER", help="A command in quotes, an address, or a file of settings that ends with .json."),
]
_WIDTH = 100


@mcp.command("list")
def list_tools(server: Server, json: options.JsonRows = False) -> int:
    """List the tools of a server, or of all servers in a file.

    \b
    Examples:
      ziggurat mcp list 'npx -y @modelcontextprotocol/server-memory'
      ziggurat mcp list https://example.com/mcp --json
    """
    for client in load.load_servers([server]):
        tools = asyncio.run(_tools(client))
        if not json:
            terminal.write_table([(tool.name, shortened(tool.description or "", _WIDTH)) for tool in tools])
            continue
        for tool in tools:
            about = {"name": tool.name, "description": tool.description or "", "parameters": tool.input_schema}
            terminal.write_json(codec.encode({"server": client.name, **about}))
    return 0


async def _tools(client: McpClient) -> list[ServerTool]:
    async with client:
        return await client.tools()


@mcp.command("call")
def call_tool(
    server: Server,
    tool: Annotated[str, Argument(metavar="TOOL", help="The name of the tool.")],
    arguments: Annotated[str, Argument(metavar="ARGUMENTS", help="The arguments as JSON.")] = "{}",
) -> int:
    """Call a tool of a server and write its result; the exit code is 1 if the tool failed.

    \b
    Examples:
      ziggurat mcp call 'uvx mcp-server-time' get_current_time '{"timezone": "UTC"}'
    """
    try:
        given = codec.decode(arguments, dict[str, Any])
    except errors.JournalCorrupt as error:
        raise errors.ConfigurationError("the arguments must be a JSON object, such as '{\"name\": 1}'") from error
    clients = load.load_servers([server])
    if len(clients) != 1:
        raise errors.ConfigurationError(f"a call is made to one server; the file {server!r} has {len(clients)}")
    result = asyncio.run(_called(clients[0], tool, given))
    write(result.text)
    others = 0 if isinstance(result.content, str) else sum(not isinstance(part, Text) for part in result.content)
    if others:
        terminal.note(f"{others} pictures, sounds or files are not shown")
    return 0 if result.error is None else 1


async def _called(client: McpClient, tool: str, arguments: dict[str, Any]) -> ToolResult:
    async with client:
        return await client.call(tool, arguments)
