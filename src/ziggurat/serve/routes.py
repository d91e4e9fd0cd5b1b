"""The routes of the server: what is started, read, decided and steered, each as one function."""

from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any, TypeVar

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from ziggurat.core import codec, errors
from ziggurat.core.codec import encode
from ziggurat.observe.picture import diagram_svg
from ziggurat.serve import requests
from ziggurat.serve.decisions import Decisions, Resumption
from ziggurat.serve.feed import EventFeed, Feeds, Position
from ziggurat.serve.routing import route
from ziggurat.serve.rows import read_memories, read_sessions
from ziggurat.serve.served import ServedAgents
from ziggurat.serve.views import call_view, changed_nodes, message_view, tree_view

T = TypeVar("T")

_CONTENT_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


@cache
def assets() -> dict[str, tuple[bytes, str, str]]:
    bodies = {each.name: each.read_bytes() for each in files("ziggurat.serve").joinpath("page").iterdir()}
    return {
        name: (body, _CONTENT_TYPES[name.rpartition(".")[2]], f'"{sha256(body).hexdigest()[:16]}"')
        for name, body in bodies.items()
    }


class _NewRun(msgspec.Struct, forbid_unknown_fields=True):
    agent: str
    prompt: str
    session: str | None = None
    run_id: str | None = None
    labels: dict[str, str | int | float | bool | None] = {}


class _Text(msgspec.Struct, forbid_unknown_fields=True):
    text: str


