"""McpClient: the client of one server of the Model Context Protocol, and what that offers."""

from collections.abc import AsyncGenerator, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

from msgspec import DecodeError, Raw, Struct, json

from ziggurat.core import jsonrpc
from ziggurat.core.context import Context, root
from ziggurat.core.errors import ConfigurationError, MissingExtra, ToolError
from ziggurat.core.log import logger
from ziggurat.core.service import EFFECT, NAME, Fact
from ziggurat.mcp import wire
from ziggurat.mcp.connection import Link
from ziggurat.mcp.headers import HeaderOf, headers_in
from ziggurat.mcp.results import Piece, contents_of, message_of, result_of_call
from ziggurat.mcp.settings import Settings
from ziggurat.messages.message import Message, ToolResult
from ziggurat.tools.sources import Offer
from ziggurat.tools.validator import SchemaValidator

T = TypeVar("T")


_Listed = tuple[wire.ServerTool, tuple[HeaderOf, ...]]

_MOST_PAGES = 1_000
_MOST_ITEMS = 20_000
_MAX_PAGE = 8 << 20
"""Bytes of a page of a list, which may hold millions of items otherwise."""


class _Kept(Struct, eq=False):
    items: list[Any]
    until: float


class Lists:
    def __init__(self, settings: Settings) -> None:
        self.link: Link = Link(settings, self._changed)
        self._settings = settings
        self._kept: dict[str, _Kept] = {}
        self._tools: dict[str, _Listed] | None = None
        self._validators: dict[str, SchemaValidator] = {}

    @staticmethod
    def require_schemas() -> None:
        """Raise MissingExtra if the arguments of calls cannot be checked against the schemas of tools."""
        try:
            import jsonschema_rs  # noqa: F401
        except ImportError as error:
            raise MissingExtra("An agent with tools of an MCP server", "mcp") from error

    def _changed(self, kind: str) -> None:
        """Forget a list that the server says has changed; all with a new connection."""
        for name in [name for name in self._kept if name.startswith(kind)]:
            del self._kept[name]
        if kind in ("", "tools"):
            self._tools = None
            self._validators.clear()

    async def all(self, kind: str, returns: type[T], ctx: Context) -> list[T]:
        """Return all items of a list; those that cannot be read are left out, with a warning."""
        connection = await self.link.connection()
        kept = self._kept.get(kind)
        if kept is not None and ctx.clock.monotonic() < kept.until:
            return kept.items
        listed = kind.partition("/")[0]
        if connection.info.capabilities.get(listed) is None:
            return []
        raws, ttl = await self._pages(kind, ctx)
        told = not self._settings.url and not connection.modern and connection.tells_of(listed)
        until = float("inf") if told else ctx.clock.monotonic() + ttl
        items = [item for raw in raws if (item := self._read(raw, kind, returns)) is not None]
        self._kept[kind] = _Kept(items, until)
        return items

    async def _pages(self, kind: str, ctx: Context) -> tuple[list[Raw], float]:
        """Return the items of all pages, and for how many seconds they may be kept."""
        name = self._settings.name
        field = "resource_templates" if "/" in kind else kind
        items: list[Raw] = []
        cursors: set[str] = set()
        ttl, params = float("inf"), dict[str, Any]()
        while True:
            try:
                raw = await self.link.request(f"{kind}/list", params, ctx)
                if memoryview(raw).nbytes > _MAX_PAGE:
                    raise ToolError(f"the MCP server {name} sent a page of more than {_MAX_PAGE >> 20} MiB")
                page = jsonrpc.parse(raw, wire.Page, jsonrpc.INTERNAL_ERROR)
            except jsonrpc.JsonRpcError as error:
                raise ToolError(f"the MCP server {name} sent a list that is none: {error}") from error
            except ToolError as error:
                cause = error.__cause__
                if isinstance(cause, jsonrpc.JsonRpcError) and cause.code == jsonrpc.METHOD_NOT_FOUND:
                    return [], 0.0  # servers say that they have resources, and may have no templates
                raise
            items += getattr(page, field)
            ttl = min(ttl, page.ttl_ms or 0.0)
            cursor = page.next_cursor
            if cursor is None:
                return items, max(0.0, ttl) / 1_000
            if cursor in cursors or len(cursors) >= _MOST_PAGES or len(items) > _MOST_ITEMS:
                logger.warning("the list of %s of the MCP server %s does not end and was cut", kind, name)
                return items[:_MOST_ITEMS], 0.0
            cursors.add(cursor)
            params = {"cursor": cursor}

    def _read(self, raw: Raw, kind: str, returns: type[T]) -> T | None:
        try:
            return json.decode(raw, type=returns)
        except (DecodeError, UnicodeDecodeError, RecursionError) as error:
            logger.warning("the MCP server %s lists %s that cannot be read: %s", self._settings.name, kind, error)
            return None

    async def tools(self, ctx: Context) -> list[wire.ServerTool]:
        """Return the tools; over HTTP without those that want arguments in headers in a way that is not allowed."""
        listed: dict[str, _Listed] = {}
        for tool in await self.all("tools", wire.ServerTool, ctx):
            try:
                listed[tool.name] = tool, headers_in(tool.input_schema) if self._settings.url else ()
            except ValueError as error:
                name = self._settings.name
                logger.warning("the tool %s of the MCP server %s is left out: %s", tool.name, name, error)
        self._tools = listed
        return [tool for tool, _ in listed.values()]

    async def prepare(
        self, name: str, arguments: dict[str, Any], ctx: Context, *, again: bool = False
    ) -> tuple[wire.ServerTool, wire.Headers]:
        """Return a tool as the server has listed it, and the headers in which it wants the arguments of a call."""
        if again:
            self._changed("tools")
        if self._tools is None:
            await self.tools(ctx)
        tool, wanted = (self._tools or {}).get(name) or (wire.ServerTool(name, {}), ())
        if not wanted or not (await self.link.connection()).modern:  # only the newer era has them
            return tool, ()
        return tool, tuple(header for each in wanted for header in each.values(arguments))

    def misfit(self, tool: wire.ServerTool, outcome: wire.Outcome) -> str:
        """Return why a result does not fit the output schema of its tool; empty if it does."""
        if tool.output_schema is None or outcome.is_error:
            return ""
        if not wire.is_given(outcome.structured_content):
            return "there is no structured content"
        try:
            validator = self._validators.get(tool.name) or SchemaValidator(tool.output_schema, "the output schema")
        except ConfigurationError as error:
            self.require_schemas()
            logger.warning("results of %s of the MCP server %s: %s", tool.name, self._settings.name, error)
            return ""
        self._validators[tool.name] = validator
        return "; ".join(validator.problems(wire.structure_in(outcome.structured_content)))


