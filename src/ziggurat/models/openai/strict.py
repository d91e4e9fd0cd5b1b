"""Which JSON Schemas OpenAI accepts under ``strict``."""

__all__ = ["is_strict"]

from typing import Any

_REFUSED = frozenset({"allOf", "not", "dependentRequired", "dependentSchemas", "if", "then", "else", "oneOf"})


def is_strict(schema: Any) -> bool:
    """Tell whether every object in a schema is closed and needs all of its properties, as ``strict`` demands."""
    if isinstance(schema, list):
        return all(map(is_strict, schema))
    if not isinstance(schema, dict):
        return True
    if _REFUSED & schema.keys():
        return False
    properties = schema.get("properties")
    if schema.get("type") == "object" or isinstance(properties, dict):
        named = properties if isinstance(properties, dict) else {}
        if schema.get("additionalProperties") is not False or set(schema.get("required", ())) != set(named):
            return False
    deeper = [value for name, value in schema.items() if name in ("items", "anyOf", "prefixItems")]
    for name in ("properties", "$defs", "definitions"):
        inner = schema.get(name)
        deeper.extend(inner.values() if isinstance(inner, dict) else ())
    return all(map(is_strict, deeper))
