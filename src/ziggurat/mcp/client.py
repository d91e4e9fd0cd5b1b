"""McpClient: the client of one server of the Model Context Protocol, and what that offers."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar

from msgspec import DecodeError, Raw

from ziggurat.core import codec, errors, service
from ziggurat.core.context import Context, root
from ziggurat.core.log import logger
from ziggurat.mcp import wire
from ziggurat.mcp.answers import Answers
from ziggurat.mcp.connection import MAX_QUESTIONS, Connection
from ziggurat.mcp.headers import HeaderOf, headers_in
from ziggurat.mcp.settings import Settings
from ziggurat.messages.events import ToolDelta
from ziggurat.messages.message import Message, ToolResult
from ziggurat.tools.entry import Offer
from ziggurat.tools.validator import SchemaValidator
from ziggurat.wires import jsonrpc

T = TypeVar("T")

_POLL = (0.05, 1.0, 60.0)  # the shortest, the usual and the longest time in seconds between two looks at a task
_MOST_PAGES = 1_000
_MOST_ITEMS = 20_000
_MAX_PAGE = 8 << 20  # bytes of a page of a list, which may hold millions of items otherwise


class McpClient:
    """The client of one server, whose tools an agent gets with ``tools=[client]``; made by `mcp`.

    It is connected when it is first used, once per event loop, and again after it was lost. The connection of a loop is
    closed with the loop, or by `close`. Each method that asks the server raises `ToolError` if it cannot be asked, or
    has no such thing.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings: Settings = settings
        self.name: str = settings.name
        self.facts: dict[service.Fact[Any], Any] = {service.NAME: self.name, service.EFFECT: settings.strongest_effect}
        self._answers = Answers(settings.name, settings.model, settings.elicit, settings.roots)
        self._connections: dict[asyncio.AbstractEventLoop, Connection] = {}
        self._known = ""  # the revision that was agreed on the last time
        self._kept: dict[str, tuple[list[Any], float]] = {}  # and until when
        self._tools: dict[str, tuple[wire.ServerTool, tuple[HeaderOf, ...]]] | None = None
        self._validators: dict[str, SchemaValidator] = {}

    async def tools(self, ctx: Context | None = None) -> list[wire.ServerTool]:
        """Return the tools as the server lists them, without those that want arguments in headers that cannot be."""
        listed: dict[str, tuple[wire.ServerTool, tuple[HeaderOf, ...]]] = {}
        for tool in await self._all("tools", wire.ServerTool, ctx or root("mcp")):
            try:
                listed[tool.name] = tool, headers_in(tool.input_schema) if self.settings.url else ()
            except ValueError as error:
                logger.warning("the tool %s of the MCP server %s is left out: %s", tool.name, self.name, error)
        self._tools = listed
        return [tool for tool, _ in listed.values()]

    async def resources(self) -> list[wire.Resource]:
        """Return the resources that can be read; those of templates are not among them."""
        return await self._all("resources", wire.Resource, root("mcp"))

    async def templates(self) -> list[wire.Template]:
        """Return the templates of addresses of resources."""
        return await self._all("resources/templates", wire.Template, root("mcp"))

    async def read(self, uri: str, ctx: Context | None = None) -> list[wire.Piece]:
        """Read a resource."""
        outcome = await self._act("resources/read", {"uri": uri}, ctx or root("mcp"))
        return [wire.contents_of(each) for each in outcome.contents]

    async def prompts(self) -> list[wire.Prompt]:
        """Return the prompts."""
        return await self._all("prompts", wire.Prompt, root("mcp"))

    async def prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> list[Message]:
        """Return the messages of a prompt, with which an agent can be run."""
        params = {"name": name, "arguments": dict(arguments or {})}
        outcome = await self._act("prompts/get", params, root("mcp"))
        return [wire.message_of(said) for said in outcome.messages]

    async def instructions(self) -> str:
        """Return how the server says that it is used; its words, not yours."""
        return (await self._connection()).info.instructions or ""

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
        listed, headers = await self._prepare(tool, given, ctx)
        try:
            outcome = await self._act("tools/call", params, ctx, headers)
        except errors.ToolError as error:
            cause = error.__cause__
            if not isinstance(cause, jsonrpc.JsonRpcError) or cause.code != wire.HEADER_MISMATCH:
                raise
            listed, headers = await self._prepare(tool, given, ctx, again=True)  # the schema may have changed
            outcome = await self._act("tools/call", params, ctx, headers)
        try:
            if wrong := self._misfit(listed, outcome):
                raise errors.ToolError(
                    f"the result of {tool} of the MCP server {self.name} breaks its output schema: {wrong}"
                )
            return wire.result_of_call(outcome, self.name, tool, structured=listed.output_schema is not None)
        except jsonrpc.JsonRpcError as error:
            raise errors.ToolError(f"the result of {tool} of the MCP server {self.name} is broken: {error}") from error

    async def offer_tools(self, sources: "Sequence[McpClient]", taken: Collection[str], ctx: Context, /) -> Offer:
        """Return the tools of several servers for a run; called by agents.

        Raises:
            MissingExtra: the extra ``mcp`` is not installed.
        """
        self._require_schemas()
        from ziggurat.mcp.offer import offer

        return await offer(sources, taken, ctx)

    async def close(self) -> None:
        """Close the connection of the running loop; the process of a server is ended. It may be used again."""
        connection = self._connections.pop(asyncio.get_running_loop(), None)
        if connection is not None:
            await connection.close()

    async def __aenter__(self) -> "McpClient":
        await self._connection()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"mcp({self.settings.url.partition('?')[0] or ' '.join(self.settings.command)!r})"

    # -- requests ------------------------------------------------------------------------------------------------

    async def _request(self, method: str, params: dict[str, Any], ctx: Context, **more: Any) -> Raw:
        """Make a request; once more if the server has refused it because it does not know the session."""
        for tries in (1, 2):
            connection = await self._connection()
            try:
                return await connection.request(method, params, ctx, seconds=self.settings.timeout, **more)
            except wire.SessionLost:
                if tries == 2:
                    raise
            except jsonrpc.JsonRpcError as error:
                raise wire.refused(error, self.name) from error
        raise AssertionError("the loop returns or raises")

    async def _act(self, method: str, params: dict[str, Any], ctx: Context, headers: wire.Headers = ()) -> wire.Outcome:
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
        raise errors.ToolError(f"the MCP server {self.name} asked more than {MAX_QUESTIONS} times in one call")

    async def _responses(self, asked: dict[str, wire.InputRequest], ctx: Context) -> dict[str, object]:
        if len(asked) > MAX_QUESTIONS:
            raise errors.ToolError(f"the MCP server {self.name} asked more than {MAX_QUESTIONS} times at once")
        try:
            return {key: await self._answers(each.method, each.params, ctx) for key, each in asked.items()}
        except jsonrpc.JsonRpcError as error:
            raise errors.ToolError(f"the MCP server {self.name} asks what nobody can answer: {error}") from error

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
                        raise errors.ToolError(f"a task of the MCP server {self.name} asked too often")
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
                jsonrpc.Failure(None, jsonrpc.parse(task.error, jsonrpc.ErrorObject)).exception(), self.name
            )
        raise errors.ToolError(
            f"the task of the MCP server {self.name} was {task.status:.20}: {task.status_message or ''}"
        )

    async def _outcome(
        self, method: str, params: dict[str, Any], ctx: Context, headers: wire.Headers = ()
    ) -> wire.Outcome:
        progress = _report if method == "tools/call" else None
        result = await self._request(method, params, ctx, headers=headers, answer=self._answers, progress=progress)
        try:
            return jsonrpc.parse(result, wire.Outcome, jsonrpc.INTERNAL_ERROR)
        except jsonrpc.JsonRpcError as error:
            raise errors.ToolError(f"the MCP server {self.name} sent a result that is none: {error}") from error

    # -- connections ---------------------------------------------------------------------------------------------

    async def _connection(self) -> Connection:
        """Return the connection of this loop; a new one if it was lost, or if the server is as good as dead."""
        loop = asyncio.get_running_loop()
        connection = self._connections.get(loop)
        if connection is not None and connection.silent and connection.usable and not await connection.check():
            logger.warning("the MCP server %s does not react and is started again", self.name)
            connection.transport.kill()
            await connection.close()
        connection = self._connections.get(loop)
        if connection is None or not connection.usable:
            connection = self._connect(loop)
        try:
            await connection.ready()
        except errors.ToolError:
            known, self._known = self._known, ""
            if not connection.probe_ended_it or known or self.settings.revision:
                raise
            self._known = wire.LEGACY[0]  # it ended because it was asked in the newer way
            connection = self._connect(loop)
            await connection.ready()
        self._known = wire.MODERN if connection.modern else wire.LEGACY[0]
        return connection

    def _connect(self, loop: asyncio.AbstractEventLoop) -> Connection:
        for old in [each for each in self._connections if each.is_closed()]:
            del self._connections[old]
        connection = Connection(self.settings, self.settings.revision or self._known, self._changed)
        self._connections[loop] = connection
        self._changed("")
        return connection

    # -- lists ---------------------------------------------------------------------------------------------------

    @staticmethod
    def _require_schemas() -> None:
        """Raise MissingExtra if the arguments of calls cannot be checked against the schemas of tools."""
        try:
            import jsonschema_rs  # noqa: F401
        except ImportError as error:
            raise errors.MissingExtra("An agent with tools of an MCP server", "mcp") from error

    def _changed(self, kind: str) -> None:
        """Forget a list that the server says has changed; all with a new connection."""
        for name in [name for name in self._kept if name.startswith(kind)]:
            del self._kept[name]
        if kind in ("", "tools"):
            self._tools = None
            self._validators.clear()

    async def _all(self, kind: str, returns: type[T], ctx: Context) -> list[T]:
        """Return all items of a list; those that cannot be read are left out, with a warning."""
        connection = await self._connection()
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
        field = "resource_templates" if "/" in kind else kind
        items: list[Raw] = []
        cursors: set[str] = set()
        ttl, params = float("inf"), dict[str, Any]()
        while True:
            try:
                raw = await self._request(f"{kind}/list", params, ctx)
                if memoryview(raw).nbytes > _MAX_PAGE:
                    raise errors.ToolError(f"the MCP server {self.name} sent a page of more than {_MAX_PAGE >> 20} MiB")
                page = jsonrpc.parse(raw, wire.Page, jsonrpc.INTERNAL_ERROR)
            except jsonrpc.JsonRpcError as error:
                raise errors.ToolError(f"the MCP server {self.name} sent a list that is none: {error}") from error
            except errors.ToolError as error:
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
                logger.warning("the list of %s of the MCP server %s does not end and was cut", kind, self.name)
                return items[:_MOST_ITEMS], 0.0
            cursors.add(cursor)
            params = {"cursor": cursor}

    def _read(self, raw: Raw, kind: str, returns: type[T]) -> T | None:
        try:
            return codec.decoder(returns).decode(raw)
        except (DecodeError, UnicodeDecodeError, RecursionError) as error:
            logger.warning("the MCP server %s lists %s that cannot be read: %s", self.name, kind, error)
            return None

    async def _prepare(
        self, name: str, arguments: dict[str, Any], ctx: Context, *, again: bool = False
    ) -> tuple[wire.ServerTool, wire.Headers]:
        if again:
            self._changed("tools")
        if self._tools is None:
            await self.tools(ctx)
        tool, wanted = (self._tools or {}).get(name) or (wire.ServerTool(name, {}), ())
        if not wanted or not (await self._connection()).modern:  # only the newer era has them
            return tool, ()
        return tool, tuple(header for each in wanted for header in each.values(arguments))

    def _misfit(self, tool: wire.ServerTool, outcome: wire.Outcome) -> str:
        """Return why a result does not fit the output schema of its tool; empty if it does."""
        if tool.output_schema is None or outcome.is_error:
            return ""
        if not wire.is_given(outcome.structured_content):
            return "there is no structured content"
        try:
            validator = self._validators.get(tool.name) or SchemaValidator(tool.output_schema, "the output schema")
        except errors.ConfigurationError as error:
            self._require_schemas()
            logger.warning("results of %s of the MCP server %s: %s", tool.name, self.name, error)
            return ""
        self._validators[tool.name] = validator
        return "; ".join(validator.problems(wire.structure_in(outcome.structured_content)))


async def _report(progress: wire.Progress, ctx: Context) -> None:
    if progress.message and ctx.listens(ToolDelta):
        name = ctx.path.rpartition("/")[2]
        await ctx.emit(ToolDelta(ctx.path, name, progress.message))
