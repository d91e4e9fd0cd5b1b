"""The headers of requests over HTTP that repeat what is in the body, so that proxies need not read it."""

import re
from base64 import b64decode, b64encode
from binascii import Error as NoBase64
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from msgspec import Struct

_ANNOTATION = "x-mcp-header"
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_TYPES = ("string", "integer", "boolean")
_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri", "tasks/get": "taskId"}
_NAMED |= {"tasks/update": "taskId", "tasks/cancel": "taskId"}


def header_value(value: str) -> str:
    """Return a value as headers have it: as it is, or in Base64 if it would not be safe."""
    plain = value.isascii() and value.isprintable() and value == value.strip()
    if plain and not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    return f"=?base64?{b64encode(value.encode('utf-8', 'replace')).decode()}?="


def read_value(header: str) -> str:
    header = header.strip(" \t")
    if header.startswith("=?base64?") and header.endswith("?="):
        with suppress(NoBase64, UnicodeDecodeError):
            return b64decode(header[9:-2], validate=True).decode()
    return header


def mirrored(method: str, params: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    name = params.get(_NAMED.get(method, ""))
    named = (("mcp-name", header_value(name)),) if isinstance(name, str) else ()
    return (("mcp-method", method), *named)


class HeaderOf(Struct, frozen=True):
    path: tuple[str, ...]
    name: str

    def values(self, arguments: Any) -> list[tuple[str, str]]:
        value = arguments
        for step in self.path:
            value = value.get(step) if isinstance(value, dict) else None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, (str, int)):
            return []
        text = str(value).lower() if isinstance(value, bool) else str(value)
        return [(self.key, header_value(text))]

    @property
    def key(self) -> str:
        return f"mcp-param-{self.name.lower()}"


def headers_in(schema: dict[str, Any]) -> tuple[HeaderOf, ...]:
    found: dict[str, HeaderOf] = {}
    waiting: list[tuple[Any, tuple[str, ...] | None]] = [(schema, ())]
    while waiting:
        node, path = waiting.pop()
        if isinstance(node, list):
            waiting += [(each, None) for each in node]
            continue
        if not isinstance(node, dict):
            continue
        if _ANNOTATION in node and path != ():  # of the root it is a property of that name, or nothing
            header = _checked(node, path)
            if header.name.lower() in found:
                raise ValueError(f"two arguments want the header {header.name!r}")
            found[header.name.lower()] = header
        for key, value in node.items():
            if key == "properties" and isinstance(value, dict):
                waiting += [(each, None if path is None else (*path, name)) for name, each in value.items()]
            elif key not in ("default", "const", "enum", "examples", _ANNOTATION):
                waiting.append((value, None))
    return tuple(found.values())


def _checked(node: dict[str, Any], path: tuple[str, ...] | None) -> HeaderOf:
    name = node[_ANNOTATION]
    if path is None:
        raise ValueError(f"{_ANNOTATION} is only allowed for arguments and their properties")
    if not isinstance(name, str) or not _TOKEN.fullmatch(name):
        raise ValueError(f"{name!r:.60} cannot be a part of a header's name")
    if node.get("type") not in _TYPES:
        raise ValueError(f"{'.'.join(path)}: only text, whole numbers and booleans can be in a header")
    return HeaderOf(path, name)
