"""Types that pydantic reads: their JSON Schema, and the conversion of plain JSON data to them and back."""

import sys
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

import msgspec

from ziggurat.core.errors import ConfigurationError
from ziggurat.tools.arguments import Problem, shown
from ziggurat.tools.plain import with_sorted_sets
from ziggurat.tools.type_parts import rebuilt

if TYPE_CHECKING:
    import pydantic


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
        return with_sorted_sets(data, fields)

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
