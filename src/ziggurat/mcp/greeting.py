"""The beginning of a connection: which era the server is of, and what it can do."""

from typing import Any, Protocol

from msgspec import Raw

from ziggurat.core.context import Context, root
from ziggurat.core.errors import Timeout, ToolError
from ziggurat.core.jsonrpc import JsonRpcError, Notification, parse
from ziggurat.core.log import logger
from ziggurat.mcp.wire import LEGACY, MODERN, MODERN_ERRORS, TASKS, UNSUPPORTED_VERSION, ServerInfo, Transport

_ABOUT = {"name": "ziggurat", "version": "0"}
_PREFIX = "io.modelcontextprotocol/"
_PROBE = 10.0
"""Seconds in which a server of the newer era answers the first request; others may say nothing."""

_HANDSHAKE = 30.0


class Greeter(Protocol):
    """A connection that begins."""

    name: str
    transport: Transport
    meta: dict[str, Any]
    probe_ended_it: bool

    async def request(self, method: str, params: dict[str, Any], ctx: Context, *, seconds: float) -> Raw:
        """Make a request."""
        ...


async def greet(connection: Greeter, capabilities: dict[str, Any], wanted: str) -> ServerInfo:
    """Agree on a revision, and return what the server says of itself.

    Raises:
        ToolError, JsonRpcError, Timeout: the server cannot be asked, or has no revision that is known here.
    """
    transport = connection.transport
    if wanted in ("", MODERN):
        try:
            info = await _discover(connection, capabilities)
            if MODERN in info.supported_versions:
                return info
        except (JsonRpcError, Timeout, ToolError) as error:
            connection.probe_ended_it = transport.gone
            if wanted == MODERN or transport.gone or _is_final(error):
                raise
            logger.debug("the MCP server %s is of the older era: %s", connection.name, error)
    transport.revision, connection.meta = "", {}
    return await _initialize(connection, capabilities, wanted or LEGACY[0])


async def _discover(connection: Greeter, capabilities: dict[str, Any]) -> ServerInfo:
    connection.transport.revision = MODERN
    connection.meta = {
        f"{_PREFIX}protocolVersion": MODERN,
        f"{_PREFIX}clientInfo": _ABOUT,
        f"{_PREFIX}clientCapabilities": {**capabilities, "extensions": {TASKS: {}}},
    }
    try:
        result = await connection.request("server/discover", {}, root("mcp"), seconds=_PROBE)
    except JsonRpcError as error:
        if error.code != UNSUPPORTED_VERSION or MODERN not in _offered(error):
            raise
        result = await connection.request("server/discover", {}, root("mcp"), seconds=_PROBE)
    return parse(result, ServerInfo)


async def _initialize(connection: Greeter, capabilities: dict[str, Any], revision: str) -> ServerInfo:
    params = {"protocolVersion": revision, "capabilities": capabilities, "clientInfo": _ABOUT}
    info = parse(await connection.request("initialize", params, root("mcp"), seconds=_HANDSHAKE), ServerInfo)
    if info.protocol_version not in LEGACY:
        raise ToolError(
            f"the MCP server {connection.name} speaks the revision {info.protocol_version!r:.40}, which is unknown here"
        )
    connection.transport.revision = info.protocol_version
    await connection.transport.tell(Notification("notifications/initialized"))
    return info


def _offered(error: JsonRpcError) -> list[object]:
    """Return the revisions that a server names when it refuses one."""
    found = error.data.get("supported") if isinstance(error.data, dict) else None
    return found if isinstance(found, list) else []


def _is_final(error: JsonRpcError | Timeout | ToolError) -> bool:
    """Return whether a server that answered the first request with an error is not to be asked in the older way."""
    if isinstance(error, JsonRpcError):
        return error.code in MODERN_ERRORS and not any(each in LEGACY for each in _offered(error))
    return isinstance(error, ToolError) and error.kind in ("transient", "denied")
