"""Readers of events whose connections are cut at random bytes, while the server is killed now and then.

    python -m tests.serve.cuts [--cuts 10000] [--kills 20] [--seed 1]

Each run has several readers, as many connections each as it takes. What they must hear is every entry of the record
once and in order, and of each reply that one process sends, the beginning without a gap, and nothing twice. After a
process that is killed another one goes on with its runs, at the same port.
"""

import argparse
import asyncio
import json
import random
import signal
import socket
import sys
import tempfile
from asyncio.subprocess import Process
from collections import defaultdict
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.serve.serving import TOKEN
from ziggurat import Agent, ModelRequest, ToolCall, tool
from ziggurat.cli.serve import server_for
from ziggurat.cli.supervised import supervised
from ziggurat.events import TextDelta, ToolCallDelta
from ziggurat.http.sse import EventParser
from ziggurat.messages.message import PartDelta
from ziggurat.models import FunctionModel
from ziggurat.serve import app
from ziggurat.serve.application import ServedApp

STEPS = 4
READERS = 4
WORDS = ("the", "quick", "brown", "fox", "é漢😀", "")


def application(store: str) -> ServedApp:
    """Return a server: of ``teller``, whose model writes word by word, and of ``desk``, whose tool asks a person."""

    async def write(request: ModelRequest) -> AsyncIterator[PartDelta]:
        draw = random.Random(f"{request.messages[0].text}-{len(request.messages)}")
        for _ in range(draw.randrange(2, 30)):
            yield TextDelta(f"{draw.choice(WORDS)} ")
            await asyncio.sleep(0.02 if request.messages[0].text.startswith("slow") else 0.002)
        if len(request.messages) < 2 * STEPS - 1:
            yield ToolCallDelta(0, "{}", "call", "look")

    async def look() -> str:
        """Look."""
        return "nothing"

    @tool(effect="once", approval=True)
    async def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    def answer(request: ModelRequest) -> str | ToolCall:
        return "Paid." if request.messages[-1].tool_results else ToolCall("call", "pay", '{"amount": 3}')

    teller = Agent(FunctionModel(write), name="teller", tools=[look], max_steps=STEPS + 1)
    desk = Agent(FunctionModel(answer), name="desk", tools=[pay])
    return app([teller, desk], store=store, token=TOKEN, max_runs=10_000)


@dataclass
class Reader:
    """A reader of a run, and what it has heard over all its connections."""

    run_id: str
    last: str = ""
    ended: bool = False
    cuts: int = 0
    entries: list[tuple[int, bytes]] = field(default_factory=list)
    pieces: dict[tuple[str, str], str] = field(default_factory=lambda: defaultdict(str))

    async def connect(self, port: int, size: int) -> None:
        """Read so many bytes of the stream, and cut the connection."""
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:  # the server is being started again
            await asyncio.sleep(0.02)
            return
        parser = EventParser()
        try:
            lines = [f"GET /runs/{self.run_id}/events HTTP/1.0", f"Host: 127.0.0.1:{port}"]
            lines += [f"Authorization: Bearer {TOKEN}", *([f"Last-Event-ID: {self.last}"] if self.last else [])]
            writer.write("\r\n".join([*lines, "", ""]).encode())
            head = await reader.readuntil(b"\r\n\r\n")
            assert b" 200 " in head.splitlines()[0], head
            async for chunk in _up_to(reader, size):
                for event in parser.feed(chunk):
                    self.hear(event.event, event.id, event.data)
        except (OSError, asyncio.IncompleteReadError):  # the server was killed
            pass
        finally:
            self.cuts += 1
            writer.transport.abort()

    def hear(self, name: str, place: str, data: str) -> None:
        """Take an event."""
        assert name != "reset"
        if name in ("waiting", "bye"):
            return
        self.last = place
        number, _, rest = place.partition(".")
        if name == "end":
            self.ended = True
        elif not rest:
            self.entries.append((int(number), data.encode()))
            if name == "Opened":  # whoever goes on with the run begins its replies again
                self.pieces.clear()
        elif name == "Delta":
            piece = json.loads(data)
            self.pieces[rest.partition(".")[2] + number, piece["path"]] += piece["delta"].get("text", "")
        elif name in ("ModelStarted", "Dropped"):  # another process has begun the reply again
            again = json.loads(data)["path"]
            self.pieces = defaultdict(str, {key: text for key, text in self.pieces.items() if key[1] != again})

    def check(self, record: list[bytes], *, from_begin: bool = True) -> None:
        """Compare what it has heard with the record of the run.

        Of a reply that another process writes, a reader hears what is written after it has come.
        """
        assert [number for number, _ in self.entries] == list(range(1, len(record) + 1)), self.run_id
        said = [json.loads(data)["path"] for _, data in self.entries]  # as the event of an entry, or as it is
        assert said == [json.loads(line)["path"] for line in record], self.run_id
        replies = {entry["path"]: _text(entry["value"]) for entry in map(json.loads, record) if "value" in entry}
        for (_, path), text in self.pieces.items():
            assert replies[path].startswith(text) if from_begin else text in replies[path], (self.run_id, path, text)


