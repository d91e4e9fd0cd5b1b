"""Logging middleware: one log line per call, with the standard library's logging, and counts of hooks."""

import logging

from msgspec import Struct

from ziggurat.core.context import Context
from ziggurat.core.errors import type_name_of
from ziggurat.core.settings import checked
from ziggurat.core.visible import visible_line
from ziggurat.messages.agent import AgentRequest, AgentRun
from ziggurat.messages.message import PartDelta, ToolCall, ToolResult
from ziggurat.messages.middleware import Middleware
from ziggurat.messages.model import ModelRequest, ModelResponse
from ziggurat.messages.stops import status_of


class HookCounts(Struct):
    """The number of calls of each hook."""

    before_agent: int = 0
    after_agent: int = 0
    before_model: int = 0
    on_model_delta: int = 0
    after_model: int = 0
    before_tool: int = 0
    on_tool_delta: int = 0
    after_tool: int = 0
    on_error: int = 0


class Logging(Middleware):
    """Logs a line for each call: its path, kind, size and outcome; never its content.

    Args:
        counts: Counts hooks over all runs that use this object; you create it, so you decide how long it lives.
        logger: The logger; by default ``ziggurat.calls``.
        level: The level of the lines; errors are logged as WARNING, pieces as DEBUG.
    """

    @checked
    def __init__(
        self,
        counts: HookCounts | None = None,
        *,
        logger: logging.Logger | logging.LoggerAdapter[logging.Logger] | None = None,
        level: int = logging.INFO,
    ) -> None:
        self.counts = counts
        self._logger = logger or logging.getLogger("ziggurat.calls")
        self._level = level

    def _note(self, hook: str, level: int, text: str, *values: object) -> None:
        if self.counts is not None:
            setattr(self.counts, hook, getattr(self.counts, hook) + 1)
        if self._logger.isEnabledFor(level):
            # A logger of the caller has no filter, and a model names the tool at the end of a path.
            self._logger.log(level, text, *(visible_line(each) if isinstance(each, str) else each for each in values))

    async def before_agent(self, request: AgentRequest, ctx: Context) -> None:
        self._note("before_agent", self._level, "%s begins: %d messages", ctx.path, len(request.messages))

    async def after_agent(self, run: AgentRun, ctx: Context) -> None:
        why = status_of(run.stop)
        self._note(
            "after_agent", self._level, "%s ended: %s, %d steps, %d tokens", ctx.path, why, run.steps, run.usage.total
        )

    async def before_model(self, request: ModelRequest, ctx: Context) -> None:
        text = "%s asks: %d messages, %d tools"
        self._note("before_model", self._level, text, ctx.path, len(request.messages), len(request.tools))

    async def on_model_delta(self, delta: PartDelta, ctx: Context) -> None:
        self._note("on_model_delta", logging.DEBUG, "%s says: %s", ctx.path, type(delta).__name__)

    async def after_model(self, response: ModelResponse, ctx: Context) -> None:
        usage = response.usage
        text = "%s answered: %s, %s in, %s out, %d tool calls"
        calls = len(response.tool_calls)
        self._note("after_model", self._level, text, ctx.path, response.finish, usage.input, usage.output, calls)

    async def before_tool(self, call: ToolCall, ctx: Context) -> None:
        self._note("before_tool", self._level, "%s calls: %d characters", ctx.path, len(call.arguments))

    async def on_tool_delta(self, text: str, ctx: Context) -> None:
        self._note("on_tool_delta", logging.DEBUG, "%s gives: %d characters", ctx.path, len(text))

    async def after_tool(self, result: ToolResult, ctx: Context) -> None:
        how = result.error or "ok"
        self._note("after_tool", self._level, "%s gave: %s, %d characters", ctx.path, how, len(result.text))

    async def on_error(self, error: BaseException, ctx: Context) -> None:
        self._note("on_error", logging.WARNING, "%s failed: %s", ctx.path, type_name_of(error))
