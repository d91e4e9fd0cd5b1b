"""Lists: what a server offers, all pages of it, kept as long as the server allows."""

from typing import Any, TypeVar

from msgspec import DecodeError, Raw, Struct, json

from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError, MissingExtra, ToolError
from ziggurat.core.jsonrpc import INTERNAL_ERROR, METHOD_NOT_FOUND, JsonRpcError, parse
from ziggurat.core.log import logger
from ziggurat.mcp.headers import HeaderOf, headers_in
from ziggurat.mcp.link import Link
from ziggurat.mcp.settings import Settings
from ziggurat.mcp.wire import Headers, Outcome, Page, ServerTool, is_given, structure_in
from ziggurat.tools.validator import SchemaValidator

T = TypeVar("T")

_Listed = tuple[ServerTool, tuple[HeaderOf, ...]]

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
                page = parse(raw, Page, INTERNAL_ERROR)
            except JsonRpcError as error:
                raise ToolError(f"the MCP server {name} sent a list that is none: {error}") from error
            except ToolError as error:
                cause = error.__cause__
                if isinstance(cause, JsonRpcError) and cause.code == METHOD_NOT_FOUND:
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

    async def tools(self, ctx: Context) -> list[ServerTool]:
        """Return the tools; over HTTP without those that want arguments in headers in a way that is not allowed."""
        listed: dict[str, _Listed] = {}
        for tool in await self.all("tools", ServerTool, ctx):
            try:
                listed[tool.name] = tool, headers_in(tool.input_schema) if self._settings.url else ()
            except ValueError as error:
                name = self._settings.name
                logger.warning("the tool %s of the MCP server %s is left out: %s", tool.name, name, error)
        self._tools = listed
        return [tool for tool, _ in listed.values()]

    async def prepare(
        self, name: str, arguments: dict[str, Any], ctx: Context, *, again: bool = False
    ) -> tuple[ServerTool, Headers]:
        """Return a tool as the server has listed it, and the headers in which it wants the arguments of a call."""
        if again:
            self._changed("tools")
        if self._tools is None:
            await self.tools(ctx)
        tool, wanted = (self._tools or {}).get(name) or (ServerTool(name, {}), ())
        if not wanted or not (await self.link.connection()).modern:  # only the newer era has them
            return tool, ()
        return tool, tuple(header for each in wanted for header in each.values(arguments))

    def misfit(self, tool: ServerTool, outcome: Outcome) -> str:
        """Return why a result does not fit the output schema of its tool; empty if it does."""
        if tool.output_schema is None or outcome.is_error:
            return ""
        if not is_given(outcome.structured_content):
            return "there is no structured content"
        try:
            validator = self._validators.get(tool.name) or SchemaValidator(tool.output_schema, "the output schema")
        except ConfigurationError as error:
            self.require_schemas()
            logger.warning("results of %s of the MCP server %s: %s", tool.name, self._settings.name, error)
            return ""
        self._validators[tool.name] = validator
        return "; ".join(validator.problems(structure_in(outcome.structured_content)))
