"""What the server costs for each streamed event, for each open stream, and when it is idle, beside a floor and peers.

    python -P benchmarks/serving.py [--peers PYTHON] [--only NAME ...]

Each server is a process of its own; so is the provider, which streams replies in the format of OpenAI, one write for
each delta. Figures are the CPU time and the resident memory of the process of the server, as the system counts them:
no wall times, but for how long the server takes to end. An event is one delta of a reply, from the provider to a
client; its cost is the difference of replies with 50 and 550 deltas, the rest is the cost of a run. Ours checks the
token, passes the guard, and records in SQLite; the floor copies the provider's bytes by a few lines of ASGI. For peers,
PYTHON has agno 3.1.10, fastapi, sqlalchemy, httptools, python-multipart and pydantic-ai-slim[openai,ag-ui] 2.68.
"""

import argparse
import asyncio
import importlib
import json
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

TOKEN = "a-token-of-the-benchmark"
SHORT, LONG = "deltas-50", "deltas-550"
PACED = ("deltas-50-5", "deltas-550-5")
WAITS = "deltas-3-0-waits"
RUNS, ROUNDS, TOGETHER = 20, 5, 5
STREAMS, ACTIVE = 1000, 100
DEAF, DEAF_BYTES = 100, 400_000

Scope = Any


# -- the provider ------------------------------------------------------------------------------------------------


def chunk(content: str) -> bytes:
    """Return one piece of a reply in the chunked encoding of HTTP."""
    return b"%x\r\n%b\r\n" % (len(content), content.encode())


def delta(text: str | None) -> bytes:
    """Return one event of a reply; the last has no text."""
    choice = {"index": 0, "delta": {"content": text} if text else {}, "finish_reason": None if text else "stop"}
    body = {"id": "reply", "object": "chat.completion.chunk", "created": 1, "model": "model", "choices": [choice]}
    return chunk(f"data: {json.dumps(body)}\n\n")


