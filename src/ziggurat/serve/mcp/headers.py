"""The headers of a request by HTTP that repeat what its body says, for proxies."""

from base64 import b64decode
from binascii import Error as NoBase64
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ziggurat.core.jsonrpc import JsonRpcError
from ziggurat.serve.mcp.caller import HEADER_MISMATCH, PREFIX, Params
from ziggurat.serve.mcp.contents import Json

VERSION = "mcp-protocol-version"
_NAMED = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "task_id",
    "tasks/update": "task_id",
    "tasks/cancel": "task_id",
}
"""The parameter that the header Mcp-Name repeats, by method."""


def check_headers(headers: Mapping[str, str], method: str, params: Params, schema: Json | None) -> None:
    """Check the headers of a request, by which proxies decide, against its body."""
    version = params.meta.get(PREFIX + "protocolVersion")
    if not isinstance(version, str):
        return  # which is refused for itself
    expected = {VERSION: version, "mcp-method": method}
    if method in _NAMED:
        expected["mcp-name"] = getattr(params, _NAMED[method])
    for name, value in expected.items():
        found = headers.get(name)
        if found is None or _decoded(found) != value:
            why = "is missing" if found is None else f"does not match {value[:100]!r} of the body"
            raise JsonRpcError(f"the header {name} {why}", HEADER_MISMATCH)
    for name, value in _mirrored(schema or {}, params.arguments):
        found = headers.get(f"mcp-param-{name}")
        if (found is None) != (value is None) or (found is not None and not _is_same(_decoded(found), value)):
            raise JsonRpcError(f"the header Mcp-Param-{name} does not match the argument", HEADER_MISMATCH)


def _decoded(value: str) -> str:
    """Return the value of a header, which may be encoded."""
    value = value.strip(" \t")
    if value.startswith("=?base64?") and value.endswith("?="):
        with suppress(NoBase64, UnicodeDecodeError):
            return b64decode(value[9:-2], validate=True).decode()
    return value


def _mirrored(schema: Json, arguments: Json) -> "list[tuple[str, Any]]":
    """Return the headers that a tool wants some arguments in, with the arguments."""
    found: list[tuple[str, Any]] = []
    for name, field in schema.get("properties", {}).items():
        if "x-mcp-header" in field:
            found.append((str(field["x-mcp-header"]).lower(), arguments.get(name)))
        inner = arguments.get(name)
        if isinstance(field.get("properties"), dict):
            found += _mirrored(field, inner if isinstance(inner, dict) else {})
    return found


def _is_same(found: str, value: object) -> bool:
    if isinstance(value, bool):
        return found == ("true" if value else "false")
    if isinstance(value, int | float):
        with suppress(ValueError):
            return float(found) == value
        return False
    return found == value
