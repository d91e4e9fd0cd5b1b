"""Schemas in the parts of JSON Schema that providers enforce."""

from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct

from ziggurat.messages.arguments import resolved, takes_null, types_of

_TEXTS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})
_ANNOTATED = frozenset({"type", "title", "description", "enum", "const", "$ref"})


class SchemaSubset(Struct, frozen=True):
    """The part of JSON Schema that a provider enforces."""

    kept: frozenset[str]  # the keywords that it knows; others go into the description
    formats: frozenset[str] = _TEXTS
    all_required: bool = False
    """Whether each field of an object must be required: one that may be left out becomes nullable, and an object that
    is open by its own words cannot be expressed. A schema may refer to itself then."""


ANTHROPIC = SchemaSubset(_ANNOTATED | {"default", "required"}, _TEXTS | {"uri"})
"""Structured outputs of the Messages API."""

OPENAI = SchemaSubset(
    _ANNOTATED | {"multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "maxItems"},
    all_required=True,
)
"""Strict mode of OpenAI: tools and structured outputs."""

_MAPS = ("properties", "$defs", "definitions")
_LISTS = {"anyOf": "anyOf", "oneOf": "anyOf", "allOf": "allOf"}
_DROPPED = frozenset(
    {"$schema", "$id", "$comment", "additionalProperties", "discriminator", "examples", "example", "required"}
)
_NEVER = frozenset({"patternProperties", "prefixItems", "if", "then", "else", "not", "$dynamicRef", "dependentSchemas"})
_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
_KNOWN = frozenset({*_TYPES.values(), "object", "array"})
_LEVELS, _FIELDS, _CHOICES = 10, 5_000, 1_000  # of OpenAI


class _Inexpressible(Exception): ...


def strict_schema(schema: dict[str, Any], subset: SchemaSubset = ANTHROPIC) -> bytes | None:
    """Return a schema in a subset, as JSON; None if the subset cannot express it without changing its meaning."""
    return _strict(msgspec.json.encode(schema), subset)


@lru_cache(maxsize=512)
def _strict(written: bytes, subset: SchemaSubset) -> bytes | None:
    schema = msgspec.json.decode(written)
    try:
        if not subset.all_required:
            _refuse_circles(schema)
        writer = _Writer(schema, subset)
        node = writer.node(schema)
    except (_Inexpressible, RecursionError):
        return None
    if subset.all_required and (node.get("type") != "object" or writer.fields > _FIELDS or writer.choices > _CHOICES):
        return None
    return msgspec.json.encode(node)


class _Writer:
    def __init__(self, root: dict[str, Any], subset: SchemaSubset) -> None:
        self._root = root
        self._subset = subset
        self.fields = self.choices = 0

    def node(self, node: Any, level: int = 0) -> dict[str, Any]:
        subset = self._subset
        if not isinstance(node, dict) or not node:
            raise _Inexpressible  # true or {}, which accept anything
        if subset.all_required:
            node = self._plain(node, level)
        closed: dict[str, Any] = {}
        constraints: list[str] = []
        for name, value in node.items():
            if name in _MAPS:
                closed[name] = {key: self.node(each, level + 1) for key, each in value.items()}
            elif name in _LISTS:
                closed[_LISTS[name]] = [self.node(each, level) for each in value]
            elif name == "items":
                closed[name] = self.node(value, level + 1)
            elif self._knows(name, value):
                closed[name] = value
            elif name not in _DROPPED and not (name == "default" and value is None):
                constraints.append(f"{name}: {msgspec.json.encode(value).decode()}")
        if "properties" in node or node.get("type") == "object":
            self._close(node, closed, level)
        if constraints:
            closed["description"] = " ".join(filter(None, (node.get("description"), f"({', '.join(constraints)})")))
        return closed

    def _knows(self, name: str, value: Any) -> bool:
        subset = self._subset
        if name == "format":
            return value in subset.formats
        if name == "minItems":
            return subset.all_required or value in (0, 1)
        if name == "pattern":
            return subset.all_required and "(?" not in value
        return name in subset.kept

    def _plain(self, node: dict[str, Any], level: int) -> dict[str, Any]:
        """Return a schema that has a type, or raise if it has none or says what strict mode cannot."""
        if level > _LEVELS or not _NEVER.isdisjoint(node):
            raise _Inexpressible
        parts = node.get("allOf")
        if isinstance(parts, list):
            if len(parts) != 1 or not isinstance(parts[0], dict):
                raise _Inexpressible
            node = {**parts[0], **{name: value for name, value in node.items() if name != "allOf"}}
        if "$ref" in node:
            if resolved(self._root, node) is None:
                raise _Inexpressible
            beside: dict[str, Any] = {name: node[name] for name in ("description", "default") if name in node}
            return {**beside, "anyOf": [{"$ref": node["$ref"]}]} if beside else {"$ref": node["$ref"]}
        choices = node.get("enum") or ([node["const"]] if "const" in node else [])
        self.choices += len(choices)
        if "properties" in node and "type" not in node:
            node = {"type": "object", **node}
        elif choices and "type" not in node:
            kinds = list(dict.fromkeys(_TYPES.get(type(each), "") for each in choices))
            node = {"type": kinds[0] if len(kinds) == 1 else kinds, **node}
        types = types_of(node)
        unions = [name for name in ("anyOf", "oneOf") if name in node]
        if len(unions) + bool(types) != 1 or not _KNOWN.issuperset(types) or ("array" in types and "items" not in node):
            raise _Inexpressible
        return node

    def _close(self, node: dict[str, Any], closed: dict[str, Any], level: int) -> None:
        """Set `additionalProperties` of an object to false, or raise if the object must allow others."""
        others = node.get("additionalProperties")
        named = node.get("properties") or ("properties" in node and level == 0 and self._subset.all_required)
        if isinstance(others, dict) or (others is not False and not named):
            raise _Inexpressible
        closed.setdefault("type", "object")
        closed["additionalProperties"] = False
        if self._subset.all_required:
            properties = node.get("properties", {})
            if others is True or not set(node.get("required", ())) <= set(properties):
                raise _Inexpressible
            self.fields += len(properties)
            for name in set(properties) - set(node.get("required", ())):
                closed["properties"][name] = self._nullable(properties[name], closed["properties"][name])
            closed.setdefault("properties", {})
            closed["required"] = list(properties)

    def _nullable(self, schema: Any, closed: dict[str, Any]) -> dict[str, Any]:
        """Return the schema of a field that is null if it is left out, or raise if null means something else."""
        if takes_null(self._root, schema):
            if schema.get("default") is not None:
                raise _Inexpressible
            return closed
        if "anyOf" in closed:
            return {**closed, "anyOf": [*closed["anyOf"], {"type": "null"}]}
        if closed.keys() & {"$ref", "const", "enum"}:
            said: dict[str, Any] = {name: closed.pop(name) for name in ("title", "description") if name in closed}
            return {**said, "anyOf": [closed, {"type": "null"}]}
        return {**closed, "type": [*types_of(closed), "null"]}


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
