"""Link: the connections of a client, one for each event loop, and what is asked of the server by them."""

import asyncio
from collections.abc import Callable
from typing import Any

from msgspec import Raw

from ziggurat.core import jsonrpc
from ziggurat.core.context import Context
from ziggurat.core.errors import ToolError
from ziggurat.core.log import logger
from ziggurat.mcp import wire
from ziggurat.mcp.answers import Answers
from ziggurat.mcp.connection import MAX_QUESTIONS, Connection
from ziggurat.mcp.settings import Settings
from ziggurat.mcp.wire import refused
from ziggurat.messages.events import ToolDelta

_POLL = (0.05, 1.0, 60.0)
"""The shortest, the usual and the longest time in seconds between two looks at a task."""


class Link:
    """One connection per event loop, each made by the first request that needs it."""

    def __init__(self, settings: Settings, changed: Callable[[str], None]) -> None:
        self.settings: Settings = settings
        self._changed = changed
        self._answers = Answers(settings.name, settings.model, settings.elicit, settings.roots)
        self._connections: dict[asyncio.AbstractEventLoop, Connection] = {}
        self._known = ""  # the revision that was agreed on the last time

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
                raise refused(error, self.settings.name) from error
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
        """Look at a task until it has ended; answer what it asks."""
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
            raise refused(
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


async def _report(progress: wire.Progress, ctx: Context) -> None:
    if progress.message and ctx.listens(ToolDelta):
        name = ctx.path.rpartition("/")[2]
        await ctx.emit(ToolDelta(ctx.path, name, progress.message))
