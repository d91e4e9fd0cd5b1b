"""Routes whose answer may be a stream."""

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ziggurat.serve.guard import stream_later


def route(method: str, path: str, handler: Callable[[Request], Awaitable[Any]]) -> Route:
    """Return the route of a handler whose answer is a response, or a stream that the guard sends."""

    async def answer(request: Request) -> Any:
        content = await handler(request)
        return content if isinstance(content, Response) else stream_later(request.scope, content)

    return Route(path, answer, methods=[method], name=path)
