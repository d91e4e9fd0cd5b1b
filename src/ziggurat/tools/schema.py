"""Translate Python types into JSON Schema for models.

The dialect is JSON Schema 2020-12. Definitions are written in place where they are used, because several
providers cannot follow references; only a type that contains itself keeps its name under ``$defs``.
"""

__all__ = ["alternatives", "is_pydantic", "note_of", "schema_of"]

import datetime
import types
import typing
from collections.abc import Iterator
from typing import Annotated, Any, cast

import msgspec

from ziggurat.core.errors import ConfigurationError

JSONSchema = dict[str, object]

_ANYTHING = "x-anything"
_KNOWN = (
    "built-in types, Literal, Enum, datetime types, a dataclass, a TypedDict, a NamedTuple, "
    "a msgspec Struct or a pydantic model"
)
_FORMATS: dict[object, object] = {
    datetime.datetime: Annotated[datetime.datetime, msgspec.Meta(extra_json_schema={"format": "date-time"})],
    datetime.time: Annotated[datetime.time, msgspec.Meta(extra_json_schema={"format": "time"})],
}


def schema_of(annotation: object) -> JSONSchema:
    """Translate a type into JSON Schema (2020-12).

    Accepts built-in types, Literal, Enum, unions, ``Annotated`` with `msgspec.Meta` (or with a plain string
    as the description), dataclass, TypedDict, NamedTuple, msgspec Struct, the datetime types, Decimal, UUID,
    ``object`` and ``Any`` (no constraint), and pydantic models, types and ``Field(...)`` where pydantic is installed.

    Example:
        >>> schema_of(list[int])
        {'type': 'array', 'items': {'type': 'integer'}}

    Raises:
        ConfigurationError: the type has no known JSON form; the message says what to write instead.
    """
    if annotation is object:
        return {}
    if is_pydantic(annotation):
        return _tidy(_pydantic_schema(annotation))
    try:
        schema: JSONSchema = msgspec.json.schema(_enrich(annotation), schema_hook=_hook)
    except (TypeError, ValueError, NameError) as error:
        arms = alternatives(annotation)
        if not arms:
            raise ConfigurationError(_unsupported(annotation, error)) from error
        union: JSONSchema = {"anyOf": [schema_of(arm) for arm in arms]}
        note = note_of(annotation)
        return union if note is None else {**union, "description": note}
    return _tidy(schema)


def alternatives(annotation: object) -> tuple[object, ...]:
    """Return the members of a union, also inside ``Annotated``; empty for anything that is not a union."""
    if typing.get_origin(annotation) is Annotated:
        return alternatives(typing.get_args(annotation)[0])
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return typing.get_args(annotation)
    return ()


def note_of(annotation: object) -> str | None:
    """Return the description in ``Annotated`` (a string, a `msgspec.Meta` or a PEP 727 ``Doc``), or None."""
    for note in getattr(annotation, "__metadata__", ()):
        text = note if isinstance(note, str) else getattr(note, "description", getattr(note, "documentation", None))
        if isinstance(text, str):
            return text
    return None


def is_pydantic(annotation: object) -> bool:
    """Return whether pydantic must handle this type: it is, contains, or is annotated with something from pydantic.

    Only inspects classes, so pydantic is not imported.
    """
    if isinstance(annotation, type):
        return hasattr(annotation, "__pydantic_core_schema__") or hasattr(annotation, "__get_pydantic_core_schema__")
    return any(is_pydantic(part) or _bounds(part) for part in typing.get_args(annotation))


def _bounds(note: object) -> bool:
    """Return whether a note in ``Annotated`` is a pydantic or annotated_types constraint on values."""
    if type(note).__module__.partition(".")[0] not in ("pydantic", "annotated_types"):
        return False
    described = type(note).__name__ == "FieldInfo"
    return not described or bool(getattr(note, "metadata", ()) or getattr(note, "discriminator", None))


def _pydantic_schema(annotation: Any) -> JSONSchema:
    try:
        import pydantic

        return pydantic.TypeAdapter(annotation).json_schema()
    except ImportError as error:
        raise ConfigurationError(f"{annotation} is read by a package that is not installed: {error}") from error
    except pydantic.errors.PydanticUserError as error:
        raise ConfigurationError(_unsupported(annotation, error)) from error


