"""A small server with the routes of the page, whose every answer a test chooses: also such as no agent would give.

It runs in a thread of its own, can be stopped and started again on the same port, and keeps what was posted.
"""

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from ziggurat.serve.guard import SECURITY_HEADERS
from ziggurat.serve.routes import assets

__all__ = ["PageServer", "ServedRun", "node"]

Json = dict[str, Any]
BEGAN = 1_790_000_000.0


def node(number: int, name: str = "step", depth: int = 1, **more: Any) -> Json:
    """Return a node of a tree, which took 5 ms."""
    path = more.pop("path", f"run/{name}:{number}")
    times = {"started": BEGAN + number / 100, "ended": BEGAN + number / 100 + 0.005}
    plain: Json = {"parent": None, "kind": "tool", "status": "done", "usage": None, "cost": None, "text": "", **times}
    return {"path": path, "number": number, "depth": depth, "name": name, **plain, **more}


@dataclass
class ServedRun:
    """A run as the page gets it."""

    run_id: str
    detail: Json = field(default_factory=dict)
    nodes: list[Json] = field(default_factory=list)
    calls: dict[int, Json] = field(default_factory=dict)
    events: list[tuple[str, Json]] = field(default_factory=list)

    def row(self) -> Json:
        """Return the run as it is listed."""
        plain: Json = {
            "agent": "helper",
            "status": "Completed",
            "prompt": "Hello",
            "labels": {},
            "session": None,
            "usage": None,
        }
        times = {"started": BEGAN, "updated": BEGAN + 1.5, "cost": None}
        return {"run_id": self.run_id, **plain, **times, "output": None, "error": None, "pending": [], **self.detail}


class PageServer:
    """The server; `runs` and the other attributes may be changed at any time, `emit` says so to who follows a run."""

    def __init__(self) -> None:
        self.clear()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None
        self.start()

    def clear(self) -> None:
        """Forget everything."""
        self.runs: dict[str, ServedRun] = {}
        self.agents: list[Json] = [{"name": "helper", "description": "Helps.", "kind": "agent"}]
        self.diff: Json = {"rows": []}
        self.sessions: dict[str, list[Json]] = {}
        self.session_names: dict[str, str] = {}
        self.memories: list[Json] = []
        self.refusal = ""
        self.posts: list[tuple[str, Json]] = []
        self.streams: list[str] = []
        self.on_post: Callable[[str, Json], Json] = lambda path, body: {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def add(self, run_id: str, **detail: Any) -> ServedRun:
        """Add a run, or replace it."""
        run = self.runs[run_id] = ServedRun(run_id, detail)
        return run

    def emit(self, run: ServedRun, name: str, data: Json) -> None:
        """Send an event to everybody who follows the run, now or later."""
        run.events.append((name, data))

    def start(self) -> None:
        """Start the server, on the same port as before."""
        if self._socket.fileno() < 0:
            self._socket = socket.create_server(("127.0.0.1", self.port))
        app = Starlette(routes=self._routes())
        config = uvicorn.Config(app, log_level="critical", lifespan="off", timeout_graceful_shutdown=0)
        self._server = server = uvicorn.Server(config)
        self._thread = threading.Thread(target=lambda: server.run(sockets=[self._socket]), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Cut all connections and stop."""
        assert self._server is not None
        assert self._thread is not None
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(10)
        self._socket.close()

    def _routes(self) -> list[Route]:
        gets = {
            "/": lambda request: self._file("index.html"),
            "/page/{name}": lambda request: self._file(request.path_params["name"]),
            "/agents": lambda request: JSONResponse({"agents": self.agents}),
            "/runs": self._list,
            "/runs/{id}": lambda request: JSONResponse(self._run(request).row()),
            "/runs/{id}/tree": self._tree,
            "/runs/{id}/nodes/{number:int}": self._call,
            "/runs/{id}/events": self._follow,
            "/diff": lambda request: JSONResponse(self.diff),
            "/sessions": lambda request: JSONResponse(
                {
                    "sessions": [
                        {"id": self.session_names.get(name, name), "messages": len(messages)}
                        for name, messages in self.sessions.items()
                    ]
                }
            ),
            "/sessions/{id}": lambda request: JSONResponse({"messages": self.sessions[request.path_params["id"]]}),
            "/memory": lambda request: JSONResponse({"memories": self.memories}),
        }
        posts = [
            "/runs",
            *(f"/runs/{{id}}/{verb}" for verb in ("decisions", "cancel", "inject", "fork", "replay", "resume")),
        ]
        return [
            *(Route(path, self._wrap(answer), methods=["GET"]) for path, answer in gets.items()),
            *(Route(path, self._post, methods=["POST"]) for path in posts),
        ]

    def _wrap(self, answer: Callable[[Request], Response]) -> Callable[[Request], Any]:
        async def endpoint(request: Request) -> Response:
            try:
                return answer(request)
            except KeyError as error:
                return JSONResponse({"error": {"message": self.refusal or f"there is no {error}"}}, 404)

        return endpoint

    async def _post(self, request: Request) -> Response:
        body = await request.json()
        self.posts.append((request.url.path, body))
        return JSONResponse(self.on_post(request.url.path, body), 201)

    def _run(self, request: Request) -> ServedRun:
        return self.runs[request.path_params["id"]]

    @staticmethod
    def _file(name: str) -> Response:
        body, content_type, _ = assets()[name]
        return Response(body, headers={**SECURITY_HEADERS, "cache-control": "no-cache"}, media_type=content_type)

    def _list(self, request: Request) -> Response:
        rows = [run.row() for run in reversed(self.runs.values())]
        for name in ("status", "agent", "session"):
            if value := request.query_params.get(name):
                rows = [row for row in rows if row[name] == value]
        if search := request.query_params.get("search"):
            rows = [row for row in rows if search.lower() in row["prompt"].lower()]
        if label := request.query_params.get("label"):
            key, _, value = label.partition(":")
            rows = [row for row in rows if row["labels"].get(key) == value]
        start, limit = int(request.query_params.get("before", 0)), int(request.query_params["limit"])
        after = start + limit
        return JSONResponse({"runs": rows[start:after], "next": str(after) if after < len(rows) else None})

    def _tree(self, request: Request) -> Response:
        run, start = self._run(request), int(request.query_params["from"])
        page = run.nodes[start : start + int(request.query_params["count"])]
        return JSONResponse({"total": len(run.nodes), "nodes": page, "last": f"{len(run.events)}.0"})

    def _call(self, request: Request) -> Response:
        return JSONResponse(self._run(request).calls.get(request.path_params["number"], {}))

    def _follow(self, request: Request) -> Response:
        run = self._run(request)
        self.streams.append(request.query_params.get("after", ""))
        first = int(float(request.query_params.get("after") or 0))
        if 0 < len(run.events) <= first and run.events[-1][0] == "end":
            return Response(status_code=204)
        return StreamingResponse(self._events(run, first), media_type="text/event-stream")

    @staticmethod
    async def _events(run: ServedRun, first: int) -> AsyncIterator[str]:
        yield "retry: 50\n\n"
        for number in range(first, 1_000_000):
            while len(run.events) <= number:  # noqa: ASYNC110 - they are added by another thread
                await asyncio.sleep(0.01)
            name, data = run.events[number]
            yield f"id: {number + 1}.0\nevent: {name}\ndata: {json.dumps(data)}\n\n"
            if name == "end":
                return
