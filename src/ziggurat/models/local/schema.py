"""The tools that a request offers, and the values that a JSON Schema asks for: arguments, or fields of output."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from ziggurat.core.errors import ConfigurationError
from ziggurat.messages.arguments import resolved
from ziggurat.messages.model import ModelRequest, ToolSpec

Kind = Literal["choice", "boolean", "number", "text", "other"]
_KINDS: Mapping[str, Kind] = {
    "boolean": "boolean",
    "integer": "number",
    "number": "number",
    "string": "text",
}


class Field(msgspec.Struct, frozen=True):
    name: str
    schema: Mapping[str, Any]
    required: bool

    @property
    def kind(self) -> Kind:
        """The kind of value it takes; ``other`` for lists and objects, which are not read from a request."""
        return "choice" if self.choices else _KINDS.get(self.schema.get("type", "string"), "other")

    @property
    def choices(self) -> tuple[Any, ...]:
        return (self.schema["const"],) if "const" in self.schema else tuple(self.schema.get("enum", ()))

    @property
    def label(self) -> str:
        description = str(self.schema.get("description", "")).strip().rstrip(".")
        return f"{words_of(self.name)}: {description}" if description else words_of(self.name)


def words_of(name: str) -> str:
    """Split an identifier into plain words: ``fromCity`` and ``from_city`` become ``from city``."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    return re.sub(r"[_\-.]+", " ", parted).strip().lower()


def fields_of(schema: dict[str, Any]) -> tuple[Field, ...]:
    required = schema.get("required") or ()
    return tuple(
        Field(name, _resolve(part, schema) if isinstance(part, dict) else {}, name in required)
        for name, part in (schema.get("properties") or {}).items()
    )


def _resolve(part: dict[str, Any], root: dict[str, Any], depth: int = 0) -> dict[str, Any]:
    if depth > 8:
        return part
    if "$ref" in part:
        beside = {key: value for key, value in part.items() if key != "$ref"}
        return _resolve({**(resolved(root, part) or {}), **beside}, root, depth + 1)
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


def offered(request: ModelRequest) -> tuple[ToolSpec, ...]:
    choice = request.settings.tool_choice
    if choice == "none":
        return ()
    if choice in (None, "auto", "required"):
        return request.tools
    named = tuple(tool for tool in request.tools if tool.name == choice)
    if not named:
        known = ", ".join(tool.name for tool in request.tools) or "none"
        raise ConfigurationError(f"tool_choice names {choice!r}, which is not among the tools ({known})")
    return named
