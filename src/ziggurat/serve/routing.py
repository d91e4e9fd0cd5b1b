"""Routes whose answer is a response, a stream, or content to encode."""

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ziggurat.core.codec import encode
from ziggurat.serve.guard import stream_later


def route(method: str, path: str, handler: Callable[[Request], Awaitable[Any]], status: int = 200) -> Route:
    """Return the route of a handler, which returns a response, a stream that the guard sends, or content for JSON."""

    async def answer(request: Request) -> Any:
        content = await handler(request)
        if isinstance(content, Response):
            return content
        if callable(content):
            return stream_later(request.scope, content)
        return Response(encode(content), status, media_type="application/json")

    return Route(path, answer, methods=[method], name=path)
