"""The routes for user interfaces: AG-UI, and the streams of the AI SDK's `useChat`."""

from functools import partial

from starlette.routing import Route

from ziggurat.serve.routing import route
from ziggurat.serve.served import ServedAgents
from ziggurat.serve.ui.agui import run_agui
from ziggurat.serve.ui.ai_sdk import follow_chat, run_chat


def ui_routes(agents: ServedAgents) -> list[Route]:
    return [
        route("POST", "/ag-ui/{name}", partial(run_agui, agents)),
        route("POST", "/chat/{name}", partial(run_chat, agents)),
        route("GET", "/chat/{name}/{chat}/stream", partial(follow_chat, agents)),
    ]
