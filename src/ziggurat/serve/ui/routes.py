"""The routes for user interfaces: AG-UI, and the streams of the AI SDK's `useChat`."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ziggurat.serve.guard import stream_later
from ziggurat.serve.served import ServedAgents
from ziggurat.serve.ui.agui import run_agui
from ziggurat.serve.ui.ai_sdk import follow_chat, run_chat


def ui_routes(agents: ServedAgents) -> list[Route]:
    return [
        _route("POST", "/ag-ui/{name}", partial(run_agui, agents)),
        _route("POST", "/chat/{name}", partial(run_chat, agents)),
        _route("GET", "/chat/{name}/{chat}/stream", partial(follow_chat, agents)),
    ]


def _route(method: str, path: str, handler: Callable[[Request], Awaitable[Any]]) -> Route:
    async def answer(request: Request) -> Any:
        content = await handler(request)
        return content if isinstance(content, Response) else stream_later(request.scope, content)

    return Route(path, answer, methods=[method], name=path)
