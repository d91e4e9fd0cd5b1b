"""Tap: passes requests, responses and errors to your functions without changing them."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from ziggurat.core.context import Context
from ziggurat.core.log import logger
from ziggurat.core.service import Service, layer

Q = TypeVar("Q")
R = TypeVar("R")

Look = Callable[[Any, Context], object]
"""Called with a request, a response or an error, and the call's context; an awaitable that it returns is awaited."""


@layer
async def tap(
    request: Q,
    ctx: Context,
    inner: Service[Q, R],
    *,
    on_request: Look | None = None,
    on_response: Look | None = None,
    on_error: Look | None = None,
) -> R:
    """Pass requests, responses and errors to your functions, sync or async; the call is not affected.

    Their return values are ignored. Their exceptions are logged and otherwise ignored, so the answer or the error of
    the call is never lost::

        stack(model, tap(on_response=lambda response, ctx: print(ctx.path, response.usage)))

    Cancellation and suspension are not errors and are not shown.

    Args:
        on_request: Called with the request and the context before the call.
        on_response: Called with the response and the context after it.
        on_error: Called with the error and the context when it fails.
    """
    if on_request is not None:
        await _show(on_request, request, ctx)
    try:
        response = await inner(request, ctx)
    except Exception as error:
        if on_error is not None:
            await _show(on_error, error, ctx)
        raise
    if on_response is not None:
        await _show(on_response, response, ctx)
    return response


async def _show(look: Look, what: object, ctx: Context) -> None:
    try:
        seen = look(what, ctx)
        if isinstance(seen, Awaitable):
            await seen
    except Exception:
        name = getattr(look, "__name__", "function")
        logger.exception("a tap (%s) failed at %s; the call goes on", name, ctx.path)
