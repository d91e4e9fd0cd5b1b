"""Write decoded values as plain JSON data, for types whose values the encoder cannot sort or does not write in full."""

from dataclasses import fields, is_dataclass
from typing import Any

import msgspec
from msgspec import UNSET, Struct, inspect

from ziggurat.core.codec import canonical
from ziggurat.tools.type_parts import alternatives

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


def with_sorted_sets(data: object, value: object) -> object:
    """Return plain JSON data with the lists sorted that are sets in `value`: their order varies by process."""
    if isinstance(data, list) and isinstance(value, (list, tuple, set, frozenset)) and len(data) == len(value):
        items = [with_sorted_sets(each, inner) for each, inner in zip(data, value, strict=True)]
        return sorted(items, key=canonical) if isinstance(value, (set, frozenset)) else items
    if isinstance(data, dict) and isinstance(value, dict) and len(data) == len(value):
        inner_values = zip(data.items(), value.values(), strict=True)
        return {key: with_sorted_sets(each, inner) for (key, each), inner in inner_values}
    return data