async def _up_to(reader: asyncio.StreamReader, size: int) -> AsyncIterator[bytes]:
    while size > 0 and (chunk := await reader.read(min(size, 65_536))):
        size -= len(chunk)
        yield chunk


def _text(value: Any) -> str:
    parts = value.get("message", {}).get("parts", []) if isinstance(value, dict) else []
    return "".join(part.get("text", "") for part in parts)


class Server:
    """The process of a server, which can be killed and started again."""

    def __init__(self, store: str) -> None:
        self.store = store
        self.process: Process | None = None
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]

    async def start(self) -> None:
        """Start it, and wait until it answers."""
        command = [sys.executable, "-m", "tests.serve.cuts", "--serve", str(self.port), "--store", self.store]
        self.process = await asyncio.create_subprocess_exec(*command)
        async with self.client() as client:
            for _ in range(500):
                try:
                    await client.get("/healthz")
                    return
                except httpx.TransportError:
                    await asyncio.sleep(0.02)
        raise AssertionError("the server does not answer")

    async def kill(self) -> None:
        """Kill it."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        await self.process.wait()

    def client(self) -> httpx.AsyncClient:
        """Return a client that shows the token."""
        address = f"http://127.0.0.1:{self.port}"
        return httpx.AsyncClient(base_url=address, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=20)


async def storm(cuts: int, kills: int, seed: int, folder: Path) -> dict[str, int]:
    """Cut readers so often; return the counts of what happened."""
    draw = random.Random(seed)
    server = Server(f"sqlite:///{folder}/runs.db")
    await server.start()
    counts = {"cuts": 0, "kills": 0, "runs": 0, "entries": 0}
    try:
        while counts["cuts"] < cuts:
            killed = counts["kills"] < kills * (counts["cuts"] + 1) // cuts + (kills > 0 and not counts["kills"])
            await _round(server, draw, killed, counts)
    finally:
        await server.kill()
    return counts


async def _round(server: Server, draw: random.Random, killed: bool, counts: dict[str, int]) -> None:
    """Start some runs, cut their readers until all have ended, and compare what they have heard with the records."""
    names = [f"r-{counts['runs'] + number}" for number in range(5)]
    readers = [Reader(name) for name in names for _ in range(READERS)]
    async with server.client() as client:
        for name in names:
            await client.post("/runs", json={"agent": "teller", "prompt": name, "run_id": name})

    async def read(reader: Reader) -> None:
        while not reader.ended:
            await reader.connect(server.port, int(draw.expovariate(1 / 1200)))

    reading = asyncio.gather(*map(read, readers))
    if killed:
        await asyncio.sleep(draw.uniform(0.05, 0.25))
        await server.kill()
        await server.start()
        counts["kills"] += 1
        async with server.client() as client:
            for name in names:
                await client.post(f"/runs/{name}/resume", json={})
    await asyncio.wait_for(reading, 60)
    async with server.client() as client:
        for name in names:
            record = (await client.get(f"/runs/{name}/record")).content.splitlines()
            counts["entries"] += len(record)
            for reader in (each for each in readers if each.run_id == name):
                reader.check(record)
    counts["cuts"] += sum(reader.cuts for reader in readers)
    counts["runs"] += len(names)


def main() -> None:
    """Run a storm, or a server of one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cuts", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--serve", type=int, help="the port of a server")
    parser.add_argument("--store")
    options = parser.parse_args()
    if options.serve is not None:
        served = application(options.store)
        asyncio.run(supervised([], 0, lambda ready: server_for(served, "127.0.0.1", options.serve, ready=ready)))
        return
    with tempfile.TemporaryDirectory() as folder:
        counts = asyncio.run(storm(options.cuts, options.kills, options.seed, Path(folder)))
    print(", ".join(f"{name} {count:,}" for name, count in counts.items()), "lost 0, doubled 0")


if __name__ == "__main__":
    main()
