"""Which library reads a type: msgspec, pydantic, or each of them a part of it."""

import dataclasses
import sys
import types
import typing
from abc import ABC
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import msgspec
from msgspec import UNSET, Struct, inspect

from ziggurat.core.codec import canonical
from ziggurat.core.errors import ConfigurationError
from ziggurat.tools.arguments import Problem, shown

if TYPE_CHECKING:
    import pydantic


_BOUNDS = ("gt", "ge", "lt", "le", "multiple_of", "pattern", "min_length", "max_length", "tz")
"""The settings of `msgspec.Meta` that a value is checked for."""


class Part(msgspec.Struct, frozen=True):
    """A part of a type that msgspec cannot read."""

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
    """Divide a type into what msgspec reads and the parts that are read otherwise."""
    parts: dict[type, Part] = {}
    return _divided(annotation, parts), parts


def _divided(annotation: Any, parts: dict[type, Part]) -> Any:
    libraries = _libraries(annotation)
    if libraries == {"pydantic"}:
        return _stand_in(Part(annotation, "pydantic"), parts)
    arguments = typing.get_args(annotation)
    if "pydantic" not in libraries:
        try:
            msgspec.json.Decoder(Any if annotation is object else annotation)
            return annotation
        except TypeError:
            if not libraries and _has_fields(annotation):  # with a field that is a union, which pydantic reads
                return _stand_in(Part(annotation, "pydantic"), parts)
            if not arguments:
                raise
    if alternatives(annotation):
        return _stand_in(Part(annotation, "members"), parts)
    if not arguments or (typing.get_origin(annotation) is Annotated and _libraries(arguments[0]) != libraries):
        raise ConfigurationError(
            f"{annotation} has parts or constraints of both msgspec and pydantic, and neither library checks the "
            "other's: declare all with one, such as msgspec.Meta(ge=1) in a Struct, or models and Field(ge=1) "
            "in a dataclass or a model of pydantic"
        )
    return rebuilt(annotation, lambda part: _divided(part, parts))


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
    seen: set[int] = set()
    waiting: list[tuple[object, bool]] = [(annotation, False)]
    while waiting:
        part, in_class = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, type) and typing.get_origin(part) is None:
            if hasattr(part, "__pydantic_core_schema__") or hasattr(part, "__get_pydantic_core_schema__"):
                libraries.add("pydantic")
            elif issubclass(part, msgspec.Struct):
                libraries.add("msgspec")
            waiting += [(each, not issubclass(part, msgspec.Struct)) for each in _fields(part)]
            continue
        origin, inner = typing.get_origin(part), typing.get_args(part)
        if origin is Annotated:
            libraries.update(*(_library_of(note, in_class) for note in inner[1:]))
            inner = inner[:1]
        if origin is not Literal:
            named = [getattr(part, name, None) for name in ("__value__", "__supertype__")]  # an alias, a NewType
            waiting += [(each, in_class) for each in (*inner, origin, *named)]
    return frozenset(libraries)


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
    return dataclasses.is_dataclass(kind) or typing.is_typeddict(kind) or hasattr(kind, "_field_defaults")


def _fields(kind: type) -> Iterator[object]:
    """Yield the types of the fields of a class of plain data; none if they cannot be resolved, which others report."""
    if not (_has_fields(kind) or issubclass(kind, msgspec.Struct) or hasattr(kind, "__attrs_attrs__")):
        return
    try:
        yield from typing.get_type_hints(kind, include_extras=True).values()
    except (NameError, TypeError, AttributeError, SyntaxError):
        return


# -- values as plain data, for types that the encoder cannot sort or does not write in full ----------------------------

_ORDERED = (inspect.StrType, inspect.IntType, inspect.FloatType)
"""Types whose sets the encoder can sort."""


