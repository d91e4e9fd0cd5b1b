"""JSON that a model writes, such as the arguments of a call: its limits, its canonical form, and nulls.

The limits are checked before any work is done, so that a person sees exactly what will be executed.
"""

import re
from typing import Any, NoReturn

from ziggurat.core.codec import check_depth
from ziggurat.core.errors import InvalidArguments
from ziggurat.core.visible import escaped_json

MAX_ARGUMENTS = 4_000_000  # characters of JSON that the arguments of one call, or one answer, may have
MAX_CALLS = 1_024  # tool calls that one reply of a model may make; a model that makes more is asked to make fewer

MAX_LONG_NUMBERS = 250
"""Numbers of 20 digits and more in one JSON text. Python's hashes of them can be chosen to be all equal, so that a set
or the keys of a dictionary take the square of their number; those of smaller numbers cannot."""

_MAX_KEY = 60  # characters of a key or a name that are shown in an error


SHORT = 20 * MAX_LONG_NUMBERS  # characters up to which a text cannot be too long for `check_size`

_LONG_NUMBER = re.compile(r"(?<!\w)[0-9]{20,}+(?!\w)", re.ASCII)


def check_size(text: str | bytes, what: str = "the arguments") -> None:
    if len(text) > MAX_ARGUMENTS:
        raise InvalidArguments(
            f"{what} have {len(text):,} characters; at most {MAX_ARGUMENTS:,} are read: send less at a time"
        )
    if len(text) > SHORT:
        whole = text if isinstance(text, str) else text.decode("latin-1")
        if sum(1 for _ in _LONG_NUMBER.finditer(whole)) > MAX_LONG_NUMBERS:
            raise InvalidArguments(
                f"{what} have more than {MAX_LONG_NUMBERS:,} numbers of 20 digits and more: send less at a time"
            )


def unique_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of a JSON text; for the standard library's ``object_pairs_hook``. Takes linear time."""
    result = dict(pairs)
    if len(result) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                quoted = key if len(key) <= _MAX_KEY else f"{key[:_MAX_KEY]}..."
                raise InvalidArguments(f"{quoted}: given more than once; give it once")
            seen.add(key)
    return result


def canonical(arguments: str, name: str = "a call") -> str:
    """Return a JSON object with sorted keys, no spaces, and all characters that a reader could miss as ``\\uXXXX``."""
    # Refused is what parsers could read differently: repeated keys, NaN and infinity, numbers that are too large or too
    # precise, lone surrogates.
    import json

    check_size(arguments, f"the arguments of {name}")
    try:
        check_depth(arguments)
        value = json.loads(
            arguments or "{}", object_pairs_hook=unique_object, parse_constant=_no_number, parse_float=_exact_float
        )
        if not isinstance(value, dict):
            raise ValueError("not an object")
        text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        text.encode()
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise InvalidArguments(f"the arguments of {name} are not a plain JSON object: {error}") from error
    return escaped_json(text, strict=True)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number")


def _exact_float(text: str) -> float:
    from decimal import Decimal

    number = float(text)
    if number - number != 0 or (number == 0 and Decimal(text) != 0):
        raise ValueError(f"{text[:40]} is too large or too small a number")
    if Decimal(text) != Decimal(repr(number)):
        raise ValueError(f"{text[:40]} has too many digits for a number: pass it as text to keep them all")
    return number


_LEVELS = 10


def types_of(node: dict[str, Any]) -> list[str]:
    kinds = node.get("type", [])
    return [kinds] if isinstance(kinds, str) else kinds


def resolved(root: dict[str, Any], node: Any) -> Any:
    for _ in range(20):
        if not isinstance(node, dict) or "$ref" not in node:
            return node
        way, _, name = str(node["$ref"]).rpartition("/")
        if node["$ref"] == "#":
            return root
        node = root.get(way.removeprefix("#/"), {}).get(name) if way in ("#/$defs", "#/definitions") else None
    return None


def takes_null(root: dict[str, Any], schema: Any, depth: int = 0) -> bool:
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
    constants = (
        schema.get("enum", [schema["const"]] if "const" in schema else None) if isinstance(schema, dict) else None
    )
    return constants is None or value is None or value in constants


def text_left_out(text: str, schema: dict[str, Any]) -> str:
    if "null" not in text or len(text) > MAX_ARGUMENTS:
        return text
    import json

    try:
        check_depth(text)
        value = json.loads(text, object_pairs_hook=unique_object)
        read = left_out(value, schema)
        made = text if read == value else json.dumps(read, ensure_ascii=False)
        made.encode()  # fails for half of a surrogate pair
    except (ValueError, RecursionError, InvalidArguments):
        return text
    return made
