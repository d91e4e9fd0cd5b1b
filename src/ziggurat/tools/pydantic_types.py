"""Types that pydantic reads: their JSON Schema, and the conversion of plain JSON data to them and back."""

__all__ = ["Problem", "pydantic_reader", "pydantic_schema"]

import sys
import typing
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import msgspec

from ziggurat.core.errors import ConfigurationError
from ziggurat.tools.arguments import shown
from ziggurat.tools.plain import with_sorted_sets
from ziggurat.tools.type_parts import rebuilt

if TYPE_CHECKING:
    import pydantic


class Problem(ValueError):
    """What is wrong with one value, one sentence per place; the model reads it."""


def pydantic_schema(annotation: Any) -> dict[str, object]:
    """Return the JSON Schema of a type that pydantic reads.

    Raises:
        ConfigurationError: pydantic is not installed.
        TypeError: it cannot read the type either.
    """
    adapter = _adapter(annotation)
    import pydantic

    try:
        return adapter.json_schema()
    except pydantic.errors.PydanticUserError as error:
        raise TypeError(str(error)) from error


def pydantic_reader(name: str, annotation: Any) -> tuple[Callable[[object], object], Callable[[object], object]]:
    """Return the functions that convert plain JSON data to a type of pydantic, and back.

    Args:
        name: The name of the value in messages for the model.
        annotation: The type.
    """
    import pydantic

    adapter = _adapter(annotation)

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
        kept = adapter.dump_python(value, round_trip=True)
        if adapter.dump_python(check(data), round_trip=True) != kept:
            raise Problem(f"{name}: {shown(data)} as JSON is not the value that {name} would be given")
        return with_sorted_sets(data, kept)

    return check, dump


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
    made = make(annotation.__name__, fields)
    made.__doc__ = annotation.__doc__
    return made
