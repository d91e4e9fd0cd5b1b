"""Functions that call middleware hooks, and `on_error` once per error."""

__all__ = ["hooked", "tell"]

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ziggurat.core.containment import as_failure
from ziggurat.core.context import AMBIENT, RUN_ID, Context
from ziggurat.core.path import escaped
from ziggurat.messages.events import MiddlewareCompleted, MiddlewareStarted
from ziggurat.messages.middleware import Chain, Middleware

T = TypeVar("T")

logger = logging.getLogger("ziggurat")


async def hooked(
    middleware: Middleware, hook: str, call: Callable[[T, Context], Awaitable[T | None]], value: T, ctx: Context
) -> T:
    """Call one hook with a value; return the value to continue with."""
    if ctx.listens(MiddlewareStarted):
        await ctx.emit(MiddlewareStarted(ctx.path, middleware.name, hook))
    place = ctx.at(escaped(f"{middleware.name}.{hook}"))  # the path of an agent that the hook runs
    token = AMBIENT.set(place)
    try:
        changed = await call(value, ctx)
    finally:
        AMBIENT.reset(token)
    if ctx.listens(MiddlewareCompleted):
        await ctx.emit(MiddlewareCompleted(ctx.path, middleware.name, hook))
    return value if changed is None else changed


async def tell(chain: Chain | None, error: BaseException, ctx: Context) -> None:
    """Call `on_error` of every middleware, once per error, however many calls the error passes through.

    An error raised by `on_error` is logged and never hides the first.
    """
    run = ctx.scope.get(RUN_ID) or ""
    if chain is None or not chain.hooks["on_error"] or vars(error).get("_told") == run:
        return
    vars(error)["_told"] = run  # not by setattr(), which a frozen dataclass forbids
    for middleware in chain.hooks["on_error"]:
        try:
            await hooked(middleware, "on_error", middleware.on_error, error, ctx)
        except BaseException as failed:
            as_failure(failed)
            logger.exception("on_error of %s failed", middleware.name)
