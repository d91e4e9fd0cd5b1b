"""What a provider states: JSON that may be slightly invalid, and figures of a usage that may be none."""

import json
from typing import Any, TypeVar

import msgspec

from ziggurat.messages.message import check_depth, mended

T = TypeVar("T")


def read(decoder: "msgspec.json.Decoder[T]", data: bytes | str) -> T:
    """Decode a reply or an event, even if its JSON is slightly invalid: lone surrogates, raw control characters, and
    numbers that JSON does not have, which become texts."""
    check_depth(data)
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        try:
            loose = whole(json.loads(data, strict=False))
        except (ValueError, RecursionError):
            raise msgspec.DecodeError(str(error)) from None
        return decoder.decode(msgspec.json.encode(loose))


def whole(value: Any) -> Any:
    """Return a value that can be encoded: with lone surrogates replaced, and NaN and infinities as text."""
    if isinstance(value, str):
        return mended(value)
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    if isinstance(value, dict):
        return {whole(key): whole(each) for key, each in value.items()}
    return [whole(each) for each in value] if isinstance(value, (list, tuple)) else value


def usage_as(kind: type[T], usage: object) -> T | None:
    """Return a usage in a form whose figures may be anything, see `count`; None if it is no object."""
    try:
        return msgspec.convert(usage, kind)
    except msgspec.ValidationError:
        return None


def count(figure: Any) -> int | None:
    """Return a figure of a usage; None for what cannot be one."""
    is_figure = isinstance(figure, (int, float)) and not isinstance(figure, bool) and figure >= 0
    return int(figure) if is_figure else None
