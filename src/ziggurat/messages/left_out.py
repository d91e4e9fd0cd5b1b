"""Fields that are null where their schema takes none: they count as left out.

A provider that enforces a schema strictly writes every field; one that may be left out is then offered as nullable.
"""

import json
from typing import Any

from ziggurat.core.errors import InvalidArguments
from ziggurat.messages.limits import MAX_ARGUMENTS, check_depth, unique_object

_LEVELS = 10


def types_of(node: dict[str, Any]) -> list[str]:
    kinds = node.get("type", [])
    return [kinds] if isinstance(kinds, str) else kinds


def resolved(root: dict[str, Any], node: Any) -> Any:
    """Return a schema, or the one in the document that it refers to; None if there is none."""
    for _ in range(20):
        if not isinstance(node, dict) or "$ref" not in node:
            return node
        way, _, name = str(node["$ref"]).rpartition("/")
        if node["$ref"] == "#":
            return root
        node = root.get(way.removeprefix("#/"), {}).get(name) if way in ("#/$defs", "#/definitions") else None
    return None


def takes_null(root: dict[str, Any], schema: Any, depth: int = 0) -> bool:
    """Return whether null fits a schema of a document, or may fit it."""
    schema = resolved(root, schema)
    if not isinstance(schema, dict) or depth > _LEVELS:
        return True
    members = [*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())]
    if members:
        return any(takes_null(root, each, depth + 1) for each in members)
    if "enum" in schema or "const" in schema:
        return None in schema.get("enum", [schema.get("const")])
    return "null" in types_of(schema) if "type" in schema else "properties" not in schema


def left_out(value: Any, schema: dict[str, Any]) -> Any:
    """Return a value without the fields that are null where a schema takes none: they count as left out."""
    return _left_out(value, schema, schema)


def _left_out(value: Any, schema: Any, root: dict[str, Any]) -> Any:
    if not isinstance(value, (dict, list)):
        return value
    nodes = _members(value, schema, root)
    if isinstance(value, list):
        items = nodes[0].get("items") if nodes else None
        return [_left_out(each, items, root) for each in value]
    kept: dict[str, Any] = {}
    for key, each in value.items():
        if each is not None or not nodes or not all(_may_miss(key, node, root) for node in nodes):
            places = [node.get("properties", {}).get(key, node.get("additionalProperties")) for node in nodes]
            kept[key] = _left_out(each, places[0] if places else None, root)
    return kept


def _may_miss(key: str, node: dict[str, Any], root: dict[str, Any]) -> bool:
    properties = node.get("properties", {})
    return key in properties and key not in node.get("required", ()) and not takes_null(root, properties[key])


def _members(value: dict[str, Any] | list[Any], schema: Any, root: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the schemas that a value may be of: of objects, those with just its keys, or else with all of them."""
    schema = resolved(root, schema)
    if not isinstance(schema, dict):
        return []
    inner = [*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())]
    if not inner:
        return [schema] if isinstance(value, list) == ("items" in schema) else []
    nodes = [node for each in inner for node in _members(value, each, root)]
    if isinstance(value, list):
        return nodes
    nodes = [node for node in nodes if _has_keys_of(node, value)]
    return [node for node in nodes if node["properties"].keys() == value.keys()] or nodes


def _has_keys_of(node: dict[str, Any], value: dict[str, Any]) -> bool:
    properties = node.get("properties", {})
    return all(key in properties and _may_be(properties[key], each) for key, each in value.items())


def _may_be(schema: Any, value: object) -> bool:
    """Return whether a value may be of a schema, judged by its constants alone, which tell the members of a union."""
    constants = (
        schema.get("enum", [schema["const"]] if "const" in schema else None) if isinstance(schema, dict) else None
    )
    return constants is None or value is None or value in constants


def text_left_out(text: str, schema: dict[str, Any]) -> str:
    """Return the text of a JSON value without the fields that count as left out; unchanged if it has none."""
    if "null" not in text or len(text) > MAX_ARGUMENTS:
        return text
    try:
        check_depth(text)
        value = json.loads(text, object_pairs_hook=unique_object)
        read = left_out(value, schema)
        made = text if read == value else json.dumps(read, ensure_ascii=False)
        made.encode()  # fails for half of a surrogate pair
    except (ValueError, RecursionError, InvalidArguments):
        return text
    return made
