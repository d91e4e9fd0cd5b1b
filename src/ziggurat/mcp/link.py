"""Link: the connections of a client, one for each event loop, what is asked of the server by them, and its lists."""

import asyncio
from typing import Any, TypeVar

from msgspec import DecodeError, Raw

from ziggurat.core import codec
from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError, MissingExtra, ToolError
from ziggurat.core.log import logger
from ziggurat.mcp import wire
from ziggurat.mcp.answers import Answers
from ziggurat.mcp.connection import MAX_QUESTIONS, Connection
from ziggurat.mcp.headers import HeaderOf, headers_in
from ziggurat.mcp.settings import Settings
from ziggurat.messages.events import ToolDelta
from ziggurat.tools.validator import SchemaValidator
from ziggurat.wires import jsonrpc

T = TypeVar("T")

_POLL = (0.05, 1.0, 60.0)  # the shortest, the usual and the longest time in seconds between two looks at a task
_MOST_PAGES = 1_000
_MOST_ITEMS = 20_000
_MAX_PAGE = 8 << 20  # bytes of a page of a list, which may hold millions of items otherwise


class Link:
    """One connection per event loop, each made by the first request that needs it."""

    def __init__(self, settings: Settings) -> None:
        self.settings: Settings = settings
        self._answers = Answers(settings.name, settings.model, settings.elicit, settings.roots)
        self._connections: dict[asyncio.AbstractEventLoop, Connection] = {}
        self._known = ""  # the revision that was agreed on the last time
        self._kept: dict[str, tuple[list[Any], float]] = {}  # and until when
        self._tools: dict[str, tuple[wire.ServerTool, tuple[HeaderOf, ...]]] | None = None
        self._validators: dict[str, SchemaValidator] = {}

    # -- requests ------------------------------------------------------------------------------------------------

    async def request(self, method: str, params: dict[str, Any], ctx: Context, **more: Any) -> Raw:
        """Make a request; once more if the server has refused it because it does not know the session."""
        for tries in (1, 2):
            connection = await self.connection()
            try:
                return await connection.request(method, params, ctx, seconds=self.settings.timeout, **more)
            except wire.SessionLost:
                if tries == 2:
                    raise
            except jsonrpc.JsonRpcError as error:
                raise wire.refused(error, self.settings.name) from error
        raise AssertionError("the loop returns or raises")

    async def act(self, method: str, params: dict[str, Any], ctx: Context, headers: wire.Headers = ()) -> wire.Outcome:
        sent = params
        for _ in range(MAX_QUESTIONS):
            outcome = await self._outcome(method, sent, ctx, headers)
            if outcome.result_type == "task":
                return await self._result_of_task(outcome, ctx)
            if outcome.result_type != "input_required":
                return outcome
            sent = dict(params)
            if outcome.input_requests:
                sent["inputResponses"] = await self._responses(outcome.input_requests, ctx)
            if outcome.request_state is not None:
                sent["requestState"] = outcome.request_state
        raise ToolError(f"the MCP server {self.settings.name} asked more than {MAX_QUESTIONS} times in one call")

    async def _responses(self, asked: dict[str, wire.InputRequest], ctx: Context) -> dict[str, object]:
        if len(asked) > MAX_QUESTIONS:
            raise ToolError(f"the MCP server {self.settings.name} asked more than {MAX_QUESTIONS} times at once")
        try:
            return {key: await self._answers(each.method, each.params, ctx) for key, each in asked.items()}
        except jsonrpc.JsonRpcError as error:
            raise ToolError(f"the MCP server {self.settings.name} asks what nobody can answer: {error}") from error

    async def _result_of_task(self, task: wire.Outcome, ctx: Context) -> wire.Outcome:
        named, answered = {"taskId": task.task_id}, set[str]()
        shortest, usual, longest = _POLL
        try:
            while task.status in ("working", "input_required"):
                pause = usual if task.poll_interval_ms is None else task.poll_interval_ms / 1_000
                await ctx.clock.sleep(min(max(pause, shortest), longest))
                task = await self._outcome("tasks/get", named, ctx)
                new = {key: each for key, each in (task.input_requests or {}).items() if key not in answered}
                if task.status == "input_required" and new:
                    answered |= new.keys()
                    if len(answered) > MAX_QUESTIONS:
                        raise ToolError(f"a task of the MCP server {self.settings.name} asked too often")
                    responses = await self._responses(new, ctx)
                    await self._outcome("tasks/update", {**named, "inputResponses": responses}, ctx)
        except BaseException:
            connection = self._connections.get(asyncio.get_running_loop())
            if connection is not None and connection.usable:
                connection.post("tasks/cancel", named)
            raise
        if task.status == "completed" and wire.is_given(task.result):
            return jsonrpc.parse(task.result, wire.Outcome, jsonrpc.INTERNAL_ERROR)
        if wire.is_given(task.error):
            raise wire.refused(
                jsonrpc.Failure(None, jsonrpc.parse(task.error, jsonrpc.ErrorObject)).exception(), self.settings.name
            )
        raise ToolError(
            f"the task of the MCP server {self.settings.name} was {task.status:.20}: {task.status_message or ''}"
        )

    async def _outcome(
        self, method: str, params: dict[str, Any], ctx: Context, headers: wire.Headers = ()
    ) -> wire.Outcome:
        progress = _report if method == "tools/call" else None
        result = await self.request(method, params, ctx, headers=headers, answer=self._answers, progress=progress)
        try:
            return jsonrpc.parse(result, wire.Outcome, jsonrpc.INTERNAL_ERROR)
        except jsonrpc.JsonRpcError as error:
            raise ToolError(f"the MCP server {self.settings.name} sent a result that is none: {error}") from error

    # -- connections ---------------------------------------------------------------------------------------------

    async def connection(self) -> Connection:
        """Return the connection of this loop; a new one if it was lost, or if the server is as good as dead."""
        loop = asyncio.get_running_loop()
        connection = self._connections.get(loop)
        if connection is not None and connection.silent and connection.usable and not await connection.check():
            logger.warning("the MCP server %s does not react and is started again", self.settings.name)
            connection.transport.kill()
            await connection.close()
        connection = self._connections.get(loop)
        if connection is None or not connection.usable:
            connection = self._connect(loop)
        try:
            await connection.ready()
        except ToolError:
            known, self._known = self._known, ""
            if not connection.probe_ended_it or known or self.settings.revision:
                raise
            self._known = wire.LEGACY[0]  # it ended because it was asked in the newer way
            connection = self._connect(loop)
            await connection.ready()
        self._known = wire.MODERN if connection.modern else wire.LEGACY[0]
        return connection

    async def close(self) -> None:
        connection = self._connections.pop(asyncio.get_running_loop(), None)
        if connection is not None:
            await connection.close()

    def _connect(self, loop: asyncio.AbstractEventLoop) -> Connection:
        for old in [each for each in self._connections if each.is_closed()]:
            del self._connections[old]
        connection = Connection(self.settings, self.settings.revision or self._known, self._changed)
        self._connections[loop] = connection
        self._changed("")
        return connection

    # -- lists ---------------------------------------------------------------------------------------------------

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
        connection = await self.connection()
        kept = self._kept.get(kind)
        if kept is not None and ctx.clock.monotonic() < kept[1]:
            return kept[0]
        listed = kind.partition("/")[0]
        if connection.info.capabilities.get(listed) is None:
            return []
        raws, ttl = await self._pages(kind, ctx)
        told = not self.settings.url and not connection.modern and connection.tells_of(listed)
        until = float("inf") if told else ctx.clock.monotonic() + ttl
        items = [item for raw in raws if (item := self._read(raw, kind, returns)) is not None]
        self._kept[kind] = items, until
        return items

    async def _pages(self, kind: str, ctx: Context) -> tuple[list[Raw], float]:
        """Return the items of all pages, and for how many seconds they may be kept."""
        name = self.settings.name
        field = "resource_templates" if "/" in kind else kind
        items: list[Raw] = []
        cursors: set[str] = set()
        ttl, params = float("inf"), dict[str, Any]()
        while True:
            try:
                raw = await self.request(f"{kind}/list", params, ctx)
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
            return codec.decoder(returns).decode(raw)
        except (DecodeError, UnicodeDecodeError, RecursionError) as error:
            logger.warning("the MCP server %s lists %s that cannot be read: %s", self.settings.name, kind, error)
            return None

    async def tools(self, ctx: Context) -> list[wire.ServerTool]:
        """Return the tools; over HTTP without those that want arguments in headers in a way that is not allowed."""
        listed: dict[str, tuple[wire.ServerTool, tuple[HeaderOf, ...]]] = {}
        for tool in await self.all("tools", wire.ServerTool, ctx):
            try:
                listed[tool.name] = tool, headers_in(tool.input_schema) if self.settings.url else ()
            except ValueError as error:
                name = self.settings.name
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
        if not wanted or not (await self.connection()).modern:  # only the newer era has them
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
            logger.warning("results of %s of the MCP server %s: %s", tool.name, self.settings.name, error)
            return ""
        self._validators[tool.name] = validator
        return "; ".join(validator.problems(wire.structure_in(outcome.structured_content)))


async def _report(progress: wire.Progress, ctx: Context) -> None:
    if progress.message and ctx.listens(ToolDelta):
        name = ctx.path.rpartition("/")[2]
        await ctx.emit(ToolDelta(ctx.path, name, progress.message))
