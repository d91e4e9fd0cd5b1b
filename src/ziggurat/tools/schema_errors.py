"""Write JSON Schema errors in the same wording as the errors of typed tools."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ziggurat.core.similar import similar
from ziggurat.tools.arguments import expectation, shown

if TYPE_CHECKING:
    import jsonschema_rs

MAX_LINE = 300
"""Characters of one problem's text."""

_MISSING = ": missing (required)"
_MAX_STEP = 60
_MAX_ARMS = 5
_MAX_HINTS = 20
_MAX_KNOWN = 200

_LIMITS = {
    "minimum": "at least {}", "maximum": "at most {}", "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}", "multipleOf": "a multiple of {}",
}  # fmt: skip
_SIZES = {
    "minLength": "at least {} characters", "maxLength": "at most {} characters", "minItems": "at least {} items",
    "maxItems": "at most {} items", "minProperties": "at least {} names", "maxProperties": "at most {} names",
    "additionalItems": "at most {} items",
}  # fmt: skip


def schema_errors(errors: "Iterable[jsonschema_rs.ValidationError]", schema: Any, most: int) -> list[str]:
    """Return one line per problem, missing names last; after `most` lines, one that counts the rest."""
    problems: dict[str, None] = {}
    for error in errors:
        problems.update(dict.fromkeys(_lines(error, schema if len(problems) < most else None)))
    lines = sorted(problems, key=lambda line: line.endswith(_MISSING))
    listed = [_short(line, MAX_LINE) for line in lines[:most]]
    if len(lines) > most:
        listed.append(f"and {len(lines) - most} more")
    return listed


def _lines(error: "jsonschema_rs.ValidationError", schema: Any) -> list[str]:
    """Return the lines for one error; pass None as the schema to skip hints, which are slow."""
    path = error.instance_path
    kind: Any = error.kind
    name = kind.name
    match name:
        case "required":
            return [f"{_path([*path, kind.property])}{_MISSING}"]
        case "additionalProperties" | "unevaluatedProperties":
            known = _known(schema, error.schema_path)
            return [
                f"{_path([*path, name])}: {_unknown(name, known if place < _MAX_HINTS else [], nested=bool(path))}"
                for place, name in enumerate(kind.unexpected)
            ]
        case "falseSchema":
            return [f"{_path(path)}: not allowed, leave it out"]
        case "anyOf" | "oneOf":
            return _no_alternative(error, schema)
    return [f"{_path(path)}: {_sentence(name, kind, error.instance)}"]


def _sentence(name: str, kind: Any, value: object) -> str:
    """Return what was expected of a value, and what it was."""
    if name in _LIMITS:
        return f"expected {_LIMITS[name].format(shown(kind.value))}, got {shown(value)}"
    if name in _SIZES and isinstance(value, (str, list, dict)):
        return f"expected {_SIZES[name].format(kind.limit)}, got {len(value)}"
    match name:
        case "type":
            types = sorted(kind.types, key=lambda each: each == "null")
            return f"expected {' or '.join(expectation({'type': each}) for each in types)}, got {shown(value)}"
        case "enum":
            return f"expected {expectation({'enum': kind.options})}, got {shown(value)}"
        case "const":
            return f"expected {shown(kind.expected_value)}, got {shown(value)}"
        case "pattern" if hasattr(kind, "pattern"):
            return f"expected a text that matches {_short(kind.pattern, 100)}, got {shown(value)}"
        case "uniqueItems":
            return "expected no item twice"
        case "contains":
            return "too few or too many of its items are of the kind that must be in it"
        case "unevaluatedItems":
            return f"has items that are not allowed: {len(kind.unexpected)} of {shown(value)}"
        case "propertyNames":
            return f"the name {shown(kind.error.instance)} does not fit: " + _sentence(
                kind.error.kind.name, kind.error.kind, kind.error.instance
            )
        case "not":
            return f"is what is not allowed here, got {shown(value)}"
    return f"does not fit {name!r}, got {shown(value)}"


def _no_alternative(error: "jsonschema_rs.ValidationError", schema: Any) -> list[str]:
    """Return why no alternative fits, or that too many do; explains only alternatives whose type fits."""
    arms: list[list[Any]] = error.kind.context  # type: ignore[attr-defined]
    path, actual = _path(error.instance_path), shown(error.instance)
    if type(error.kind).__name__ == "OneOfMultipleValid":
        return [f"{path}: fits more than one of {len(arms)} alternatives, expected exactly one; got {actual}"]
    types = [each.kind.types for arm in arms for each in arm if _is_of_type(each, error)]
    candidates = [arm for arm in arms if not any(_is_of_type(each, error) for each in arm)]
    if not candidates:
        expected = dict.fromkeys(sorted((each for names in types for each in names), key=lambda each: each == "null"))
        return [f"{path}: expected {' or '.join(expectation({'type': each}) for each in expected)}, got {actual}"]
    if len(candidates) == 1:
        return [line for each in candidates[0] for line in _lines(each, schema)]
    room = MAX_LINE // min(len(candidates), _MAX_ARMS) - 10
    texts = ["; ".join(line for each in arm[:3] for line in _lines(each, schema)) for arm in candidates[:_MAX_ARMS]]
    return [f"{path}: fits none of the alternatives: {' | '.join(_short(text, room) for text in texts)}"]


def _is_of_type(inner: Any, error: "jsonschema_rs.ValidationError") -> bool:
    return bool(inner.kind.name == "type" and inner.instance_path == error.instance_path)


def _unknown(name: str, known: list[str], *, nested: bool) -> str:
    hint = "".join(f", did you mean {guess}?" for guess in similar(name, known))
    return f"unknown {'field' if nested else 'parameter'}{hint}"


def _known(schema: Any, path: list[str | int]) -> list[str]:
    """Return the property names of the object at a path in the schema; empty if not found, or if too many."""
    for step in path[:-1]:
        inner = isinstance(schema, dict) or (isinstance(schema, list) and isinstance(step, int))
        try:
            schema = schema[step] if inner else None
        except (KeyError, IndexError):
            return []
    named = schema.get("properties") if isinstance(schema, dict) else None
    return list(named) if isinstance(named, dict) and len(named) <= _MAX_KNOWN else []


def _path(steps: list[str | int]) -> str:
    """Return a path in the style of typed tools: ``trip.legs[0].city``, or ``arguments`` for the whole."""
    text = ""
    for step in steps:
        text += f"[{step}]" if isinstance(step, int) else f".{_short(step, _MAX_STEP)}"
    return text.removeprefix(".") or "arguments"


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."
