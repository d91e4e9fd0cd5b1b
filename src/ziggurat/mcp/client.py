"""McpClient: the client of one server of the Model Context Protocol, and what that offers."""

from collections.abc import AsyncGenerator, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from ziggurat.core.context import Context, root
from ziggurat.core.errors import ConfigurationError, ToolError
from ziggurat.core.service import EFFECT, NAME, Fact
from ziggurat.mcp.link import Link
from ziggurat.mcp.settings import Settings
from ziggurat.mcp.wire import (
    HEADER_MISMATCH,
    Piece,
    Prompt,
    Resource,
    ServerTool,
    Template,
    contents_of,
    message_of,
    result_of_call,
)
from ziggurat.messages.message import Message, ToolResult
from ziggurat.tools.entry import Offer
from ziggurat.wires.jsonrpc import JsonRpcError


class McpClient:
    """The client of one server, whose tools an agent gets with ``tools=[client]``; made by `mcp`.

    It is connected when it is first used, once per event loop, and again after it was lost. The connection of a loop is
    closed with the loop, or by `close`. Each method that asks the server raises `ToolError` if it cannot be asked, or
    has no such thing.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings: Settings = settings
        self.name: str = settings.name
        self.facts: dict[Fact[Any], Any] = {NAME: self.name, EFFECT: settings.strongest_effect}
        self._link = Link(settings)

    async def tools(self, ctx: Context | None = None) -> list[ServerTool]:
        """Return the tools as the server lists them."""
        return await self._link.tools(ctx or root("mcp"))

    async def resources(self) -> list[Resource]:
        """Return the resources that can be read; those of templates are not among them."""
        return await self._link.all("resources", Resource, root("mcp"))

    async def templates(self) -> list[Template]:
        """Return the templates of addresses of resources."""
        return await self._link.all("resources/templates", Template, root("mcp"))

    async def read(self, uri: str, ctx: Context | None = None) -> list[Piece]:
        """Read a resource."""
        outcome = await self._link.act("resources/read", {"uri": uri}, ctx or root("mcp"))
        return [contents_of(each) for each in outcome.contents]

    async def prompts(self) -> list[Prompt]:
        """Return the prompts."""
        return await self._link.all("prompts", Prompt, root("mcp"))

    async def prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> list[Message]:
        """Return the messages of a prompt, with which an agent can be run."""
        params = {"name": name, "arguments": dict(arguments or {})}
        outcome = await self._link.act("prompts/get", params, root("mcp"))
        return [message_of(said) for said in outcome.messages]

    async def instructions(self) -> str:
        """Return how the server says that it is used; its words, not yours."""
        return (await self._link.connection()).info.instructions or ""

    async def call(
        self, tool: str, arguments: Mapping[str, Any] | None = None, ctx: Context | None = None
    ) -> ToolResult:
        """Call a tool by the name that the server has for it.

        Raises:
            ToolError: the server cannot be asked, or refused the call.
            Timeout: it did not answer in time.
        """
        ctx = ctx or root("mcp")
        given = dict(arguments or {})
        params = {"name": tool, "arguments": given}
        listed, headers = await self._link.prepare(tool, given, ctx)
        try:
            outcome = await self._link.act("tools/call", params, ctx, headers)
        except ToolError as error:
            cause = error.__cause__
            if not isinstance(cause, JsonRpcError) or cause.code != HEADER_MISMATCH:
                raise
            listed, headers = await self._link.prepare(tool, given, ctx, again=True)  # the schema may have changed
            outcome = await self._link.act("tools/call", params, ctx, headers)
        try:
            if wrong := self._link.misfit(listed, outcome):
                raise ToolError(f"the result of {tool} of the MCP server {self.name} breaks its output schema: {wrong}")
            return result_of_call(outcome, self.name, tool, structured=listed.output_schema is not None)
        except JsonRpcError as error:
            raise ToolError(f"the result of {tool} of the MCP server {self.name} is broken: {error}") from error

    async def changes(self, *uris: str) -> AsyncGenerator[str, None]:
        """Yield ``"tools"``, ``"resources"`` or ``"prompts"`` when that list has changed, and each of these addresses
        of resources when the resource has::

            async for change in files.changes("file:///data/orders.csv"):
                print(change)

        A change may be told of more than once. Lists are read anew by themselves.

        Raises:
            ToolError: the server cannot be asked, refuses to tell of a resource, or the connection ended.
        """
        async with aclosing((await self._link.connection()).changes(uris)) as changes:
            async for change in changes:
                yield change

    async def offer_tools(self, sources: "Sequence[McpClient]", taken: Collection[str], ctx: Context, /) -> Offer:
        """Return the tools of several servers for a run; called by agents.

        Raises:
            MissingExtra: the extra ``mcp`` is not installed.
        """
        self._link.require_schemas()
        from ziggurat.mcp.offer import offer

        return await offer(sources, taken, ctx)

    def __iter__(self) -> Iterator[Any]:
        raise ConfigurationError(f"a server is one of the tools of an agent, without a star: tools=[{self!r}]")

    async def close(self) -> None:
        """Close the connection of the running loop; the process of a server is ended. It may be used again."""
        await self._link.close()

    async def __aenter__(self) -> "McpClient":
        await self._link.connection()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"mcp({self.settings.url or ' '.join(self.settings.command)!r})"
