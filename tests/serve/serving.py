"""A real server in this process, for tests of what it answers."""

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import httpx

from ziggurat.cli.serve import server_for
from ziggurat.serve.application import ServedApp

TOKEN = "a-token-for-tests-only"


class Serving:
    """A server that listens, and a client that shows its token."""

    def __init__(self, application: ServedApp, port: int) -> None:
        self.application = application
        self.port = port
        self.address = f"http://127.0.0.1:{port}"
        self.client = httpx.AsyncClient(
            base_url=self.address, headers={"Authorization": f"Bearer {application.token}"}, timeout=20
        )

    async def post(self, path: str, content: object = None, status: int = 200) -> Any:
        reply = await self.client.post(path, json={} if content is None else content)
        assert reply.status_code == status, reply.text
        return reply.json()

    async def get(self, path: str, status: int = 200) -> Any:
        reply = await self.client.get(path)
        assert reply.status_code == status, reply.text
        return reply.json()

    async def events(self, path: str, after: str = "") -> AsyncGenerator[tuple[str, str, Any], None]:
        """Yield the id, name and data of each event of a stream."""
        async with self.client.stream("GET", path, headers={"Last-Event-ID": after} if after else None) as reply:
            assert reply.status_code == 200
            fields: dict[str, str] = {}
            async for line in reply.aiter_lines():
                name, _, value = line.partition(": ")
                if name:
                    fields[name] = value
                elif "event" in fields:
                    yield fields.get("id", ""), fields["event"], json.loads(fields["data"])
                    fields = {}

    async def ended(self, run_id: str) -> Any:
        """Wait until a run has ended or waits, and return what the server knows of it."""
        return await self.until(run_id, "waiting", "end")

    async def until(self, run_id: str, *names: str) -> Any:
        """Read the events of a run up to one with such a name, and return what the server knows of the run."""
        async with aclosing(self.events(f"/runs/{run_id}/events")) as events:
            async for _, name, _ in events:
                if name in names:
                    break
        return await self.get(f"/runs/{run_id}")


@asynccontextmanager
async def serving(application: ServedApp, port: int = 0, grace: float = 0.0) -> AsyncIterator[Serving]:
    """Serve an application on this machine, by default at a free port; runs have `grace` to end with it."""
    application.agents.grace = grace
    listener = socket.create_server(("127.0.0.1", port))
    server = server_for(application, "127.0.0.1", 0)
    task = asyncio.ensure_future(server.serve(sockets=[listener]))
    here = Serving(application, listener.getsockname()[1])
    try:
        yield here
    finally:
        await here.client.aclose()
        if task.cancel():  # at once, and not at its next tick
            await asyncio.wait([task])
            await server.shutdown(sockets=[listener])
        else:
            await task
