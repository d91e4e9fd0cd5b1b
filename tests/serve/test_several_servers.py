"""Four servers on one PostgreSQL: a run that one of them drives is followed, decided, steered and cancelled at all."""

import asyncio
import random
from typing import Any

import pytest

from tests.samples import LONG
from tests.serve.cuts import Reader, Server
from tests.stores.server import schema

SERVERS = 4


class Servers:
    """The processes, some of which may be killed."""

    def __init__(self, draw: random.Random) -> None:
        url = schema()
        self.all = [Server(url) for _ in range(SERVERS)]
        self.alive = list(self.all)
        self._draw = draw

    async def ask(self, method: str, path: str, content: object = None, server: Server | None = None) -> Any:
        """Send a request to one of them, by default to any, and return the answer."""
        async with (server or self._draw.choice(self.alive)).client() as client:
            reply = await client.request(method, path, json=content)
        assert reply.status_code in (200, 201), reply.text
        return reply.json() if reply.headers["content-type"] == "application/json" else reply.content

    async def until(self, run_id: str, *statuses: str) -> Any:
        """Ask any of them until a run has one of these statuses."""
        reader = Reader(run_id)
        while (run := await self.ask("GET", f"/runs/{run_id}"))["status"] not in statuses:
            await reader.connect(self._draw.choice(self.alive).port, 500)
        return run

    async def follow(self, reader: Reader) -> Reader:
        """Follow a run at any of them, and at another one if that is killed."""
        while not reader.ended:
            await reader.connect(self._draw.choice(self.alive).port, 1_000_000)
        return reader


async def trial(seed: int) -> None:
    draw = random.Random(seed)
    servers = Servers(draw)
    await asyncio.gather(*(server.start() for server in servers.all))
    try:
        tales = {f"slow-{number}": servers.all[number % SERVERS] for number in range(8)}
        await asyncio.gather(
            *(
                servers.ask("POST", "/runs", {"agent": "teller", "prompt": name, "run_id": name}, server)
                for name, server in tales.items()
            )
        )
        readers = [Reader(name) for name in tales for _ in range(3)]
        reading = asyncio.gather(*map(servers.follow, readers))
        await servers.ask("POST", "/runs/slow-0/inject", {"text": "Faster."}, servers.all[1])
        await servers.ask("POST", "/runs/slow-1/cancel", {}, servers.all[2])

        bill = {"agent": "desk", "prompt": "Pay.", "run_id": "bill"}
        await servers.ask("POST", "/runs", bill, servers.all[1])
        [item] = (await servers.until("bill", "Suspended"))["pending"]
        decision = {"decisions": [{"id": item["id"], "action": "approve"}]}
        await servers.ask("POST", "/runs/bill/decisions", decision, servers.all[3])
        assert (await servers.until("bill", "Completed"))["output"] == "Paid."

        dead = servers.all[3]
        servers.alive.remove(dead)
        await dead.kill()
        for name in (name for name, server in tales.items() if server is dead):
            if (await servers.ask("GET", f"/runs/{name}"))["status"] == "running":
                await servers.ask("POST", f"/runs/{name}/resume", {})
        await asyncio.wait_for(reading, 60)
        for name in tales:
            run = await servers.until(name, "Completed", "Cancelled")
            assert name == "slow-1" or run["status"] == "Completed"
            record = (await servers.ask("GET", f"/runs/{name}/record")).splitlines()
            assert ("Faster." in str(record)) == (name == "slow-0")
            for reader in (each for each in readers if each.run_id == name):
                reader.check(record, from_begin=False)
    finally:
        await asyncio.gather(*(server.kill() for server in servers.alive))


@pytest.mark.skipif(not LONG, reason="four processes")
async def test_four_servers_on_one_database_are_one() -> None:
    await trial(1)
