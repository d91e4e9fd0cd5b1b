"""The middleware base class."""

from inspect import iscoroutinefunction
from typing import Annotated, Any

from msgspec import Meta

from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.service import Service
from ziggurat.journal.entries import JournalEntry
from ziggurat.messages.agent import AgentRequest, AgentRun
from ziggurat.messages.delta import DeltaFilter, PartDelta
from ziggurat.messages.model import ModelRequest, ModelResponse
from ziggurat.messages.parts import ToolCall, ToolResult
from ziggurat.messages.rewriting import Rewrite, RewriteRequest


class Middleware:
    """The base of middleware: override the hooks you need; the others cost nothing.

    A hook returns the value to continue with, or None to leave it unchanged. Values are frozen: return a changed
    copy. One instance serves many concurrent runs at any depth, so keep no state of a call on it; use
    ``ctx.state(self, dict)``, which is discarded with the call. `before_*` and delta hooks run in the order given,
    `after_*` hooks in reverse. A hook that raises ends the call; `on_error` of every middleware then runs once.

    ::

        class Shout(Middleware):
            async def after_model(self, response, ctx):
                return replace(response, message=assistant(response.text.upper()))
    """

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Refuse what would never be called as a hook."""
        super().__init_subclass__(**arguments)
        for name, method in vars(cls).items():
            if not iscoroutinefunction(method):
                continue
            if name in ("deltas", "on_record"):
                raise ConfigurationError(f"the hook {name} of {cls.__name__} is not awaited; write def {name}(...)")
            if name in vars(Middleware) or name.startswith("_"):
                continue
            from difflib import get_close_matches  # `similar` would also find names that only contain that of a hook

            hooks = [hook for hook, own in vars(Middleware).items() if iscoroutinefunction(own)]
            if meant := get_close_matches(name, hooks, 1, 0.85):
                raise ConfigurationError(
                    f"{cls.__name__}.{name} is not a hook; did you mean {meant[0]!r}? If not, give it another name"
                )

    @property
    def name(self) -> str:
        """The name in events: by default that of the class."""
        return type(self).__name__

    async def before_agent(self, request: AgentRequest, ctx: Context) -> AgentRequest | None:
        """Called before an agent starts."""

    async def after_agent(self, run: AgentRun, ctx: Context) -> AgentRun | None:
        """Called with the run of an agent that has ended."""

    async def rewrite(self, request: RewriteRequest, ctx: Context) -> Rewrite | None:
        """Called before each model call of an agent: return a replacement for a part of its conversation.

        Called again if the model reports that the conversation is too long (``request.overflow``). Unlike a change
        made by `before_model`, a rewriting is permanent: it is recorded, and a resumed run does not call this again.
        """

    async def before_model(self, request: ModelRequest, ctx: Context) -> ModelRequest | None:
        """Called before a model call."""

    async def on_model_delta(self, delta: PartDelta, ctx: Context) -> PartDelta | None:
        """Called with each piece of a reply. To match text across pieces, override `deltas`."""

    async def after_model(self, response: ModelResponse, ctx: Context) -> ModelResponse | None:
        """Called with a model's whole reply."""

    async def before_tool(self, call: ToolCall, ctx: Context) -> ToolCall | None:
        """Called before a tool call is checked and frozen."""

    async def on_tool_delta(self, text: str, ctx: Context) -> str | None:
        """Called with each piece that a tool yields; the pieces together are its result."""

    async def after_tool(self, result: ToolResult, ctx: Context) -> ToolResult | None:
        """Called with a tool's result."""

    async def on_error(self, error: BaseException, ctx: Context) -> None:
        """Called once for each error that ends a call, also for errors of hooks; its own errors are logged."""

    def on_record(self, entry: JournalEntry) -> JournalEntry:
        """Return an entry of the run's record, changed if necessary; called before it is stored anywhere."""
        return entry

    def deltas(self, ctx: Context) -> DeltaFilter | None:
        """Return a filter for the pieces of one reply, or None; called for each call and try."""

    async def wrap_model(
        self, request: ModelRequest, ctx: Context, model: Service[ModelRequest, ModelResponse]
    ) -> ModelResponse:
        """Wrap a model call: await `model` once, not at all, or several times, each under its own name.

        To call it several times, pass contexts of ``ctx.under("alt-1")``, ``ctx.under("alt-2")`` and so on.
        """
        return await model(request, ctx)

    async def wrap_tool(self, call: ToolCall, ctx: Context, tool: Service[ToolCall, ToolResult]) -> ToolResult:
        """Wrap a tool call; the call is frozen here and cannot be changed."""
        return await tool(call, ctx)

    async def wrap_agent(self, request: AgentRequest, ctx: Context, agent: Service[AgentRequest, AgentRun]) -> AgentRun:
        """Wrap an agent."""
        return await agent(request, ctx)


AnyMiddleware = Annotated[
    Middleware,
    Meta(description="made once, as Trim(last=20); a layer goes around one service, with stack(service, layer)"),
]