class _Event(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    value: Any = None
    key: str | None = None


class _Fork(msgspec.Struct, forbid_unknown_fields=True):
    at: int | None = None
    prompt: str | None = None
    run_id: str | None = None


class _Routes:
    def __init__(self, agents: ServedAgents) -> None:
        self.agents = agents
        self.feeds = Feeds(agents.closing, failures=agents.failures)

    # -- what can be read ----------------------------------------------------------------------------------------

    async def list_agents(self, request: Request) -> Any:
        return {"agents": self.agents.described()}

    async def list_runs(self, request: Request) -> Any:
        query = request.query_params
        labels = requests.read_labels(query.getlist("label"), ":", "label")
        try:
            before = float(query["before"]) if "before" in query else None
        except ValueError as error:
            raise errors.ConfigurationError(f"before is a number of seconds: {error}") from error
        rows, more = await self.agents.rows(
            agent=query.get("agent"),
            status=requests.read_status(query["status"]) if query.get("status") else None,
            labels=labels or None,
            before=before,
            search=query.get("search", "")[:200],
            session=query.get("session", ""),
            limit=requests.read_number(query, "limit", 50, least=1, most=500),
        )
        return {"runs": rows, "next": more}

    async def read_run(self, request: Request) -> Any:
        return await self.agents.detail(_id(request))

    async def read_tree(self, request: Request) -> Any:
        entries, query = await self.agents.entries(_id(request)), request.query_params
        return tree_view(entries, requests.read_number(query, "from", 0), requests.read_number(query, "count", 2000))

    async def read_standing(self, request: Request) -> Response:
        agent, _ = await self.agents.agent_of(_id(request))
        return Response(diagram_svg(await agent.standing(_id(request))), media_type="image/svg+xml")

    async def read_call(self, request: Request) -> Any:
        return call_view(await self.agents.entries(_id(request)), request.path_params["number"])

    async def compare(self, request: Request) -> Any:
        names = [request.query_params.get(name, "") for name in ("a", "b")]
        one, other = [await self.agents.entries(name) for name in names]
        return {"a": names[0], "b": names[1], "rows": changed_nodes(one, other)}

    async def read_record(self, request: Request) -> Response:
        agent, _ = await self.agents.agent_of(_id(request))
        return Response(await agent.record(_id(request)), media_type="application/jsonl")

    async def follow(self, request: Request) -> EventFeed | Response:
        agent, info = await self.agents.agent_of(_id(request))
        text = request.headers.get("last-event-id") or request.query_params.get("after") or "0"
        after: Position | None = Position.read(text)
        if after is not None and after.number > info.count + 1:
            after = None  # of another record; the reader begins anew
        if after is not None and after.ended and info.count <= after.number and not info.owner:
            return Response(status_code=204)  # an EventSource connects no more then
        return EventFeed(self.feeds, agent, _id(request), after)

    async def list_sessions(self, request: Request) -> Any:
        return {"sessions": await read_sessions(self.agents.stores())}

    async def read_session(self, request: Request) -> Any:
        messages = await self.agents.conversation(request.path_params["id"])
        return {"id": request.path_params["id"], "messages": [message_view(message) for message in messages]}

    async def read_memory(self, request: Request) -> Any:
        query, agents = request.query_params, self.agents.agents.values()
        search, limit = query.get("search", "")[:200], requests.read_number(query, "limit", 100)
        memories, total = await read_memories(agents, search=search, owner=query.get("owner") or None, limit=limit)
        return {"memories": memories, "total": total}

    # -- what changes something ----------------------------------------------------------------------------------

    async def start(self, request: Request) -> Any:
        self.agents.admit()
        body = await _body(request, _NewRun)
        run_id = body.run_id or request.headers.get("idempotency-key")
        if run_id is not None:
            requests.check_id(run_id)
        given = {"session": body.session, "labels": body.labels or None}
        return {"run_id": await self.agents.start(body.agent, body.prompt, run_id, **given)}

    async def decide(self, request: Request) -> Any:
        await self.agents.decide(_id(request), (await _body(request, Decisions)).by_id())
        return {"run_id": _id(request)}

    async def cancel(self, request: Request) -> Any:
        return {"done": await self.agents.cancel(_id(request))}

    async def inject(self, request: Request) -> Any:
        agent, _ = await self.agents.agent_of(_id(request))
        return {"done": await agent.attach(_id(request)).inject((await _body(request, _Text)).text)}

    async def send(self, request: Request) -> Any:
        agent, _ = await self.agents.agent_of(_id(request))
        event = await _body(request, _Event)
        return {"new": await agent.attach(_id(request)).send(event.name, event.value, key=event.key)}

    async def resume(self, request: Request) -> Any:
        self.agents.admit()
        await self.agents.resume(_id(request), decisions=(await _body(request, Resumption)).by_id())
        return {"run_id": _id(request)}

    async def fork(self, request: Request) -> Any:
        self.agents.admit()
        body = await _body(request, _Fork)
        return {"run_id": await self.agents.fork(_id(request), body.at, body.prompt, body.run_id)}

    async def replay(self, request: Request) -> Any:
        agent, _ = await self.agents.agent_of(_id(request))
        run = await agent.replay(_id(request), deps=self.agents.deps)
        return {"run_id": _id(request), "stop": run.stop, "answer": run._output}

    async def read_asset(self, request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        if name not in assets():
            raise HTTPException(404, "there is no such file of the page")
        body, content_type, etag = assets()[name]
        headers = {"etag": etag, "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == etag:
            return Response(None, 304, headers)
        return Response(body, 200, headers, content_type)

    async def read_metrics(self, request: Request) -> Response:
        shared = self.agents.metrics()
        if len(shared) != 1:
            number = "have no metrics" if not shared else f"have {len(shared)} different ones"
            raise HTTPException(404, f"the agents {number}: give one Metrics() to all as middleware")
        return Response(shared[0].prometheus_text(), media_type="text/plain; version=0.0.4")

    async def check_health(self, request: Request) -> Any:
        return {"status": "alive"}

    async def check_readiness(self, request: Request) -> Any:
        self.agents.admit()
        return {"status": "ready"}


def routes(agents: ServedAgents) -> list[Route]:
    own = _Routes(agents)
    return [
        route("GET", "/healthz", own.check_health),
        route("GET", "/readyz", own.check_readiness),
        route("GET", "/metrics", own.read_metrics),
        route("GET", "/", own.read_asset),
        route("GET", "/page/{name}", own.read_asset),
        route("GET", "/agents", own.list_agents),
        route("GET", "/runs", own.list_runs),
        route("POST", "/runs", own.start, 201),
        route("GET", "/runs/{id}", own.read_run),
        route("GET", "/runs/{id}/events", own.follow),
        route("GET", "/runs/{id}/tree", own.read_tree),
        route("GET", "/runs/{id}/standing", own.read_standing),
        route("GET", "/runs/{id}/record", own.read_record),
        route("POST", "/runs/{id}/events", own.send),
        route("POST", "/runs/{id}/decisions", own.decide),
        route("POST", "/runs/{id}/cancel", own.cancel),
        route("POST", "/runs/{id}/inject", own.inject),
        route("POST", "/runs/{id}/resume", own.resume),
        route("POST", "/runs/{id}/replay", own.replay),
        route("POST", "/runs/{id}/fork", own.fork, 201),
        route("GET", "/runs/{id}/nodes/{number}", own.read_call),
        route("GET", "/diff", own.compare),
        route("GET", "/sessions", own.list_sessions),
        route("GET", "/sessions/{id}", own.read_session),
        route("GET", "/memory", own.read_memory),
    ]


def _id(request: Request) -> str:
    run_id = str(request.path_params["id"])
    try:
        requests.check_id(requests.first_id(run_id))
        return run_id
    except errors.ConfigurationError as error:
        raise errors.RunNotFound(str(error)) from error


async def _body(request: Request, kind: type[T]) -> T:
    try:
        return codec.decoder(kind).decode(await request.body() or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        forms = [", ".join(each["properties"]) for each in msgspec.json.schema(kind)["$defs"].values()]
        takes = f"the body is a JSON object with {', each with '.join(forms)}"
        raise errors.ConfigurationError(f"the body is not what {request.url.path} takes: {error}; {takes}") from error


async def _refuse(request: Request, error: Exception) -> Response:
    kind, text = type(error).__name__, str(error)
    if isinstance(error, HTTPException):
        status, text, headers = error.status_code, error.detail, error.headers
        kind = {404: "NotFound", 405: "MethodNotAllowed"}.get(status, kind)
        if text in ("Not Found", "Method Not Allowed"):  # of the routing
            text = f"the server has no route {request.method} {request.url.path:.200}"
    else:
        status = requests.status_of(error)
        headers = {"retry-after": "1"} if status == 503 else None
    body = encode({"error": {"type": kind, "message": text}})
    return Response(body, status, headers, "application/json")


async def _leave(request: Request, error: Exception) -> Response:
    """Answer who has gone before the request had come as a whole."""
    return Response(status_code=400)


FAILURES: dict[Any, Any] = {errors.ZigguratError: _refuse, HTTPException: _refuse, ClientDisconnect: _leave}
"""How errors are answered; any other is a defect of a server, and logged with its traceback."""
