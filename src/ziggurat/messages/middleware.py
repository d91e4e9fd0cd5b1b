"""Middleware: inherited by every model, tool and agent call below the agent it is given to."""

__all__ = ["HOOKS", "MIDDLEWARE", "Chain", "Middleware", "chained", "given", "screened"]

from collections.abc import Iterable, Sequence

from ziggurat.core.context import JOURNAL, Context, Journal
from ziggurat.core.entries import Entry
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.scope import Key
from ziggurat.core.service import Service
from ziggurat.messages.agent import AgentRequest, AgentRun
from ziggurat.messages.delta import DeltaFilter, PartDelta
from ziggurat.messages.model import ModelRequest, ModelResponse
from ziggurat.messages.parts import ToolCall, ToolResult
from ziggurat.messages.rewriting import Outlook, Rewriting


class Middleware:
    """Override what you need; hooks that are not overridden cost nothing.

    A hook returns the value to continue with, or None to leave it as it is. Values are frozen: change by copy. An
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

    async def rewrite(self, outlook: Outlook, ctx: Context) -> Rewriting | None:
        """Called before each question of an agent: return what stands in place of a part of its conversation.

        Called again where the model says that the conversation is too long (``outlook.overflow``). Unlike what
        `before_model` changes, a rewriting stays: it is recorded, and a run that is resumed does not ask again.
        """

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

    def on_record(self, entry: Entry) -> Entry:
        """Return an entry of the run's record as it may be kept; called before anything is kept or written."""
        return entry

    def deltas(self, ctx: Context) -> DeltaFilter | None:
        """Return a filter on the pieces of one reply, made for each call and try; None for none."""

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
    "before_agent", "after_agent", "rewrite", "before_model", "on_model_delta", "after_model", "before_tool",
    "on_tool_delta", "after_tool", "on_error", "on_record", "deltas", "wrap_model", "wrap_tool", "wrap_agent",
)  # fmt: skip


_ASKING = ("before_model", "on_model_delta", "after_model", "on_error", "deltas", "wrap_model")
_ACTING = ("before_tool", "on_tool_delta", "after_tool", "on_error", "wrap_tool")


class Chain:
    """Middlewares in the order given, outermost first, with the hooks that each overrides found out once.

    Attributes:
        middlewares: All of them.
        hooks: By name of a hook, those who override it.
        asks: Whether anything stands around calls of models.
        acts: Whether anything stands around calls of tools.
    """

    __slots__ = ("acts", "asks", "hooks", "middlewares")

    def __init__(self, middlewares: Sequence[Middleware] = ()) -> None:
        if isinstance(middlewares, Middleware) or not isinstance(middlewares, Iterable):
            raise ConfigurationError(f"middleware is a list, such as [Trim(last=20)]; got {middlewares!r}")
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
        self.asks = self.has(*_ASKING)
        self.acts = self.has(*_ACTING)

    def plus(self, middlewares: Sequence[Middleware]) -> "Chain":
        """Return a chain with more at its end, that is, further in."""
        return Chain((*self.middlewares, *middlewares)) if middlewares else self

    def has(self, *hooks: str) -> bool:
        """Return whether any of these hooks is overridden by anyone."""
        return any(self.hooks[hook] for hook in hooks)


MIDDLEWARE = Key[Chain]("middleware")


def given(ctx: Context, *middlewares: Middleware) -> Context:
    """Return a context in which these middlewares stand, inside those already there, around all calls below."""
    return chained(ctx, Chain(middlewares))


def chained(ctx: Context, chain: Chain) -> Context:
    """Return a context in which a chain stands inside the one already there; without hooks it is left out."""
    if not chain.has(*HOOKS):
        return ctx
    journal = ctx.scope.get(JOURNAL)
    if journal is not None:
        screened(journal, chain, ctx.path)
    outer = ctx.scope.get(MIDDLEWARE)
    return ctx.within(MIDDLEWARE, outer.plus(chain.middlewares) if outer else chain)


def screened(journal: Journal, chain: Chain, path: str) -> None:
    """Have the middlewares of a chain go over what is recorded at and below `path`."""
    for middleware in chain.hooks["on_record"]:
        journal.screen(path, middleware.on_record)
