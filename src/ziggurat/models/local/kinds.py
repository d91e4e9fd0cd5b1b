"""The kind of value that a tool's parameter takes, read from its schema: a place, a number, a message."""

__all__ = ["SchemaParameter", "Want", "parameters_of", "words_of"]

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

Want = Literal[
    "enum",
    "boolean",
    "list",
    "number",
    "expression",
    "request",
    "email",
    "recipient",
    "url",
    "phone",
    "path",
    "month",
    "date",
    "time",
    "when",
    "language",
    "currency",
    "unit",
    "place",
    "name",
    "phrase",
    "message",
    "task",
    "topic",
    "query",
    "title",
    "text",
    "other",
]
"""The kind of value a parameter takes; ``other`` cannot be read from a request (objects, lists of objects)."""

_CUES: tuple[tuple[Want, str], ...] = (
    ("expression", r"\b(?:expression|formula|arithmetic|equation|calculation|sum to)\b"),
    ("request", r"\b(?:what it should do|instructions?|prompt)\b"),
    ("url", r"\b(?:url|uri|link|website|web ?page)\b"),
    ("path", r"\b(?:path|file|filename|folder|directory)\b"),
    ("phone", r"\b(?:phone|telephone|mobile|cell)\b"),
    ("email", r"\b(?:e-?mail)\b"),
    ("recipient", r"\b(?:recipient|addressee|receiver|contact|whom|send to)\b"),
    ("currency", r"\bcurrency|currencies\b"),
    ("unit", r"\b(?:unit|units)\b"),
    ("language", r"\blanguage\b"),
    ("when", r"\b(?:when|deadline|due|datetime|day or time|date or time|date and time|moment)\b"),
    ("month", r"^month\b"),
    ("date", r"\b(?:date|day)\b"),
    ("time", r"\b(?:time|hour|clock)\b"),
    (
        "place",
        (
            r"\b(?:city|cities|town|place|location|country|region|destination|origin|address|airport|station|route|where|room|zone|area"
            r"|timezone|time zone)\b"
        ),
    ),
    ("message", r"\b(?:message|body|content|note|say|comment|reply|announcement|memo)\b"),
    ("task", r"\b(?:task|todo|to-do|reminder|reminded|remember|chore)\b"),
    ("title", r"\b(?:title|event|appointment|meeting|subject|occasion|summary|label)\b"),
    ("query", r"\b(?:query|search|keywords?|question|look for|find out|search terms?)\b"),
    ("topic", r"\b(?:topic|theme|about|headline)\b"),
    ("phrase", r"\b(?:phrase|word|text|sentence|term)\b"),
    (
        "name",
        (
            r"\b(?:name|company|person|restaurant|artist|song|album|movie|film|book|stock|ticker|symbol|brand|team|user"
            r"|customer|who|author|player|product|item|dish)\b"
        ),
    ),
)
_COMPILED = tuple((want, re.compile(pattern, re.IGNORECASE)) for want, pattern in _CUES)
_FORMATS: Mapping[str, Want] = {
    "email": "email",
    "date": "date",
    "time": "time",
    "date-time": "when",
    "uri": "url",
    "url": "url",
    "path": "path",
}
_FROM = re.compile(
    r"\b(?:from|source|origin|start|starts|begin|begins|departure|base|first|sender|old|current|original)\b",
    re.IGNORECASE,
)
_TO = re.compile(r"\b(?:to|into|target|destination|end|ends|arrival|second|recipient|new|goes)\b", re.IGNORECASE)


class SchemaParameter(msgspec.Struct, frozen=True):
    """One parameter of a tool, as described by its schema.

    Attributes:
        name: Its name in the schema.
        schema: Its own schema, with references resolved and null alternatives removed.
        required: Whether a call without it is refused.
        want: The kind of value it takes.
        side: Whether it is the start or the end of a pair: ``"from"``, ``"to"`` or ``""``.
        words: Its name and description in plain words.
    """

    name: str
    schema: Mapping[str, Any]
    required: bool
    want: Want
    side: str
    words: str

    @property
    def choices(self) -> tuple[Any, ...]:
        """The values allowed, if they are listed."""
        if "const" in self.schema:
            return (self.schema["const"],)
        return tuple(self.schema.get("enum", ()))

    @property
    def whole(self) -> bool:
        """Whether only whole numbers are allowed."""
        return bool(self.schema.get("type") == "integer")


def words_of(name: str) -> str:
    """Split an identifier into plain words: ``fromCity`` and ``from_city`` become ``from city``."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    return re.sub(r"[_\-.]+", " ", parted).strip().lower()


def parameters_of(schema: Mapping[str, Any]) -> list[SchemaParameter]:
    """Return the parameters of a tool in the order of its schema."""
    required = schema.get("required") or ()
    return [
        _parameter(name, _resolve(part, schema) if isinstance(part, Mapping) else {}, name in required)
        for name, part in (schema.get("properties") or {}).items()
    ]


def _resolve(part: Mapping[str, Any], root: Mapping[str, Any], depth: int = 0) -> Mapping[str, Any]:
    """Return a schema with references resolved and without null alternatives."""
    if depth > 8:
        return part
    reference = part.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/"):
        target: Any = root
        for step in reference[2:].split("/"):
            target = target.get(step, {}) if isinstance(target, Mapping) else {}
        return _resolve({**target, **{key: value for key, value in part.items() if key != "$ref"}}, root, depth + 1)
    options = part.get("anyOf") or part.get("oneOf")
    rest = {key: value for key, value in part.items() if key not in ("anyOf", "oneOf", "allOf")}
    if isinstance(options, Sequence):
        real = [option for option in options if option.get("type") != "null"]
        if real:
            return {**_resolve(real[0], root, depth + 1), **rest}
    if len(part.get("allOf", ())) == 1:
        return {**_resolve(part["allOf"][0], root, depth + 1), **rest}
    kind = part.get("type")
    if isinstance(kind, list):
        return {**part, "type": next((option for option in kind if option != "null"), "string")}
    return part


def _parameter(name: str, schema: Mapping[str, Any], required: bool) -> SchemaParameter:
    plain = words_of(name)
    description = str(schema.get("description", "")).strip()
    words = f"{plain}: {description}" if description else plain
    side = "from" if _FROM.search(plain) else "to" if _TO.search(plain) else ""
    if not side:
        side = "from" if _FROM.search(description) else "to" if _TO.search(description) else ""
    return SchemaParameter(
        name=name, schema=schema, required=required, want=_want(plain, description, schema), side=side, words=words
    )


def _want(plain: str, description: str, schema: Mapping[str, Any]) -> Want:
    if "enum" in schema or "const" in schema:
        return "enum"
    kind = schema.get("type", "string")
    if kind in ("integer", "number"):
        return "number"
    if kind == "boolean":
        return "boolean"
    if kind == "array" and schema.get("items", {}).get("type", "string") in ("string", "number", "integer"):
        return "list"
    if kind != "string":
        return "other"
    if schema.get("format") in _FORMATS:
        return _FORMATS[schema["format"]]
    # The start of a description says more than its end ("Name of the city", "Day or time of the reminder"), and a
    # significant name is preferred to a description.
    for text in (plain, description.split(",")[0].split(" such as ")[0]):
        for want, pattern in _COMPILED:
            if pattern.search(text):
                return want
    return "text"