def needs_plain(annotation: object) -> bool:
    """Return whether values of a type must be written by `plain`."""
    try:
        waiting: list[Any] = [inspect.type_info(each) for each in alternatives(annotation) or (annotation,)]
    except TypeError:
        return False
    seen: set[type] = set()
    while waiting:
        kind = waiting.pop()
        if (cls := getattr(kind, "cls", None)) is not None:
            if cls in seen:
                continue
            seen.add(cls)
        key, items = getattr(kind, "key_type", None), isinstance(kind, (inspect.SetType, inspect.FrozenSetType))
        if (
            (key is not None and not isinstance(key, (inspect.StrType, inspect.AnyType)))
            or (items and not isinstance(kind.item_type, _ORDERED))
            or getattr(getattr(cls, "__struct_config__", None), "omit_defaults", False)
        ):
            return True
        waiting += [each.type for each in getattr(kind, "fields", ())]
        waiting += [*getattr(kind, "types", ()), *getattr(kind, "item_types", ())]
        waiting += [each for name in ("item_type", "value_type", "type") if (each := getattr(kind, name, None))]
    return False


def plain(value: object) -> object:
    """Return a value as plain JSON data: keys of mappings as text, sets as sorted lists, and all fields of objects.

    >>> plain({2: {"b", "a"}})
    {'2': ['a', 'b']}

    Raises:
        TypeError: something in it has no JSON form.
    """
    if isinstance(value, dict):
        return {_key(key): plain(each) for key, each in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(map(plain, value), key=canonical)
    if isinstance(value, (list, tuple)):
        return list(map(plain, value))
    if isinstance(value, Struct):
        return _struct(value)
    if is_dataclass(value):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value) if hasattr(value, each.name)}
    plain_value: object = msgspec.json.decode(canonical(value))
    return plain_value


def _key(key: object) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    (text,) = msgspec.to_builtins({key: None}, str_keys=True)
    return str(text)


def _struct(value: Struct) -> object:
    config = value.__struct_config__
    fields = [
        (name, plain(getattr(value, field)))
        for field, name in zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True)
        if getattr(value, field) is not UNSET
    ]
    if config.tag_field is not None:
        fields.insert(0, (config.tag_field, config.tag))
    return [each for _, each in fields] if config.array_like else dict(fields)


def _with_sorted_sets(data: object, value: object) -> object:
    """Return plain JSON data with the lists sorted that are sets in `value`: their order varies by process."""
    if isinstance(data, list) and isinstance(value, (list, tuple, set, frozenset)) and len(data) == len(value):
        items = [_with_sorted_sets(each, inner) for each, inner in zip(data, value, strict=True)]
        return sorted(items, key=canonical) if isinstance(value, (set, frozenset)) else items
    if isinstance(data, dict) and isinstance(value, dict) and len(data) == len(value):
        inner_values = zip(data.items(), value.values(), strict=True)
        return {key: _with_sorted_sets(each, inner) for (key, each), inner in inner_values}
    return data


# -- types that pydantic reads -----------------------------------------------------------------------------------------


def pydantic_schema(annotation: Any) -> dict[str, object]:
    """Return the JSON Schema of a type that pydantic reads."""
    adapter = _adapter(annotation)
    import pydantic

    try:
        return adapter.json_schema()
    except pydantic.errors.PydanticUserError as error:
        raise TypeError(str(error)) from error