async def provide(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer requests of one connection with as many deltas as the name of the model says."""
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
            model = json.loads(await reader.readexactly(length))["model"]
            _, count, pause, *waits = [*model.split("-"), "0"][:4]
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
            await asyncio.sleep(0.1)  # as a model takes a while to begin: time to follow the run
            for number in range(int(count)):
                writer.write(delta(f"word{number} "))
                await asyncio.sleep(int(pause) / 1000)
            if waits != ["0"] and waits:
                await asyncio.Event().wait()
            writer.write(delta(None) + chunk("data: [DONE]\n\n") + b"0\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def serve_provider(listener: socket.socket) -> None:
    """Run the provider."""
    server = await asyncio.start_server(provide, sock=listener, backlog=1000)
    await server.serve_forever()


# -- the servers -------------------------------------------------------------------------------------------------


def floor(provider: int) -> Any:
    """Return an ASGI application that copies the provider's events and does nothing else."""

    def event(text: str) -> bytes:
        return b"id: 1\nevent: Delta\ndata: %b\n\n" % json.dumps({"path": "floor", "text": text}).encode()

    async def application(scope: Scope, receive: Callable[[], Awaitable[Any]], send: Any) -> None:
        if scope["type"] == "lifespan":
            return
        start = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]}
        await send(start)
        model = scope["path"].strip("/")
        if model == WAITS:
            await send({"type": "http.response.body", "body": event("word2 "), "more_body": True})
            while (await receive())["type"] != "http.disconnect":
                pass
            return
        body = json.dumps({"model": model}).encode()
        reader, writer = await asyncio.open_connection("127.0.0.1", provider)
        writer.write(b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        await reader.readuntil(b"\r\n\r\n")
        while size := int(await reader.readline(), 16):
            content = (await reader.readexactly(size + 2))[6:-4]
            text = "" if content[:6] == b"[DONE]" else json.loads(content)["choices"][0]["delta"].get("content")
            if text:
                await send({"type": "http.response.body", "body": event(text), "more_body": True})
        writer.close()
        await send({"type": "http.response.body", "body": b"event: end\ndata: {}\n\n"})

    return application


def ours(provider: int, folder: str) -> Any:
    """Return the application of `serve`, with one agent for each length of a reply."""
    from ziggurat.agents.agent import Agent
    from ziggurat.models.http.providers import openai
    from ziggurat.serve.application import app

    def agent(name: str) -> Agent[str]:
        return Agent(openai(name, key="any", base_url=f"http://127.0.0.1:{provider}/v1"), name=name)

    agents = [agent(name) for name in (SHORT, LONG, *PACED, WAITS)]
    return app(agents, store=f"sqlite:///{folder}/runs.db", token=TOKEN, max_runs=ACTIVE + 10)


def agno(provider: int) -> Any:
    """Return the application of agno's AgentOS, without telemetry and without a database."""
    module = importlib.import_module
    url = f"http://127.0.0.1:{provider}/v1"
    chat = module("agno.models.openai").OpenAIChat
    agents = [
        module("agno.agent").Agent(id=name, name=name, model=chat(id=name, base_url=url, api_key="x"), telemetry=False)
        for name in (SHORT, LONG, *PACED)
    ]
    return module("agno.os").AgentOS(agents=agents, telemetry=False).get_app()


def pydantic_ai(provider: int) -> Any:
    """Return pydantic-ai's agents behind AG-UI."""
    module = importlib.import_module
    source = module("pydantic_ai.providers.openai").OpenAIProvider(
        base_url=f"http://127.0.0.1:{provider}/v1", api_key="x"
    )
    chat, agent = module("pydantic_ai.models.openai").OpenAIChatModel, module("pydantic_ai").Agent
    adapter = module("pydantic_ai.ui.ag_ui").AGUIAdapter
    agents = {name: agent(chat(name, provider=source)) for name in (SHORT, LONG, *PACED)}

    async def answer(request: Any) -> Any:
        return await adapter.dispatch_request(request, agent=agents[request.path_params["name"]])

    route = module("starlette.routing").Route("/{name}", answer, methods=["POST"])
    return module("starlette.applications").Starlette(routes=[route])


def serve(name: str, listener: socket.socket, provider: int, folder: str) -> None:
    """Run one server until a signal ends it."""
    import uvicorn

    if name == "ziggurat":
        from ziggurat.cli.serve import server_for

        server: Any = server_for(ours(provider, folder), "127.0.0.1", 0)
    else:
        application = {"floor": floor, "agno": agno, "pydantic-ai": pydantic_ai}[name](provider)
        settings: dict[str, Any] = {"log_level": "warning", "access_log": False, "timeout_graceful_shutdown": 3}
        server = uvicorn.Server(uvicorn.Config(application, http="httptools", loop="asyncio", ws="none", **settings))
    asyncio.run(server.serve(sockets=[listener]))


# -- clients -----------------------------------------------------------------------------------------------------


class Server(NamedTuple):
    """A process that serves at a port."""

    name: str
    pid: int
    port: int
    process: "subprocess.Popen[bytes]"

    @property
    def cpu(self) -> float:
        """Seconds of CPU time that the process has used, all threads together."""
        return time.clock_gettime((~self.pid << 3) | 2)  # the number of the clock of a process, as Linux counts them

    @property
    def memory(self) -> float:
        """Resident memory in KiB."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0])


@contextmanager
def started(name: str, *arguments: str, python: str = sys.executable) -> Iterator[Server]:
    """Start a process of this file, and stop it at the end."""
    with socket.create_server(("127.0.0.1", 0), backlog=2000) as listener:
        command = [python, "-P", __file__, "--serve", name, "--listener", str(listener.fileno()), *arguments]
        process, port = subprocess.Popen(command, pass_fds=[listener.fileno()]), listener.getsockname()[1]
    try:
        yield Server(name, process.pid, port, process)
    finally:
        process.terminate()
        process.wait(20)


def request(method: str, path: str, content: str = "", kind: str = "application/json") -> bytes:
    """Return a request."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {TOKEN}", f"Content-Type: {kind}"]
    return "\r\n".join([*lines, f"Content-Length: {len(content)}", "", content]).encode()


