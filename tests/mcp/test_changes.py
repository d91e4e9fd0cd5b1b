"""Changes that a server tells of: lists are read anew, in both eras."""

import asyncio

import pytest

from tests.mcp.serving import http
from tests.mcp.test_calls import ERAS, connected
from ziggurat.mcp import McpClient

every_stream = pytest.mark.parametrize(("kind", "era"), [(kind, era) for kind in ("stdio", "http") for era in ERAS])


async def names(server: McpClient) -> set[str]:
    return {tool.name for tool in await server.tools()}


@every_stream
async def test_lists_are_read_anew_when_they_change(kind: str, era: str) -> None:
    async with connected(kind, era, "ttl=60000") as server:
        for _ in range(3):  # by then it is to be told of changes
            await server.call("slow")
        before = await names(server)
        await server.call("change")
        await server.call("slow")
        assert await names(server) - before == {"grown_0"}
        assert (await server.call("grown_0")).text == "grown_0"


async def test_a_list_is_kept_while_its_server_tells_of_changes() -> None:
    async with connected("stdio", "legacy") as server:
        assert await server.tools() == await server.tools()
        await server.call("change")
        assert "grown_0" in await names(server)


async def test_a_list_is_read_anew_after_its_stream_was_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ziggurat.mcp.connection._PAUSE", 0.0)
    async with http(era_="modern", ttl_="60000") as (behind, server):
        for _ in range(3):
            await server.call("slow")
        before = await names(server)
        await behind.stop()
        behind.server.grown += 1
        await behind.start()
        async with asyncio.timeout(10):
            while await names(server) == before:
                await server.call("slow")
        assert await names(server) - before == {"grown_0"}
