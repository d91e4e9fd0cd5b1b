"""Translate JSON Schemas into the subset that the Messages API can enforce."""

from functools import lru_cache
from typing import Any

import msgspec

_KEPT = frozenset({"type", "title", "description", "enum", "const", "default", "required", "$ref"})
_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"})
_MAPS = ("properties", "$defs", "definitions")
_LISTS = {"anyOf": "anyOf", "oneOf": "anyOf", "allOf": "allOf"}
_DROPPED = frozenset({"$schema", "$id", "$comment", "additionalProperties", "discriminator", "examples"})


class _Inexpressible(Exception):
    """Raised for a schema that the subset cannot express."""


def strict_schema(schema: dict[str, Any]) -> bytes | None:
    """Return a schema in the API's subset, as JSON; None if the subset cannot express it (open objects, recursion)."""
    return _strict(msgspec.json.encode(schema))


@lru_cache(maxsize=128)
def _strict(written: bytes) -> bytes | None:
    schema = msgspec.json.decode(written)
    try:
        _refuse_circles(schema)
        return msgspec.json.encode(_node(schema))
    except (_Inexpressible, RecursionError):
        return None


def _node(node: Any) -> dict[str, Any]:
    if not isinstance(node, dict) or not node:
        raise _Inexpressible  # true or {}, which accept anything
    closed: dict[str, Any] = {}
    constraints: list[str] = []
    for name, value in node.items():
        if name in _MAPS:
            closed[name] = {key: _node(each) for key, each in value.items()}
        elif name in _LISTS:
            closed[_LISTS[name]] = [_node(each) for each in value]
        elif name == "items":
            closed[name] = _node(value)
        elif name in _KEPT or (name == "format" and value in _FORMATS) or (name == "minItems" and value in (0, 1)):
            closed[name] = value
        elif name not in _DROPPED:
            constraints.append(f"{name}: {msgspec.json.encode(value).decode()}")
    if "properties" in node or node.get("type") == "object":
        _close(node, closed)
    if constraints:
        closed["description"] = " ".join(filter(None, (node.get("description"), f"({', '.join(constraints)})")))
    return closed


def _close(node: dict[str, Any], closed: dict[str, Any]) -> None:
    """Set `additionalProperties` of an object to false, or raise if the object must allow others."""
    others = node.get("additionalProperties")
    if isinstance(others, dict) or (others is not False and not node.get("properties")):
        raise _Inexpressible
    closed.setdefault("type", "object")
    closed["additionalProperties"] = False


def _refuse_circles(schema: dict[str, Any]) -> None:
    definitions = {**schema.get("$defs", {}), **schema.get("definitions", {})}

    def walk(node: Any, within: tuple[str, ...]) -> None:
        if isinstance(node, list):
            for each in node:
                walk(each, within)
        elif isinstance(node, dict):
            for name, value in node.items():
                if name == "$ref":
                    target = str(value).rpartition("/")[2]
                    if target in within or target not in definitions:
                        raise _Inexpressible
                    walk(definitions[target], (*within, target))
                elif name not in ("$defs", "definitions", "enum", "const", "default"):
                    walk(value, within)

    walk(schema, ())
