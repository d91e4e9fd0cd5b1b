"""Changes that a server tells of: they reach the client in both eras, and lists are read anew."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.mcp.serving import http
from tests.mcp.test_calls import ERAS, connected
from ziggurat import ToolError
from ziggurat.mcp import McpClient
from ziggurat.mcp.wire import ServerGone

every_stream = pytest.mark.parametrize(("kind", "era"), [(kind, era) for kind in ("stdio", "http") for era in ERAS])


async def listening(server: McpClient, *uris: str) -> tuple[AsyncIterator[str], "asyncio.Future[str]"]:
    """Return the changes, and the first of them, once the server has said that it tells of them."""
    changes = server.changes(*uris)
    first = asyncio.ensure_future(anext(changes))
    for _ in range(3):
        await server.call("slow")
    return changes, first


@every_stream
async def test_changes_reach_the_client_and_lists_are_read_anew(kind: str, era: str) -> None:
    async with connected(kind, era) as server:
        before = {tool.name for tool in await server.tools()}
        changes, first = await listening(server, "test://a")
        await server.call("change")
        assert await first == "tools"
        assert {tool.name for tool in await server.tools()} - before == {"grown_0"}
        await server.call("touch")
        assert await anext(changes) == "test://a"
        assert (await server.call("grown_0")).text == "grown_0"
        waiting = asyncio.ensure_future(anext(changes))
        await asyncio.sleep(0)
        await server.close()
        with pytest.raises(ServerGone):
            await waiting


@every_stream
async def test_a_reader_that_has_enough_is_told_no_more(kind: str, era: str) -> None:
    async with connected(kind, era) as server:
        _, first = await listening(server, "test://a")
        first.cancel()
        await asyncio.wait([first])
        assert (await server.call("touch")).text == "touch"
        second = asyncio.ensure_future(anext(server.changes()))
        await asyncio.sleep(0)
        await server.call("change")
        assert await second == "tools"


async def test_a_list_is_kept_while_its_server_tells_of_changes() -> None:
    async with connected("stdio", "legacy") as server:
        assert await server.tools() == await server.tools()
        await server.call("change")
        assert "grown_0" in {tool.name for tool in await server.tools()}


@pytest.mark.parametrize("era", ERAS)
async def test_a_stream_that_was_cut_is_asked_for_again(era: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ziggurat.mcp.connection._PAUSE", 0.0)
    async with http(era_=era) as (behind, server):
        _, first = await listening(server, "test://a")
        await behind.stop()
        await behind.start()
        if era == "modern":  # what was missed is told of
            assert await first in ("tools", "test://a")
        else:
            await server.call("change")
            assert await first == "tools"


async def test_a_server_that_does_not_tell_of_changes_says_so() -> None:
    async with http(streams=False) as (_, server):
        with pytest.raises(ToolError):
            await anext(server.changes("test://a"))
