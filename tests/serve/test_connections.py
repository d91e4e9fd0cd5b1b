"""Connections whose client takes too long are ended, by a clock; others are not, and nothing is kept of them."""

import asyncio
import json
import socket
from contextlib import suppress
from typing import Literal

import pytest

from tests.serve.serving import TOKEN, Serving, serving
from tests.serve.test_app import paying
from ziggurat import Agent
from ziggurat.models import ScriptedModel
from ziggurat.serve import app
from ziggurat.serve.connections import PATIENCE, Connections
from ziggurat.serve.protocol import MAX_HEAD
from ziggurat.testing import HandClock

HEAD = f"POST /runs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n"
ALIVE = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
UNFINISHED = {
    "nothing": b"",
    "a line": b"GET / HTTP/1.1\r\nHost: loc",
    "headers": HEAD.encode(),
    "a body": f"{HEAD}Content-Length: 100\r\n\r\n{{".encode(),
    "a body in pieces": f"{HEAD}Transfer-Encoding: chunked\r\n\r\n1\r\n{{\r\n".encode(),
    "a second request": ALIVE + b"GET /agents HT",
}


async def moved(clock: HandClock, connections: Connections, server: Serving, waiting: int) -> None:
    """Let time pass until just before the limit, when all are still there, and then beyond it."""
    while connections.waiting < waiting:
        await server.get("/healthz")
    await clock.advance(PATIENCE - 1)
    connections.abort()
    await server.get("/healthz")
    assert connections.waiting == waiting
    await clock.advance(2)


async def ended(reader: asyncio.StreamReader) -> None:
    """Wait until the server has ended a connection, without an answer."""
    async with asyncio.timeout(10):
        with suppress(ConnectionError):  # it had not read all
            assert await reader.read() == b""


async def test_requests_that_do_not_end_are_ended() -> None:
    clock = HandClock()
    connections = Connections(clock)
    async with serving(app([paying([])], token=TOKEN), connections=connections) as server:
        opened = [await asyncio.open_connection("127.0.0.1", server.port) for _ in UNFINISHED]
        for (_, writer), sent in zip(opened, UNFINISHED.values(), strict=True):
            writer.write(sent)
        await opened[-1][0].readuntil(b"}")
        await moved(clock, connections, server, len(UNFINISHED))
        async with asyncio.timeout(10):
            for reader, writer in opened:
                await ended(reader)
                writer.close()
        await server.get("/healthz")
        assert connections.waiting == 0


async def test_a_request_that_comes_byte_by_byte_has_no_more_time_than_another() -> None:
    clock = HandClock()
    connections = Connections(clock)
    async with serving(app([paying([])], token=TOKEN), connections=connections) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        for byte in HEAD.encode()[: int(PATIENCE) + 5]:
            writer.write(bytes([byte]))
            await clock.advance(1)
            connections.abort()
            await server.get("/healthz")
        await ended(reader)
        writer.close()


async def test_a_client_that_reads_nothing_is_ended() -> None:
    clock = HandClock()
    connections = Connections(clock)
    agent = Agent(ScriptedModel("Done."), name="desk")
    async with serving(app([agent], token=TOKEN), connections=connections) as server:
        prompt = "x" * 2**20
        await server.post("/runs", {"agent": "desk", "prompt": prompt, "run_id": "large"}, 201)
        await server.ended("large")
        deaf = socket.socket()
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.setblocking(False)
        await asyncio.get_running_loop().sock_connect(deaf, ("127.0.0.1", server.port))
        path = f"GET /runs/large/record HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
        await asyncio.get_running_loop().sock_sendall(deaf, path.encode())  # the system does not buffer all of it
        await moved(clock, connections, server, 1)
        connections.abort()
        while connections.waiting:
            await server.get("/healthz")
        deaf.close()


@pytest.mark.parametrize("kind", ["url", "header", "headers"])
async def test_a_head_has_a_limit(kind: Literal["url", "header", "headers"]) -> None:
    size = 8 * MAX_HEAD
    sent = {
        "url": "GET /" + "a" * size,
        "header": HEAD + "x: " + "a" * size,
        "headers": HEAD + "x: a\r\n" * (size // 6),
    }
    async with serving(app([paying([])], token=TOKEN)) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(sent[kind].encode())
        await ended(reader)
        writer.close()
        assert json.loads((await server.client.get("/healthz")).content)["status"] == "alive"