async def fetch(port: int, message: bytes, end: bytes = b"\r\n0\r\n\r\n") -> bytes:
    """Send a request on a connection of its own, and return what came until the end of the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**24)
    writer.write(message)
    answer = await reader.readuntil(end)
    writer.close()
    return answer


async def stream(server: Server, model: str, run_id: str) -> int:
    """Run an agent once, and return the number of deltas that came."""
    match server.name:
        case "floor":
            answer, sign = await fetch(server.port, request("GET", f"/{model}")), b"event: Delta"
        case "ziggurat":
            body = json.dumps({"agent": model, "prompt": "Go.", "run_id": run_id})
            await fetch(server.port, request("POST", "/runs", body), b"}")
            answer, sign = await fetch(server.port, request("GET", f"/runs/{run_id}/events")), b"event: Delta"
        case "agno":
            form = "application/x-www-form-urlencoded"
            sent = request("POST", f"/agents/{model}/runs", "message=Go.&stream=true", form)
            answer, sign = await fetch(server.port, sent), b"event: RunContent\n"
        case _:
            message = {"id": "1", "role": "user", "content": "Go."}
            run: dict[str, Any] = {"threadId": "1", "runId": run_id, "messages": [message], "tools": [], "context": []}
            sent = request("POST", f"/{model}", json.dumps({**run, "state": {}, "forwardedProps": {}}))
            answer, sign = await fetch(server.port, sent), b'"TEXT_MESSAGE_CONTENT"'
    return answer.count(sign)


async def until_ready(server: Server) -> None:
    """Wait until a server answers."""
    while True:
        try:
            await stream(server, SHORT, "ready")
        except (OSError, EOFError):
            if server.process.poll() is not None:
                raise
            await asyncio.sleep(0.1)
        else:
            return


# -- figures -----------------------------------------------------------------------------------------------------


async def event_cost(server: Server, models: tuple[str, str]) -> tuple[float, float]:
    """Return microseconds of CPU time for an event, and for a run without them; the least of some rounds."""
    costs: dict[str, float] = {}
    for turn in range(ROUNDS):
        for model in models:
            count = int(model.split("-")[1])
            begun = server.cpu
            for first in range(0, RUNS, TOGETHER):
                names = [f"{model}-{turn}-{first + place}" for place in range(TOGETHER)]
                counts = await asyncio.gather(*(stream(server, model, name) for name in names))
                assert min(counts) >= count - 1, (server.name, model, counts)
            costs[model] = min(costs.get(model, 1e9), (server.cpu - begun) / RUNS * 1e6)
    short, long = (int(model.split("-")[1]) for model in models)
    event = (costs[models[1]] - costs[models[0]]) / (long - short)
    return event, costs[models[0]] - short * event


async def open_stream(server: Server, path: str, first: bytes, *, buffer: int = 0) -> socket.socket:
    """Open a stream, and return its connection when it has sent something in particular."""
    loop, connection = asyncio.get_running_loop(), socket.socket()
    if buffer:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    connection.setblocking(False)
    await loop.sock_connect(connection, ("127.0.0.1", server.port))
    await loop.sock_sendall(connection, request("GET", path))
    came = b""
    while first not in came:
        came += await loop.sock_recv(connection, 65536)
    return connection


async def stream_cost(server: Server) -> tuple[float, list[socket.socket]]:
    """Return KiB for each of many open streams, and their connections; ours follow some runs that wait for a reply."""
    paths = [f"/{WAITS}"] * STREAMS
    if server.name == "ziggurat":
        paths = [f"/runs/waits-{number % ACTIVE}/events" for number in range(STREAMS)]
        for number in range(ACTIVE):
            body = json.dumps({"agent": WAITS, "prompt": "Go.", "run_id": f"waits-{number}"})
            await fetch(server.port, request("POST", "/runs", body), b"}")
        (await open_stream(server, paths[0], b"word2")).close()
        await asyncio.sleep(0.5)
    before, connections = server.memory, []
    for path in paths:
        connections.append(await open_stream(server, path, b"word2"))
    return (server.memory - before) / STREAMS, connections


async def deaf_cost(server: Server, deaf: int, turn: int) -> tuple[float, float]:
    """Return microseconds of CPU time for an event of a run with ten readers, and the MiB that deaf ones take."""
    run_id, before = f"deaf-{deaf}-{turn}", server.memory
    body = json.dumps({"agent": PACED[1], "prompt": "x" * DEAF_BYTES, "run_id": run_id})
    await fetch(server.port, request("POST", "/runs", body), b"}")
    path = f"/runs/{run_id}/events"
    connections = [await open_stream(server, path, b"event:", buffer=4096) for _ in range(deaf)]
    readers, writers = zip(
        *[await asyncio.open_connection("127.0.0.1", server.port, limit=2**24) for _ in range(10)], strict=True
    )
    for writer in writers:
        writer.write(request("GET", path))
    await asyncio.gather(*(reader.readuntil(b"word200 ") for reader in readers))
    begun = server.cpu
    await asyncio.gather(*(reader.readuntil(b"word500 ") for reader in readers))
    cost, size = (server.cpu - begun) / 300 * 1e6, (server.memory - before) / 1024
    for connection in (*connections, *writers):
        connection.close()
    return cost, size


async def end_cost(server: Server, connections: list[socket.socket]) -> tuple[float, int]:
    """End the server by a signal; return the seconds until the process has ended, and how many streams were told."""
    loop, begun = asyncio.get_running_loop(), time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    ended = asyncio.create_task(asyncio.to_thread(server.process.wait, 20))
    told = 0
    for connection in connections:
        came = b""
        while piece := await loop.sock_recv(connection, 65536):
            came += piece
        told += b"event: bye\n" in came
        connection.close()
    await ended
    return time.monotonic() - begun, told


@asynccontextmanager
async def ready(name: str, provider: int, python: str) -> AsyncIterator[Server]:
    """Start one of the servers, and wait until it answers."""
    folder = tempfile.TemporaryDirectory()
    arguments = ["--provider", str(provider), "--folder", folder.name]
    with folder, started(name, *arguments, python=python) as server:
        await until_ready(server)
        yield server


async def measure(name: str, provider: int, python: str) -> None:
    """Print the figures of one server."""
    async with ready(name, provider, python) as server:
        print(f"{name}: {server.memory / 1024:.1f} MiB after one run")
        event, run = await event_cost(server, (SHORT, LONG))
        print(f"{name}: {event:.1f} us for an event, {run / 1000:.2f} ms for a run, {TOGETHER} runs at once")
        event, run = await event_cost(server, PACED)
        print(f"{name}: {event:.1f} us for an event that comes 5 ms after another, {run / 1000:.2f} ms for a run")
        if name in ("floor", "ziggurat"):
            size, connections = await stream_cost(server)
            print(f"{name}: {size:.1f} KiB for each of {STREAMS:,} open streams")
            seconds, told = await end_cost(server, connections)
            print(f"{name}: ended {seconds:.2f} s after SIGTERM, {told} streams were sent bye")


async def measure_deaf(provider: int) -> None:
    """Print what readers cost that read nothing, in a process of its own, as its memory is used again afterwards."""
    async with ready("ziggurat", provider, sys.executable) as server:
        figures = {deaf: [await deaf_cost(server, deaf, turn) for turn in range(3)] for deaf in (0, DEAF)}
    (alone, _), (beside, size) = (map(min, zip(*each, strict=True)) for each in figures.values())
    print(f"ziggurat: an event to ten readers {alone:.0f} us, beside {DEAF} deaf ones ({size:.1f} MiB) {beside:.0f} us")


def main() -> None:
    """Measure, or be one of the processes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", metavar="PYTHON")
    parser.add_argument("--only", nargs="*", default=["floor", "ziggurat", "agno", "pydantic-ai"])
    for name in ("--serve", "--listener", "--provider", "--folder"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (8192, 8192))
    if options.serve:
        listener = socket.socket(fileno=int(options.listener))
        if options.serve == "provider":
            return asyncio.run(serve_provider(listener))
        return serve(options.serve, listener, int(options.provider), options.folder)
    with started("provider") as provider:
        for name in options.only:
            python = sys.executable if name in ("floor", "ziggurat") else options.peers
            if python is not None:
                asyncio.run(measure(name, provider.port, python))
        if "ziggurat" in options.only:
            asyncio.run(measure_deaf(provider.port))
    return None


if __name__ == "__main__":
    main()