class McpClient:
    """The client of one server, whose tools an agent gets with ``tools=[client]``; made by `mcp`.

    It is connected when it is first used, once per event loop, and again after it was lost. The connection of a loop is
    closed with the loop, or by `close`.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings: Settings = settings
        self.name: str = settings.name
        self.facts: dict[Fact[Any], Any] = {NAME: self.name, EFFECT: settings.strongest_effect}
        self._lists = Lists(settings)
        self._link = self._lists.link

    async def tools(self, ctx: Context | None = None) -> list[wire.ServerTool]:
        """Return the tools as the server lists them.

        Raises:
            ToolError: the server cannot be asked.
        """
        return await self._lists.tools(ctx or root("mcp"))

    async def resources(self) -> list[wire.Resource]:
        """Return the resources that can be read; those of templates are not among them.

        Raises:
            ToolError: the server cannot be asked.
        """
        return await self._lists.all("resources", wire.Resource, root("mcp"))

    async def templates(self) -> list[wire.Template]:
        """Return the templates of addresses of resources.

        Raises:
            ToolError: the server cannot be asked.
        """
        return await self._lists.all("resources/templates", wire.Template, root("mcp"))

    async def read(self, uri: str, ctx: Context | None = None) -> list[Piece]:
        """Read a resource.

        Raises:
            ToolError: the server cannot be asked, or has no such resource.
        """
        outcome = await self._link.act("resources/read", {"uri": uri}, ctx or root("mcp"))
        return [contents_of(each) for each in outcome.contents]

    async def prompts(self) -> list[wire.Prompt]:
        """Return the prompts.

        Raises:
            ToolError: the server cannot be asked.
        """
        return await self._lists.all("prompts", wire.Prompt, root("mcp"))

    async def prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> list[Message]:
        """Return the messages of a prompt, with which an agent can be run.

        Raises:
            ToolError: the server cannot be asked, or has no such prompt.
        """
        params = {"name": name, "arguments": dict(arguments or {})}
        outcome = await self._link.act("prompts/get", params, root("mcp"))
        return [message_of(said) for said in outcome.messages]

    async def instructions(self) -> str:
        """Return how the server says that it is used; its words, not yours.

        Raises:
            ToolError: the server cannot be asked.
        """
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
        listed, headers = await self._lists.prepare(tool, given, ctx)
        try:
            outcome = await self._link.act("tools/call", params, ctx, headers)
        except ToolError as error:
            cause = error.__cause__
            if not isinstance(cause, jsonrpc.JsonRpcError) or cause.code != wire.HEADER_MISMATCH:
                raise
            listed, headers = await self._lists.prepare(tool, given, ctx, again=True)  # the schema may have changed
            outcome = await self._link.act("tools/call", params, ctx, headers)
        try:
            if wrong := self._lists.misfit(listed, outcome):
                raise ToolError(f"the result of {tool} of the MCP server {self.name} breaks its output schema: {wrong}")
            return result_of_call(outcome, self.name, tool, structured=listed.output_schema is not None)
        except jsonrpc.JsonRpcError as error:
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
        self._lists.require_schemas()
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
