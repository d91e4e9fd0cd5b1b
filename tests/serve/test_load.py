"""What open streams take, by counts: tasks, bytes, and what is left of them when they have ended."""

import asyncio
import gc
import socket
import tracemalloc

from tests.serve.serving import TOKEN, Serving, serving
from tests.serve.test_app import paying
from ziggurat.serve import app

STREAMS = 60
BYTES = 14 * 1024


async def opened(server: Serving, count: int) -> list[socket.socket]:
    """Open streams of the run, and return their connections when each waits for more."""
    loop, connections = asyncio.get_running_loop(), []
    head = f"GET /runs/waits/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
    for _ in range(count):
        connection = socket.socket()
        connection.setblocking(False)
        await loop.sock_connect(connection, ("127.0.0.1", server.port))
        await loop.sock_sendall(connection, head)
        came = b""
        while b"event: waiting" not in came:
            came += await loop.sock_recv(connection, 65536)
        connections.append(connection)
    return connections


async def test_an_open_stream_takes_one_task_and_few_bytes_and_leaves_nothing() -> None:
    async with serving(app([paying([])], token=TOKEN)) as server:
        await server.post("/runs", {"agent": "desk", "prompt": "Pay.", "run_id": "waits"}, 201)
        await server.ended("waits")
        for connection in await opened(server, 3):
            connection.close()
        await server.get("/healthz")
        gc.collect()
        before = len(asyncio.all_tasks())
        tracemalloc.start()
        connections = await opened(server, STREAMS)
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(asyncio.all_tasks()) <= before + 1 + STREAMS  # one reads the run for all
        assert taken <= BYTES * STREAMS
        for connection in connections:
            connection.close()
        async with asyncio.timeout(10):
            while len(asyncio.all_tasks()) > before:
                await server.get("/healthz")
