"""How a type is read: by msgspec, by pydantic, or each part of it in its own way."""

import dataclasses
import inspect
import types
import typing
from abc import ABC
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, cast

import msgspec

from ziggurat.core import codec
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.settings import is_typed_dict

_BOUNDS = ("gt", "ge", "lt", "le", "multiple_of", "pattern", "min_length", "max_length", "tz")
"""The settings of `msgspec.Meta` that a value is checked for."""


class Part(msgspec.Struct, frozen=True):
    annotation: Any
    reader: Literal["pydantic", "members"]


def alternatives(annotation: object) -> tuple[object, ...]:
    """Return the members of a union, also inside ``Annotated``; empty for anything that is not a union."""
    if typing.get_origin(annotation) is Annotated:
        return alternatives(typing.get_args(annotation)[0])
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return typing.get_args(annotation)
    return ()


def divide(annotation: Any) -> tuple[Any, dict[type, Part]]:
    parts: dict[type, Part] = {}
    return _divided(annotation, parts), parts


def _divided(annotation: Any, parts: dict[type, Part]) -> Any:
    libraries, refused = _libraries(annotation), None
    arguments = typing.get_args(annotation)
    if "pydantic" not in libraries:
        try:
            codec.decoder(Any if annotation is object else annotation)
            msgspec.json.schema(annotation, schema_hook=lambda _: {"type": "null"})  # with the defaults
            return annotation
        except (TypeError, AttributeError) as error:  # of an instance in place of its class, too
            refused = error
            if not libraries and _has_fields(annotation):
                return _stand_in(Part(annotation, "pydantic"), parts)  # which reads a field that is a union
    if libraries == {"pydantic"} and not _has_united(annotation):
        return _stand_in(Part(annotation, "pydantic"), parts)
    if alternatives(annotation):
        return _stand_in(Part(annotation, "members"), parts)
    if refused is not None and not arguments:
        raise refused
    if not arguments or (typing.get_origin(annotation) is Annotated and _libraries(arguments[0]) != libraries):
        raise ConfigurationError(
            f"{annotation} has parts or constraints of both msgspec and pydantic, and neither checks the other's: "
            "declare all with one, such as msgspec.Meta(ge=1) in a Struct, or models and Field(ge=1) in a dataclass or "
            "a model of pydantic"
        )
    before = len(parts)
    divided = rebuilt(annotation, lambda part: _divided(part, parts))
    if refused is not None and len(parts) == before:
        raise refused
    return divided


def _has_united(annotation: Any) -> bool:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        checked = any(_library_of(note, in_class=False) for note in arguments[1:])
        return not checked and _has_united(arguments[0])
    members = alternatives(annotation)
    if sum(isinstance(typing.get_origin(each) or each, type) and _is_class(each) for each in members) > 1:
        return True
    is_container = isinstance(origin, type) and issubclass(origin, Iterable)
    return bool(members or is_container) and any(map(_has_united, arguments))


def _is_class(annotation: Any) -> bool:
    kind = typing.get_origin(annotation) or annotation
    return _has_fields(kind) or issubclass(kind, msgspec.Struct) or hasattr(kind, "model_fields")


def rebuilt(annotation: Any, change: Callable[[Any], Any]) -> Any:
    """Return a generic type, such as ``list[X]``, with its arguments changed by a function."""
    arguments = typing.get_args(annotation)
    if typing.get_origin(annotation) is Annotated:
        return Annotated[(change(arguments[0]), *arguments[1:])]
    if alternatives(annotation):
        return typing.Union[tuple(map(change, arguments))]  # noqa: UP007
    inner = tuple(each if each is ... else change(each) for each in arguments)
    if isinstance(annotation, types.GenericAlias):
        return types.GenericAlias(cast(type, annotation.__origin__), inner)
    return annotation.copy_with(inner) if hasattr(annotation, "copy_with") else annotation


def _stand_in(part: Part, parts: dict[type, Part]) -> type:
    """Return a class for a part of a type; anything is an instance of it, as msgspec checks what a hook returns."""
    accepts_all = {"__subclasshook__": classmethod(lambda _cls, _other: True)}
    stand_in = type("Part", (ABC,), accepts_all)
    parts[stand_in] = part
    return stand_in


