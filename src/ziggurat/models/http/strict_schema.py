"""Check whether a provider's strict mode accepts a JSON Schema."""

from typing import Any

_REFUSED = frozenset(
    {"allOf", "not", "dependentRequired", "dependentSchemas", "if", "then", "else", "oneOf", "patternProperties"}
    | {"prefixItems", "uniqueItems", "contains", "minProperties", "maxProperties", "propertyNames", "default"}
)
_SCHEMAS = ("properties", "$defs", "definitions")


def is_strict(schema: Any) -> bool:
    """Return whether strict mode accepts a schema."""
    return isinstance(schema, dict) and schema.get("type") == "object" and _fits(schema)


def _fits(schema: Any) -> bool:
    if not isinstance(schema, dict) or not schema or not _REFUSED.isdisjoint(schema):
        return False
    if schema.get("type") == "object" or "properties" in schema:
        properties = schema.get("properties", {})
        if schema.get("additionalProperties") is not False or set(schema.get("required", ())) != set(properties):
            return False
    inner = [each for name in _SCHEMAS for each in schema.get(name, {}).values()]
    inner += schema.get("anyOf", [])
    if "items" in schema:
        inner.append(schema["items"])
    return all(map(_fits, inner)) and ("type" in schema or not _UNTYPED.isdisjoint(schema))


_UNTYPED = frozenset({"$ref", "anyOf", "enum", "const"})
