"""Link: the way to a server, which is connected when it is first needed, and again whenever it was lost."""

import asyncio
from collections.abc import Callable
from typing import Any

from msgspec import Raw

from ziggurat.core.context import Context
from ziggurat.core.errors import ToolError
from ziggurat.core.jsonrpc import JsonRpcError
from ziggurat.core.log import logger
from ziggurat.mcp.connection import Connection
from ziggurat.mcp.http import HttpTransport
from ziggurat.mcp.results import refused
from ziggurat.mcp.settings import Settings
from ziggurat.mcp.stdio import StdioTransport
from ziggurat.mcp.wire import LEGACY, MODERN, Receive, SessionLost, Transport


class Link:
    """One connection per event loop, each made by the first request that needs it."""

    def __init__(self, settings: Settings, changed: Callable[[str], None]) -> None:
        self.settings: Settings = settings
        self._changed = changed
        self._connections: dict[asyncio.AbstractEventLoop, Connection] = {}
        self._known = ""  # the revision that was agreed on the last time

    async def request(self, method: str, params: dict[str, Any], ctx: Context, **more: Any) -> Raw:
        """Make a request; once more if the server has refused it because it does not know the session.

        Raises:
            ToolError: the server cannot be asked, or refused it.
            Timeout: it did not answer in time.
        """
        for tries in (1, 2):
            connection = await self.connection()
            try:
                return await connection.request(method, params, ctx, seconds=self.settings.timeout, **more)
            except SessionLost:
                if tries == 2:
                    raise
            except JsonRpcError as error:
                raise refused(error, self.settings.name) from error
        raise AssertionError("the loop returns or raises")

    async def connection(self) -> Connection:
        """Return the connection of this loop; a new one if it was lost, or if the server is as good as dead."""
        loop = asyncio.get_running_loop()
        connection = self._connections.get(loop)
        if connection is not None and connection.silent and connection.usable and not await connection.check():
            logger.warning("the MCP server %s does not react and is started again", self.settings.name)
            connection.transport.kill()
            await connection.close()
        connection = self._connections.get(loop)
        if connection is None or not connection.usable:
            connection = self._connect(loop)
        try:
            await connection.ready()
        except ToolError:
            known, self._known = self._known, ""
            if not connection.probe_ended_it or known or self.settings.revision:
                raise
            self._known = LEGACY[0]  # it ended because it was asked in the newer way
            connection = self._connect(loop)
            await connection.ready()
        self._known = MODERN if connection.modern else LEGACY[0]
        return connection

    def current(self) -> Connection | None:
        """Return the connection of this loop if there is one."""
        return self._connections.get(asyncio.get_running_loop())

    async def close(self) -> None:
        """Close the connection of this loop."""
        connection = self._connections.pop(asyncio.get_running_loop(), None)
        if connection is not None:
            await connection.close()

    def _connect(self, loop: asyncio.AbstractEventLoop) -> Connection:
        for old in [each for each in self._connections if each.is_closed()]:
            del self._connections[old]
        settings = self.settings

        def transport(receive: Receive, ended: Callable[[], None]) -> Transport:
            name = settings.name
            if settings.url:
                return HttpTransport(name, settings.url, settings.headers, settings.authorization, receive, ended)
            return StdioTransport(name, settings.command, settings.env, settings.folder, receive, ended)

        capabilities: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}}
        if settings.model is not None:
            capabilities["sampling"] = {}
        if settings.roots:
            capabilities["roots"] = {}
        revision = settings.revision or self._known
        connection = Connection(settings.name, transport, capabilities, settings.roots, revision, self._changed)
        self._connections[loop] = connection
        self._changed("")
        return connection