def _libraries(annotation: object) -> frozenset[str]:
    """Return the libraries that must read a type: those whose classes or constraints are in it, at any depth."""
    libraries: set[str] = set()
    for part, in_class in _parts(annotation):
        if getattr(part, "__unpacked__", False):
            raise TypeError(f"{part} in a tuple has no JSON Schema")
        if _has_keys_without_text(part):
            raise TypeError(f"{part} has keys that JSON does not have: use texts, numbers, dates or an Enum")
        if isinstance(part, dataclasses.InitVar):
            libraries.add("pydantic")
        elif isinstance(part, type) and typing.get_origin(part) is None:
            if hasattr(part, "__pydantic_core_schema__") or hasattr(part, "__get_pydantic_core_schema__"):
                libraries.add("pydantic")
            elif issubclass(part, msgspec.Struct):
                libraries.add("msgspec")
            elif dataclasses.is_dataclass(part) and not all(each.init for each in dataclasses.fields(part)):
                libraries.add("pydantic")
            elif hasattr(part, "__attrs_attrs__") and not _is_plain(part):
                raise TypeError(
                    f"{part} is a class of attrs with converters, private names, init=False or defaults that take the "
                    "instance, of which its JSON does not tell; use a dataclass, a Struct or a model of pydantic"
                )
        elif typing.get_origin(part) is Annotated:
            libraries.update(*(_library_of(note, in_class) for note in typing.get_args(part)[1:]))
    return frozenset(libraries)


def _has_keys_without_text(annotation: Any) -> bool:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if not (isinstance(origin, type) and issubclass(origin, Mapping) and arguments):
        return False
    kind = typing.get_origin(arguments[0]) or arguments[0]
    return isinstance(kind, type) and (issubclass(kind, (tuple, frozenset)) or _is_class(kind))


def _is_plain(kind: Any) -> bool:
    """Return whether a class of attrs is what msgspec takes it for: its fields are set as they are in JSON."""
    typed = {name for base in kind.__mro__ for name in inspect.get_annotations(base)}
    return all(
        each.init
        and each.alias == each.name
        and each.name in typed
        and not each.converter
        and not getattr(each.default, "takes_self", False)
        for each in kind.__attrs_attrs__
    )


def classes_in(annotation: object) -> Iterator[type]:
    """Yield the classes in a type, at any depth, in models of pydantic too."""
    for part, _ in _parts(annotation):
        if isinstance(part, type) and typing.get_origin(part) is None:
            yield part


def _parts(annotation: object) -> Iterator[tuple[Any, bool]]:
    """Yield a type and all types in it, at any depth, and whether they are in a class of plain data."""
    seen: set[int] = set()
    waiting: list[tuple[Any, bool]] = [(annotation, False)]
    while waiting:
        part, in_class = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        yield part, in_class
        if isinstance(part, dataclasses.InitVar):
            waiting.append((part.type, in_class))
        elif isinstance(part, type) and typing.get_origin(part) is None:
            waiting += [(each, not issubclass(part, msgspec.Struct)) for each in _fields(part)]
        else:
            origin, inner = typing.get_origin(part), typing.get_args(part)
            inner = inner[:1] if origin is Annotated else () if origin is Literal else inner
            named = [getattr(part, name, None) for name in ("__value__", "__supertype__")]  # an alias, a NewType
            waiting += [(each, in_class) for each in (*inner, *([] if origin is Literal else [origin, *named]))]


def _library_of(note: object, in_class: bool) -> set[str]:
    if isinstance(note, msgspec.Meta):
        return {"msgspec"} if any(getattr(note, name) is not None for name in _BOUNDS) else set()
    if hasattr(note, "__get_pydantic_core_schema__") and type(note).__name__ != "FieldInfo":
        return {"pydantic"}
    if type(note).__module__.partition(".")[0] not in ("pydantic", "annotated_types"):
        return set()
    described = type(note).__name__ == "FieldInfo" and not in_class
    bound = not described or getattr(note, "metadata", None) or getattr(note, "discriminator", None)
    return {"pydantic"} if bound else set()


def _has_fields(kind: object) -> bool:
    is_class = isinstance(kind, type) and (dataclasses.is_dataclass(kind) or hasattr(kind, "_field_defaults"))
    return is_class or is_typed_dict(kind)


def _fields(kind: type) -> Iterator[object]:
    """Yield the types of the fields of a class of plain data; none if they cannot be resolved, which others report."""
    if hasattr(kind, "model_fields"):
        yield from (each.annotation for each in kind.model_fields.values())
        return
    if not (_has_fields(kind) or issubclass(kind, msgspec.Struct) or hasattr(kind, "__attrs_attrs__")):
        return
    try:
        yield from typing.get_type_hints(kind, include_extras=True).values()
    except (NameError, TypeError, AttributeError, SyntaxError):
        return
