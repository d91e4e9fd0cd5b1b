"""Rounds: requests that a server answers with questions, or with the handle of a task, until there is a result."""

from typing import Any

from ziggurat.core.context import Context
from ziggurat.core.errors import ToolError
from ziggurat.core.jsonrpc import INTERNAL_ERROR, ErrorObject, Failure, JsonRpcError, parse
from ziggurat.mcp.answers import Answers
from ziggurat.mcp.connection import MAX_QUESTIONS
from ziggurat.mcp.link import Link
from ziggurat.mcp.results import refused
from ziggurat.mcp.wire import Headers, InputRequest, Outcome, Progress, is_given
from ziggurat.messages.events import ToolDelta

_POLL = (0.05, 1.0, 60.0)
"""The shortest, the usual and the longest time in seconds between two looks at a task."""


class Rounds:
    """Makes requests of one server."""

    def __init__(self, link: Link) -> None:
        settings = link.settings
        self._link = link
        self._name = settings.name
        self._answers = Answers(settings.name, settings.model, settings.elicit, settings.roots)

    async def act(self, method: str, params: dict[str, Any], ctx: Context, headers: Headers = ()) -> Outcome:
        """Make a request and return its result.

        Raises:
            ToolError: it failed.
            Timeout: the server did not answer in time.
        """
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
        raise ToolError(f"the MCP server {self._name} asked more than {MAX_QUESTIONS} times in one call")

    async def _responses(self, asked: dict[str, InputRequest], ctx: Context) -> dict[str, object]:
        try:
            return {key: await self._answers(each.method, each.params, ctx) for key, each in asked.items()}
        except JsonRpcError as error:
            raise ToolError(f"the MCP server {self._name} asks what nobody can answer: {error}") from error

    async def _result_of_task(self, task: Outcome, ctx: Context) -> Outcome:
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
                        raise ToolError(f"a task of the MCP server {self._name} asked too often")
                    responses = await self._responses(new, ctx)
                    await self._outcome("tasks/update", {**named, "inputResponses": responses}, ctx)
        except BaseException:
            connection = self._link.current()
            if connection is not None and connection.usable:
                connection.post("tasks/cancel", named)
            raise
        if task.status == "completed" and is_given(task.result):
            return parse(task.result, Outcome, INTERNAL_ERROR)
        if is_given(task.error):
            raise refused(Failure(None, parse(task.error, ErrorObject)).exception(), self._name)
        raise ToolError(f"the task of the MCP server {self._name} was {task.status:.20}: {task.status_message or ''}")

    async def _outcome(self, method: str, params: dict[str, Any], ctx: Context, headers: Headers = ()) -> Outcome:
        progress = _report if method == "tools/call" else None
        result = await self._link.request(method, params, ctx, headers=headers, answer=self._answers, progress=progress)
        try:
            return parse(result, Outcome, INTERNAL_ERROR)
        except JsonRpcError as error:
            raise ToolError(f"the MCP server {self._name} sent a result that is none: {error}") from error


async def _report(progress: Progress, ctx: Context) -> None:
    if progress.message and ctx.listens(ToolDelta):
        name = ctx.path.rpartition("/")[2]
        await ctx.emit(ToolDelta(ctx.path, name, progress.message[:1_000]))