def _hook(kind: type) -> JSONSchema:
    if kind is object:
        return {_ANYTHING: True}
    raise NotImplementedError


def _unsupported(annotation: object, error: Exception) -> str:
    name = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    reason = str(error).splitlines()[0]
    if reason.startswith("Generating JSON schema for custom types"):
        culprit = str(error).rpartition("type <class '")[2].partition("'")[0]
        reason = f"{culprit or name} has no known JSON form"
    return f"cannot make a JSON schema for {name} ({reason}); use {_KNOWN}"


def _enrich(annotation: Any) -> Any:
    """Add to the type what the schema generator omits: formats of times, and strings as descriptions."""
    if isinstance(annotation, type) and annotation in _FORMATS:
        return _FORMATS[annotation]
    arguments = typing.get_args(annotation)
    origin = typing.get_origin(annotation)
    if not arguments or origin is typing.Literal:
        return annotation
    if origin is Annotated:
        notes = [msgspec.Meta(description=note) if isinstance(note, str) else note for note in arguments[1:]]
        return Annotated[(_enrich(arguments[0]), *notes)]
    parts = tuple(_enrich(part) for part in arguments)
    if alternatives(annotation):
        return typing.Union[parts]  # noqa: UP007
    if isinstance(annotation, types.GenericAlias):
        return types.GenericAlias(cast(type, annotation.__origin__), parts)
    return annotation.copy_with(parts) if hasattr(annotation, "copy_with") else annotation


def _tidy(schema: JSONSchema) -> JSONSchema:
    """Inline definitions, except recursive ones; drop titles generated from names."""
    definitions = cast("dict[str, JSONSchema]", schema.pop("$defs", {}))
    recursive = {name for name in definitions if name in _reachable(definitions[name], definitions)}
    for name, definition in definitions.items():
        if definition.get("title") == name.rpartition(".")[2]:
            del definition["title"]
    tidy = _inline(schema, definitions, recursive)
    kept = {name: _inline(definitions[name], definitions, recursive) for name in sorted(recursive)}
    return {**tidy, "$defs": kept} if kept else tidy


def _inline(schema: JSONSchema, definitions: dict[str, JSONSchema], recursive: set[str]) -> JSONSchema:
    reference = _target(schema)
    if reference in definitions and reference not in recursive:
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        return _inline({**definitions[reference], **beside}, definitions, recursive)
    tidy: JSONSchema = {}
    for key, value in schema.items():
        if key in (_ANYTHING, "discriminator"):
            continue
        if key in ("properties", "patternProperties"):
            children = cast("dict[str, JSONSchema]", value)
            inlined = {name: _inline(child, definitions, recursive) for name, child in children.items()}
            tidy[key] = {name: _untitled(name, child) for name, child in inlined.items()}
        elif key in ("anyOf", "allOf", "oneOf", "prefixItems"):
            tidy[key] = [_inline(child, definitions, recursive) for child in cast("list[JSONSchema]", value)]
        elif key in ("items", "additionalProperties", "propertyNames", "not") and isinstance(value, dict):
            tidy[key] = _inline(value, definitions, recursive)
        else:
            tidy[key] = value
    return tidy


def _untitled(name: str, schema: JSONSchema) -> JSONSchema:
    if schema.get("title") == name.replace("_", " ").title():
        del schema["title"]
    return schema


def _target(schema: JSONSchema) -> str:
    return str(schema.get("$ref", "")).removeprefix("#/$defs/")


def _reachable(schema: JSONSchema, definitions: dict[str, JSONSchema]) -> set[str]:
    """Return the names of all definitions reachable by references from a schema."""
    found: set[str] = set()
    waiting = [schema]
    while waiting:
        for name in _references(waiting.pop()):
            if name in definitions and name not in found:
                found.add(name)
                waiting.append(definitions[name])
    return found


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield _target(node)
        for value in node.values():
            yield from _references(value)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value)
