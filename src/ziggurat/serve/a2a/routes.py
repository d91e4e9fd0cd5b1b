"""The routes of A2A: the card of each agent, and the address of its requests."""

from email.utils import formatdate
from functools import partial
from importlib.metadata import version
from typing import Any
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ziggurat.calls.enter import parts_of
from ziggurat.core.clock import SYSTEM_CLOCK
from ziggurat.core.codec import digest, encode
from ziggurat.http.fetcher import Fetcher
from ziggurat.serve.a2a.push import PushNotifications
from ziggurat.serve.a2a.server import A2aServer
from ziggurat.serve.openai.stored_responses import page_of
from ziggurat.serve.routing import route
from ziggurat.serve.served import ServedAgents
from ziggurat.wires import a2a, jsonrpc
from ziggurat.wires.types import Json

_CACHED = "private, max-age=300"


def a2a_routes(agents: ServedAgents, fetcher: Fetcher | None) -> list[Route]:
    push = PushNotifications(fetcher, agents.closing)
    servers = {name: A2aServer(agents, name, push) for name in agents.agents}

    async def answer(request: Request) -> Any:
        name = agents.agent(request.path_params["name"]).name
        content = await servers[name].answer(request)
        if isinstance(content, jsonrpc.Success | jsonrpc.Failure):
            return Response(jsonrpc.write(content), media_type="application/json")
        return content or Response(status_code=202)

    card = partial(_card, agents, pushes=fetcher is not None, since=formatdate(SYSTEM_CLOCK.now(), usegmt=True))
    return [
        route("POST", "/a2a/{name}", answer),
        route("POST", "/a2a/{name}/", answer),
        route("GET", f"/a2a/{{name}}{a2a.CARD_PATH}", card),
        route("GET", a2a.CARD_PATH, card),
    ]


async def _card(agents: ServedAgents, request: Request, *, pushes: bool, since: str) -> Response:
    name = request.path_params.get("name")
    if name is None and len(agents.agents) > 1:
        paths = ", ".join(f"/a2a/{each}{a2a.CARD_PATH}" for each in agents.agents)
        raise HTTPException(404, f"there are several agents, each with a card: {paths}")
    agent = agents.agent(name or next(iter(agents.agents)))
    about = parts_of(agent).description or f"The agent {agent.name}."
    card: Json = {
        "name": agent.name,
        "description": about,
        "version": version("ziggurat"),
        "supportedInterfaces": [
            {
                "url": f"{page_of(request)}a2a/{quote(agent.name, safe='')}",
                "protocolBinding": "JSONRPC",
                "protocolVersion": a2a.VERSION,
            }
        ],
        "capabilities": {"streaming": True, "pushNotifications": pushes},
        "securitySchemes": {"token": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}},
        "securityRequirements": [{"schemes": {"token": {"list": []}}}],
        "defaultInputModes": ["text/plain", "application/json", "*/*"],
        "defaultOutputModes": ["text/plain", "application/json"],
        "skills": [{"id": agent.name, "name": agent.name, "description": about, "tags": [agents.kinds[agent.name]]}],
    }
    headers = {"etag": f'"{digest(card)}"', "cache-control": _CACHED, "last-modified": since}
    if request.headers.get("if-none-match") == headers["etag"]:
        return Response(None, 304, headers)
    return Response(encode(card), 200, headers, "application/json")
