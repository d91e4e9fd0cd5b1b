"""The cost of durability in PostgreSQL: time per step compared with a bare INSERT on the same server, throughput.

Run it from the root of the project as ``python -m benchmarks.durable_postgres``, with ZIGGURAT_POSTGRES set to the
address of a server; without it, the server of the tests is started.
"""

import asyncio
import os
import statistics
import time
from typing import Any

import asyncpg
from benchmarks.durable import REPLY, timed

from ziggurat.databases.postgres import PostgresAddress
from ziggurat.stores.postgres import PostgresStore


async def bare(connection: Any, commits: int) -> float:
    """Return the seconds per commit of one row with the driver alone."""
    began = time.perf_counter()
    for _ in range(commits):
        await connection.execute("INSERT INTO bare (data) VALUES ($1)", REPLY.encode())
    return (time.perf_counter() - began) / commits


async def measure(url: str) -> None:
    """Print the figures, measured alternately."""
    store = PostgresStore(url)
    await store.logs()
    connection = await asyncpg.connect(PostgresAddress.of(url).secret, server_settings={"synchronous_commit": "on"})
    await connection.execute("CREATE TABLE IF NOT EXISTS bare (n bigserial PRIMARY KEY, data bytea)")
    steps, ours, floors, many = 100, [], [], []
    for _ in range(7):
        without = await timed(steps, 1, None)
        ours.append((await timed(steps, 1, store) - without) / steps)
        floors.append(await bare(connection, 100))
        many.append(2000 / await timed(20, 100, store))
    mine, floor = statistics.median(ours) * 1e3, statistics.median(floors) * 1e3
    print(f"one run: {mine:.3f} ms per step of a model and a tool")
    print(f"a bare INSERT and commit: {floor:.3f} ms; ratio {mine / floor:.1f}")
    print(f"100 runs at once: {statistics.median(many):.0f} steps/s; {1000 / statistics.median(many):.3f} ms per step")
    await connection.execute("DROP TABLE bare")
    await connection.close()
    await store.vacuum(time.time() + 1, unfinished=True)
    await store.close()


def main() -> None:
    """Measure the server of ZIGGURAT_POSTGRES, or one started for this."""
    url = os.environ.get("ZIGGURAT_POSTGRES")
    if url is not None:
        asyncio.run(measure(url))
        return
    from tests.stores.server import PostgresServer

    server = PostgresServer(flushes=True)
    try:
        asyncio.run(measure(server.url))
    finally:
        server.remove()


if __name__ == "__main__":
    main()
