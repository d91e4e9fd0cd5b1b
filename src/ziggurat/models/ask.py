"""Ask a model: every model call of every agent goes through `ask`, in this order.

    look up the journal > before_model > wrap_model > the model's own layers > the model
    > delta filters > after_model > record

The deltas that a listener gets always add up to the message that the conversation gets.
"""

__all__ = ["ask", "unattended"]

from collections.abc import Awaitable
from functools import partial

from msgspec.structs import replace

from ziggurat.core.context import JOURNAL, Context
from ziggurat.core.event import SILENCE, Dropped
from ziggurat.core.facts import name_of
from ziggurat.core.recorder import must_be
from ziggurat.messages.delta import deltas_of, fit, refolded
from ziggurat.messages.events import Delta, ModelEnded, ModelStarted
from ziggurat.messages.hooks import hooked, tell
from ziggurat.messages.middleware import MIDDLEWARE, Chain, Middleware
from ziggurat.messages.model import Model, ModelRequest, ModelResponse
from ziggurat.models.pieces import Pieces

_NO_CHAIN = Chain()


def ask(model: Model, request: ModelRequest, ctx: Context, *, name: str | None = None) -> Awaitable[ModelResponse]:
    """Ask a model at this context's path; if the record has an answer there, return that instead.

    Args:
        model: The model with its layers.
        request: The question.
        ctx: The context of the call; make it with ``ctx.under("model")``.
        name: The model's name, if it is known already.
    """
    name = name or name_of(model)
    if unattended(ctx):
        return ctx.once(name, request, model, returns=ModelResponse)
    return _Question(model, name, ctx.scope.get(MIDDLEWARE) or _NO_CHAIN).ask(request, ctx)


def unattended(ctx: Context) -> bool:
    """Return whether a model call here has no listeners and no middleware, so that `Context.once` is enough."""
    chain = ctx.scope.get(MIDDLEWARE)
    return (chain is None or not chain.asks) and ctx.emit is SILENCE


class _Question:
    """One model call with listeners or middleware."""

    __slots__ = ("chain", "live", "model", "name")

    def __init__(self, model: Model, name: str, chain: Chain) -> None:
        self.model = model
        self.name = name
        self.chain = chain
        self.live = False

    async def ask(self, request: ModelRequest, ctx: Context) -> ModelResponse:
        if ctx.emit is not SILENCE:
            await ctx.emit(ModelStarted(ctx.path, self.name, len(request.messages)))
        try:
            response = await ctx.once(self.name, request, self._call, returns=ModelResponse)
        except BaseException as error:
            if ctx.listens(Dropped):
                await ctx.emit(Dropped(ctx.path, type(error).__name__))
            if isinstance(error, Exception):
                await tell(self.chain, error, ctx)
            raise
        if ctx.emit is not SILENCE:
            if not self.live:
                for delta in deltas_of(fit(response.message)):
                    await ctx.emit(Delta(ctx.path, delta))
            if ctx.listens(ModelEnded):
                await self._ended(response, ctx)
        return response

    async def _ended(self, response: ModelResponse, ctx: Context) -> None:
        """Emit ModelEnded once the answer is stored."""
        journal = ctx.scope.get(JOURNAL)
        waiting = None if journal is None else journal.settled()
        if waiting is not None:
            await waiting
        await ctx.emit(ModelEnded(ctx.path, response, not self.live))

    async def _call(self, request: ModelRequest, ctx: Context) -> ModelResponse:
        """Make the call live; this is what the journal records."""
        self.live = True
        chain = self.chain
        for middleware in chain.hooks["before_model"]:
            request = await hooked(middleware, "before_model", middleware.before_model, request, ctx)
        filtered = chain.has("deltas", "on_model_delta")
        pieces = Pieces(ctx, chain) if filtered or ctx.listens(Delta) else None
        service: Model = self.model
        for middleware in reversed(chain.hooks["wrap_model"]):
            service = partial(_wrapped, middleware, service)
        response = await service(request, ctx if pieces is None else ctx.emitting(pieces))
        must_be(response, ModelResponse, self.name, ctx)
        if pieces is not None:
            response = await pieces.finish(response)
        changed = response
        for middleware in reversed(chain.hooks["after_model"]):
            changed = await hooked(middleware, "after_model", middleware.after_model, changed, ctx)
        message = fit(changed.message)
        heard = pieces is not None and ctx.listens(Delta) and message is not response.message
        if heard and message != refolded(response.message):
            await ctx.emit(Dropped(ctx.path, "changed after it was said"))
            for delta in deltas_of(message):
                await ctx.emit(Delta(ctx.path, delta))
        return changed if message is changed.message else replace(changed, message=message)


async def _wrapped(middleware: Middleware, inner: Model, request: ModelRequest, ctx: Context) -> ModelResponse:
    return await middleware.wrap_model(request, ctx, inner)
