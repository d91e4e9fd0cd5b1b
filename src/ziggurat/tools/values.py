"""Values as plain JSON data, and the place where two values differ."""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any

import msgspec
from msgspec import NODEFAULT, UNSET, Struct

from ziggurat.core.codec import canonical


def plain(value: object, whole: bool = True) -> object:
    """Return a value as plain JSON data: keys of mappings as text, sets as sorted lists, NaN as text, all fields."""
    # Without `whole`, fields with their defaults are left out: a default need not be of the field's type.
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key_text(key): plain(each, whole) for key, each in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted((plain(each, whole) for each in value), key=canonical)
    if isinstance(value, (list, tuple)):
        length, defaults = len(value), getattr(type(value), "_field_defaults", {})
        names = list(getattr(type(value), "_fields", ()))
        while not whole and length and names[length - 1 :] and names[length - 1] in defaults:
            if difference(value[length - 1], defaults[names[length - 1]]) is not None:
                break
            length -= 1
        return [plain(each, whole) for each in value[:length]]
    if isinstance(value, Struct):
        return _struct(value, whole)
    if has_class_fields(type(value)):
        return {each.name: plain(getattr(value, each.name), whole) for each in kept_fields(value, whole)}
    plain_value: object = msgspec.json.decode(canonical(value))
    return plain_value


def mappings_in(data: object) -> Iterator[dict[str, Any]]:
    waiting: list[Any] = [data]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            yield each
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each


def key_text(key: object) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    (text,) = msgspec.to_builtins({key: None}, str_keys=True)
    return str(text)


def _struct(value: Struct, whole: bool) -> object:
    config = value.__struct_config__
    fields = [
        (each.encode_name, plain(getattr(value, each.name), whole))
        for each in msgspec.structs.fields(value)
        if getattr(value, each.name) is not UNSET
        and (whole or config.array_like or not _is_default(getattr(value, each.name), each))
    ]
    if config.tag_field is not None:
        fields.insert(0, (config.tag_field, config.tag))
    return [each for _, each in fields] if config.array_like else dict(fields)


def _is_default(value: object, field: Any) -> bool:
    missing = (NODEFAULT, dataclasses.MISSING)
    factory = getattr(field, "default_factory", NODEFAULT)  # attrs has it in the default, which no value is then
    if factory not in missing:
        return difference(value, factory()) is None
    return field.default not in missing and difference(value, field.default) is None


def has_class_fields(kind: object) -> bool:
    return isinstance(kind, type) and (dataclasses.is_dataclass(kind) or hasattr(kind, "__attrs_attrs__"))


def class_fields(kind: Any) -> Sequence[Any]:
    fields: Sequence[Any] = kind.__attrs_attrs__ if hasattr(kind, "__attrs_attrs__") else dataclasses.fields(kind)
    return fields


def kept_fields(value: object, whole: bool) -> Iterator[Any]:
    """Yield the fields that an instance has; without those with their defaults unless they are to be `whole`."""
    for each in class_fields(type(value)):
        if hasattr(value, each.name) and (whole or not _is_default(getattr(value, each.name), each)):
            yield each


_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def numbers(data: object) -> object:
    """Return plain data with the texts of numbers that JSON does not have as numbers."""
    if isinstance(data, dict):
        return {key: numbers(each) for key, each in data.items()}
    if isinstance(data, list):
        return list(map(numbers, data))
    return _NUMBERS.get(data, data) if isinstance(data, str) else data


def difference(one: object, other: object, path: str = "", depth: int = 100) -> str | None:
    """Return the path at which two values differ in type or content, None if nowhere; NaN is equal to itself."""
    # A list may stand for a tuple, which JSON does not have. Classes without a comparison are compared by their fields.
    if one is other:
        return None
    if type(one) is not type(other) and not {type(one), type(other)} <= {list, tuple}:
        return path
    with suppress(Exception):  # of a comparison that is the user's
        if (one == other) is True:
            return None
    if isinstance(one, (float, Decimal)) and isinstance(other, (float, Decimal)):
        return None if math.isnan(one) and math.isnan(other) else path
    if not depth:  # A value that holds itself. Python's own limit may be high, and each level compares all below it.
        return path[:100]
    pairs = _pairs(one, other, path)
    return next((found for where, a, b in pairs if (found := difference(a, b, where, depth - 1)) is not None), None)


_Pairs = list[tuple[str, object, object]]


def _pairs(one: Any, other: Any, path: str) -> _Pairs:
    """Return what two values of one kind consist of, each with its path; two unequal ones if they differ."""
    differ: _Pairs = [(path, None, UNSET)]
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        if [*one] != [*other] and one.keys() != other.keys():
            return differ
        return [(f"{path}.{key}", one[key], other[key]) for key in one]
    if isinstance(one, (set, frozenset)) and isinstance(other, (set, frozenset)):
        if len(one) != len(other):
            return differ
        sides = zip(sorted(one, key=canonical), sorted(other, key=canonical), strict=True)
        return [(path, a, b) for a, b in sides]
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        if len(one) != len(other):
            return differ
        return [(f"{path}[{number}]", a, b) for number, (a, b) in enumerate(zip(one, other, strict=True))]
    names = {**dict.fromkeys(_parts(one)), **dict.fromkeys(_parts(other))}
    return [(f"{path}.{each}", getattr(one, each, UNSET), getattr(other, each, UNSET)) for each in names] or differ


def field_names(value: Any, compared: bool = False) -> Iterator[str]:
    """Yield the names of the fields of an instance of a class of plain data; none of others."""
    kind = type(value)
    if has_class_fields(kind):
        yield from (each.name for each in class_fields(kind) if not compared or getattr(each, "compare", True))
    elif isinstance(value, Struct):
        yield from value.__struct_fields__
    elif hasattr(kind, "model_fields"):
        yield from kind.model_fields
        yield from getattr(value, "model_extra", None) or ()


def _parts(value: Any) -> list[str]:
    """Return the names under which an object has what it is."""
    names = [*field_names(value, compared=True)]
    if not names:
        slots = (name for base in type(value).__mro__ for name in getattr(base, "__slots__", ()))
        names = [*getattr(value, "__dict__", ()), *(name for name in slots if hasattr(value, name))]
    return names
