"""The server as an ASGI application: agents that are started, watched and decided on by HTTP."""

import secrets
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from ziggurat.agents.runnable import Runnable
from ziggurat.core.errors import MissingExtra
from ziggurat.core.settings import NonEmptyText, NonNegativeSeconds, PositiveInt, checked
from ziggurat.http.fetcher import Fetcher
from ziggurat.journal.store import Store
from ziggurat.layers.concurrency_limit import Gate
from ziggurat.runs.options import Deps, RunOptions
from ziggurat.serve import guard
from ziggurat.serve.mcp.methods import Methods
from ziggurat.serve.mcp.offering import McpServer
from ziggurat.serve.served import ServedAgents

_MAX_RUNS = 100
_MAX_STREAMS = 5_000
GRACE = 5.0  # seconds that runs have to end when the server does, by default


class ServedApp(guard.Guard):
    """What `app` returns: `agents` is what is served, `token` what programs show."""

    agents: ServedAgents
    token: str


@checked
def app(
    agents: Runnable[Any] | Iterable[Runnable[Any]],
    *,
    store: str | Store | None = None,
    token: NonEmptyText | None = None,
    hosts: Iterable[str] = (),
    proxies: Iterable[str] = (),
    max_runs: PositiveInt = _MAX_RUNS,
    max_streams: PositiveInt = _MAX_STREAMS,
    grace: NonNegativeSeconds = GRACE,
    mcp: McpServer | None = None,
    push: Fetcher | None = None,
    deps: Deps | None = None,
) -> ServedApp:
    """Return an ASGI application that serves agents, for uvicorn or another server::

        from ziggurat import serve

        application = serve.app([desk, reporter], store="sqlite:///runs.db", token=os.environ["TOKEN"])

    Every request shows the token: programs as ``Authorization: Bearer``, a browser by the link that
    ``ziggurat serve`` prints.

    Args:
        agents: Agents, teams, flows, plans and graphs.
        store: Where their runs are kept; several processes may serve the same store. By default each agent's own.
        token: At least 16 characters; by default a new one, ``application.token``.
        hosts: Names by which the server is addressed, besides localhost.
        proxies: The addresses, or networks, of proxies whose ``X-Forwarded-Proto`` is trusted; they add the TLS.
        max_runs: How many runs this process drives at the same time, without those that wait for a time or an event;
            others are refused with status 503.
        max_streams: How many streams may be open at the same time; others are refused with status 503.
        grace: Seconds that runs have to end when the server does; the others are left to be recovered or resumed.
        mcp: What clients of MCP are offered at ``/mcp`` beside the agents.
        push: Sends changes of tasks to addresses that clients of A2A name, such as ``Fetcher()``; by default that is
            refused.
        deps: The dependencies of every run that this process drives; see `Runnable.run`.

    Raises:
        ConfigurationError: there is no agent, two have one name, the token is too short, a proxy is no address, or a
            dependency does not fit its key.
        MissingExtra: the extra ``serve`` is not installed.
    """
    guard.check_address("localhost", token)
    token = token or secrets.token_urlsafe(32)
    served = ServedAgents([agents] if isinstance(agents, Runnable) else agents, store, max_runs, grace)
    served.deps = RunOptions.of(deps=deps).deps
    routed = _application(served, Methods(served, mcp or McpServer(), token), push)
    application = ServedApp(routed, token, list(hosts), Gate(max_streams), list(proxies))
    application.agents, application.token = served, token
    return application


def _application(agents: ServedAgents, mcp: Methods, push: Fetcher | None) -> guard.App:
    try:
        from starlette.applications import Starlette
    except ImportError as error:
        raise MissingExtra("serve.app()", "serve") from error
    from ziggurat.serve.a2a.routes import a2a_routes
    from ziggurat.serve.mcp.http import mcp_routes
    from ziggurat.serve.openai.provider_routes import provider_routes
    from ziggurat.serve.routes import FAILURES, routes
    from ziggurat.serve.routing import route
    from ziggurat.serve.ui.agui import run_agui
    from ziggurat.serve.ui.ai_sdk import follow_chat, run_chat

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        yield
        agents.closing.close()
        await agents.drain()

    every = [
        *routes(agents),
        *provider_routes(agents),
        route("POST", "/ag-ui/{name}", lambda request: run_agui(agents, request)),
        route("POST", "/chat/{name}", lambda request: run_chat(agents, request)),
        route("GET", "/chat/{name}/{chat}/stream", lambda request: follow_chat(agents, request)),
        *mcp_routes(mcp),
        *a2a_routes(agents, push),
    ]
    return Starlette(routes=every, exception_handlers=FAILURES, lifespan=lifespan)
