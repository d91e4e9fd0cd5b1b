"""Middleware that watches: log lines and counts of calls, and warnings of requests that lose a prompt cache."""

import logging

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.core.context import Context, Key
from ziggurat.core.errors import ConfigurationError, type_name_of
from ziggurat.core.path import is_question
from ziggurat.core.service import Service
from ziggurat.core.settings import checked
from ziggurat.core.visible import visible_line
from ziggurat.messages.agent import AgentRequest, AgentRun
from ziggurat.messages.conversation import Transcript
from ziggurat.messages.events import Warned
from ziggurat.messages.message import PartDelta, ToolCall, ToolResult
from ziggurat.messages.middleware import Middleware
from ziggurat.messages.model import ModelRequest, ModelResponse
from ziggurat.messages.stops import status_of


class _HookCounts(Struct):
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
        logger: The logger; by default ``ziggurat.calls``.
        level: The level of the lines; errors are logged as WARNING, pieces as DEBUG.

    Attributes:
        counts: The number of calls of each hook, over all runs that use this object; it has a field for each hook.
    """

    @checked
    def __init__(
        self,
        *,
        logger: logging.Logger | logging.LoggerAdapter[logging.Logger] | None = None,
        level: int = logging.INFO,
    ) -> None:
        self.counts: _HookCounts = _HookCounts()
        self._logger = logger or logging.getLogger("ziggurat.calls")
        self._level = level

    def _note(self, hook: str, level: int, text: str, *values: object) -> None:
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


_PARTS = ("instructions", "tools", "output")


class _Layout(Struct, eq=False):
    before: ModelRequest | None = None  # the agent's previous request
    rewritten: int = 0  # how often the conversation was, before the hooks

    def note(self, request: ModelRequest) -> None:
        """Forget the previous messages if the conversation was rewritten on purpose since then."""
        rewritten = request.messages.conversation.rewritten
        if rewritten > self.rewritten:
            self.rewritten = rewritten
            self.before = None if self.before is None else replace(self.before, messages=Transcript.of())

    def changes(self, request: ModelRequest) -> list[str]:
        """Return what differs from the previous request, and store this one."""
        before, self.before = self.before, request
        if before is None:
            return []
        changed = [f"the {name}" for name in _PARTS if getattr(request, name) != getattr(before, name)]
        messages, known = request.messages, before.messages
        if messages.conversation is not known.conversation or len(messages) < len(known):  # else it only grew
            shared = min(len(messages), len(known))
            same = next((at for at in range(shared) if messages[at] != known[at]), shared)
            if same < len(known):
                changed.append(f"the conversation from message {same} on")
        return changed


class PromptCacheGuard(Middleware):
    """Warns or raises if a model request does not start like the previous one of the same agent.

    Providers charge the full price for everything after the first difference in instructions, tools and messages.
    List it first, so that it sees requests as all other hooks leave them. Compactions are not reported. With `refuse`
    it raises instead of emitting the event `Warned`.
    """

    @checked
    def __init__(self, *, refuse: bool = False) -> None:
        self.refuse = refuse
        self._layout: Key[_Layout] = Key("prompt layout")

    async def wrap_agent(self, request: AgentRequest, ctx: Context, agent: Service[AgentRequest, AgentRun]) -> AgentRun:
        """Give each agent its own layout for the time that it runs."""
        return await agent(request, ctx.within(self._layout, _Layout()))

    async def before_model(self, request: ModelRequest, ctx: Context) -> None:
        layout = self._layout_at(ctx)
        if layout is not None:
            layout.note(request)

    async def wrap_model(
        self, request: ModelRequest, ctx: Context, model: Service[ModelRequest, ModelResponse]
    ) -> ModelResponse:
        layout = self._layout_at(ctx)
        changed = layout.changes(request) if layout is not None else []
        if changed:
            text = f"the prompt cache is lost: {' and '.join(changed)} changed since the question before"
            if self.refuse:
                raise ConfigurationError(f"{ctx.path}: {text}")
            if ctx.listens(Warned):
                await ctx.emit(Warned(ctx.path, text))
        return await model(request, ctx)

    def _layout_at(self, ctx: Context) -> _Layout | None:
        return ctx.scope.get(self._layout) if is_question(ctx.path) else None