def pydantic_reader(name: str, annotation: Any) -> tuple[Callable[[object], object], Callable[[object], object]]:
    """Return the functions that convert plain JSON data to a type of pydantic, and back."""
    import pydantic

    adapter = _adapter(annotation)
    for field, written, read in _one_way_fields(adapter.core_schema):
        written = f"written as {written!r}" if written else "not written (exclude=True)"
        raise ConfigurationError(
            f"the field {field!r} in {annotation} is read as {' or '.join(map(repr, read))}, and {written}; "
            "values are recorded as JSON and read back, so give it the same alias for both"
        )

    def check(value: object) -> object:
        try:
            return adapter.validate_json(msgspec.json.encode(value))
        except pydantic.ValidationError as error:
            lines = []
            for each in error.errors(include_url=False, include_context=False):
                path = name + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in each["loc"])
                if each["type"] == "missing":
                    lines.append(f"{path}: missing (required)")
                else:
                    lines.append(f"{path}: {each['msg'][0].lower()}{each['msg'][1:]}, got {shown(each['input'])}")
            raise Problem("\n".join(lines)) from None

    def dump(value: object) -> object:
        data: object = adapter.dump_python(value, mode="json", by_alias=True, round_trip=True)
        fields = adapter.dump_python(value, round_trip=True)
        if adapter.dump_python(check(data), round_trip=True) != fields:
            raise Problem(f"{name}: {shown(data)} as JSON is not the value that {name} would be given")
        return _with_sorted_sets(data, fields)

    return check, dump


_FIELDS = ("model-field", "dataclass-field", "typed-dict-field")


def _one_way_fields(schema: object) -> Iterator[tuple[str, str | None, list[str]]]:
    """Yield the fields in a schema of pydantic-core that are not read under the name that they are written under."""
    waiting: list[tuple[object, Mapping[str, object]]] = [(schema, {})]
    while waiting:
        node, config = waiting.pop()
        if isinstance(node, (list, tuple)):
            waiting += [(each, config) for each in node]
        if not isinstance(node, dict):
            continue
        config = cast("Mapping[str, object]", node.get("config") or config)
        named = node.get("fields")
        fields = named.items() if isinstance(named, dict) else [(None, each) for each in named or ()]
        for key, field in fields:
            if isinstance(field, dict) and field.get("type") in _FIELDS:
                name = key or field["name"]
                excluded = field.get("serialization_exclude") is True
                written = None if excluded else field.get("serialization_alias", name)
                read = _names_read(name, field, config)
                if written not in read and field.get("init", True):
                    yield name, written, read
        waiting += [(each, config) for each in node.values()]


def _names_read(name: str, field: Mapping[str, Any], config: Mapping[str, object]) -> list[str]:
    alias = field.get("validation_alias")
    if alias is None or config.get("validate_by_alias") is False:
        return [name]
    paths = [[alias]] if isinstance(alias, str) else [alias] if isinstance(alias[0], str) else alias
    by_name = config.get("validate_by_name") or config.get("populate_by_name")
    return [".".join(map(str, path)) for path in paths] + ([name] if by_name else [])


def _adapter(annotation: Any) -> "pydantic.TypeAdapter[object]":
    try:
        import pydantic
    except ImportError as error:
        raise ConfigurationError(f"{annotation} is read by a package that is not installed: {error}") from error
    try:
        return pydantic.TypeAdapter(_readable(annotation))
    except pydantic.errors.PydanticUserError as error:
        raise TypeError(str(error)) from error


def _readable(annotation: Any, within: tuple[Any, ...] = ()) -> Any:
    """Return a type with the TypedDicts that pydantic reads: before Python 3.12, only those of typing_extensions."""
    if sys.version_info >= (3, 12) or annotation in within:
        return annotation
    if typing.get_args(annotation) and typing.get_origin(annotation) is not typing.Literal:
        return rebuilt(annotation, lambda part: _readable(part, within))
    if not typing.is_typeddict(annotation) or type(annotation).__module__ != "typing":
        return annotation
    import typing_extensions

    fields: dict[str, Any] = {}
    for name, kind in typing.get_type_hints(annotation, include_extras=True).items():
        if typing.get_origin(kind) in (typing.Required, typing.NotRequired):
            (kind,) = typing.get_args(kind)
        kind = _readable(kind, (*within, annotation))
        fields[name] = kind if name in annotation.__required_keys__ else typing.NotRequired[kind]
    make = cast("Callable[[str, dict[str, Any]], type]", typing_extensions.TypedDict)
    result = make(annotation.__name__, fields)
    result.__doc__ = annotation.__doc__
    return result
