"""Contexts whose calls pass middleware, without an agent."""

from ziggurat import Context
from ziggurat.calls.hooks import HookChain, chained
from ziggurat.messages.middleware import AnyMiddleware


def given(ctx: Context, *middlewares: AnyMiddleware) -> Context:
    """Return a context whose calls all pass these middlewares too, inside the existing ones."""
    return chained(ctx, HookChain(middlewares))
