"""Middleware: what is inherited by every model, tool and agent call beneath the place where it was given."""

__all__ = ["MIDDLEWARE", "Chain", "Middleware", "given"]

from collections.abc import Sequence

from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.scope import Key
from ziggurat.core.service import Service
from ziggurat.messages.agent import AgentRequest, AgentRun
from ziggurat.messages.delta import DeltaFilter, PartDelta
from ziggurat.messages.model import ModelRequest, ModelResponse
from ziggurat.messages.parts import ToolCall, ToolResult


class Middleware:
    """Override what you need; hooks that are not overridden cost nothing.

    A hook returns the value to go on with, or None to leave it as it is. Values are frozen: change by copy. An
    instance serves many runs at any depth at once, so keep nothing of a call on it: ``ctx.state(self, dict)``
    gives a place that dies with the call. `before_*` and deltas go in the order given, `after_*` in reverse. A
    hook that raises ends the call; `on_error` of every middleware then runs once.

    ::

        class Shout(Middleware):
            async def after_model(self, response, ctx):
                return replace(response, message=assistant(response.text.upper()))
    """

    @property
    def name(self) -> str:
        """What it is called in events."""
        return type(self).__name__

    async def before_agent(self, request: AgentRequest, ctx: Context) -> AgentRequest | None:
        """Called before an agent begins."""

    async def after_agent(self, run: AgentRun, ctx: Context) -> AgentRun | None:
        """Called with the run of an agent that has ended."""

    async def before_model(self, request: ModelRequest, ctx: Context) -> ModelRequest | None:
        """Called before a model is asked."""

    async def on_model_delta(self, delta: PartDelta, ctx: Context) -> PartDelta | None:
        """Called with each piece of a reply. For what spans pieces, override `deltas`."""

    async def after_model(self, response: ModelResponse, ctx: Context) -> ModelResponse | None:
        """Called with a model's whole reply."""

    async def before_tool(self, call: ToolCall, ctx: Context) -> ToolCall | None:
        """Called before a tool call is checked and frozen."""

    async def on_tool_delta(self, text: str, ctx: Context) -> str | None:
        """Called with each piece that a tool yields; the pieces make its result."""

    async def after_tool(self, result: ToolResult, ctx: Context) -> ToolResult | None:
        """Called with a tool's result."""

    async def on_error(self, error: BaseException, ctx: Context) -> None:
        """Called once for each error that ends a call, also of a hook; its own errors are logged."""

    def deltas(self, ctx: Context) -> DeltaFilter | None:
        """Return a filter upon the pieces of one reply, made for each call and try; None for none."""

    async def wrap_model(
        self, request: ModelRequest, ctx: Context, model: Service[ModelRequest, ModelResponse]
    ) -> ModelResponse:
        """Stand around a model call: await `model` never, once, or (each under its own name) often."""
        return await model(request, ctx)

    async def wrap_tool(self, call: ToolCall, ctx: Context, tool: Service[ToolCall, ToolResult]) -> ToolResult:
        """Stand around a tool call; the call itself is frozen by now."""
        return await tool(call, ctx)

    async def wrap_agent(self, request: AgentRequest, ctx: Context, agent: Service[AgentRequest, AgentRun]) -> AgentRun:
        """Stand around an agent."""
        return await agent(request, ctx)


HOOKS = (
    "before_agent", "after_agent", "before_model", "on_model_delta", "after_model", "before_tool", "on_tool_delta",
    "after_tool", "on_error", "deltas", "wrap_model", "wrap_tool", "wrap_agent",
)  # fmt: skip


class Chain:
    """Middlewares in the order given, outermost first, with the hooks that each overrides found out once."""

    __slots__ = ("hooks", "middlewares")

    def __init__(self, middlewares: Sequence[Middleware] = ()) -> None:
        for each in middlewares:
            if not isinstance(each, Middleware):
                raise ConfigurationError(
                    f"middleware must be instances of Middleware, got {each!r}; "
                    "a layer goes around one service with stack(service, layer)"
                )
        self.middlewares = tuple(middlewares)
        self.hooks: dict[str, tuple[Middleware, ...]] = {
            hook: tuple(each for each in self.middlewares if getattr(type(each), hook) is not getattr(Middleware, hook))
            for hook in HOOKS
        }

    def plus(self, middlewares: Sequence[Middleware]) -> "Chain":
        """Return a chain with more at its end, that is, further in."""
        return Chain((*self.middlewares, *middlewares)) if middlewares else self

    def has(self, *hooks: str) -> bool:
        """Tell whether any of these hooks is overridden by anyone."""
        return any(self.hooks[hook] for hook in hooks)


MIDDLEWARE = Key[Chain]("middleware")


def given(ctx: Context, *middlewares: Middleware) -> Context:
    """Return a context in which these middlewares stand, inside those already there, around all calls beneath."""
    outer = ctx.scope.get(MIDDLEWARE)
    return ctx.within(MIDDLEWARE, outer.plus(middlewares) if outer else Chain(middlewares))
