"""What a provider states: JSON that may be slightly invalid, and figures of a usage that may be none."""

import json
from typing import Any, TypeVar

import msgspec

from ziggurat.core.codec import check_depth
from ziggurat.messages.message import mended

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


def latest(known: dict[str, Any], stated: object) -> dict[str, Any]:
    """Return the latest figures of a usage, each of which counts from the beginning of a reply."""
    given = stated if isinstance(stated, dict) else {}
    return {**known, **{name: value for name, value in given.items() if value is not None}}


def part_of(usage: dict[str, Any], name: str) -> dict[str, Any]:
    part = usage.get(name)
    return part if isinstance(part, dict) else {}


def count(figure: Any) -> int | None:
    is_figure = isinstance(figure, (int, float)) and not isinstance(figure, bool) and figure >= 0
    return int(figure) if is_figure else None
