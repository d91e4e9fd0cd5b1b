"""Read a model's arguments strictly, and explain its mistakes so that it can correct them."""

import functools
import math
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal

import msgspec

from ziggurat.core.codec import check_depth
from ziggurat.core.errors import InvalidArguments
from ziggurat.messages.arguments import check_size, unique_object
from ziggurat.tools.values import field_names

MAX_DEPTH = 100  # how many levels deep the arrays and objects in a tool's arguments may be nested
MAX_PROBLEMS = 20  # problems listed for one call; the rest are only counted

_MAX_LINE = 1_000

_WORDS = {
    "int": "an integer", "float": "a number", "str": "a string", "bool": "true or false", "array": "an array",
    "object": "an object", "null": "null", "bytes": "a base64 string", "integer": "an integer", "number": "a number",
    "string": "a string", "boolean": "true or false", "datetime": "a date and time", "date": "a date",
    "time": "a time", "timedelta": "a duration", "decimal": "a decimal number", "uuid": "a UUID",
}  # fmt: skip
# Patterns for the decoder's messages, compiled on the first mistake, because most processes see none.
_PLACE = r" - at (?:`key` in )?`\$(.*)`$"
_STEP = r"\.([^.\[]+)|\[(\d+)\]|\[\.\.\.\]"
_EXPECTED = r"Expected `([^`]*)`(?:, got `[^`]*`)?"


class Problem(ValueError):
    """What is wrong with one value, one sentence per place; the model reads it."""


def read(text: str | bytes) -> object:
    """Parse JSON strictly: refuse text that two parsers could read differently."""
    import json

    check_size(text)
    try:
        text = text if isinstance(text, str) else text.decode()
        check_depth(text, MAX_DEPTH)
        value = _decoder()(text)
        msgspec.json.encode(value)
    except InvalidArguments:
        raise
    except (msgspec.DecodeError, RecursionError):
        raise InvalidArguments(f"the arguments are nested more than {MAX_DEPTH} levels deep") from None
    except UnicodeEncodeError:
        raise InvalidArguments(r"the arguments hold half of a surrogate pair (such as \ud83d alone)") from None
    except json.JSONDecodeError as error:
        near_text = error.doc[error.pos : error.pos + 20]
        place = f"character {error.pos + 1}" + (f", near {near_text!r}" if near_text else ", at its end")
        raise InvalidArguments(f"the arguments are not valid JSON: {error.msg.lower()} ({place})") from None
    except ValueError as error:
        raise InvalidArguments(f"the arguments are not valid JSON: {error}") from None
    return value


@functools.cache
def _decoder() -> Callable[[str], object]:
    import json

    return json.JSONDecoder(object_pairs_hook=unique_object, parse_constant=_refuse, parse_float=_finite).decode


def _refuse(constant: str) -> object:
    raise InvalidArguments(f"the arguments are not valid JSON: {constant} is not a JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise InvalidArguments("the arguments hold a number that is too large")
    return number


def makes_infinity(given: object, decoded: object) -> bool:
    """Return whether a decoded value holds NaN or an infinity that the given data names; defaults may be these."""
    return _names_infinity(given) and has_infinity(decoded)


def _names_infinity(data: object) -> bool:
    if isinstance(data, (str, float)):
        try:
            return not math.isfinite(float(data))
        except ValueError:
            return False
    inner = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    return any(map(_names_infinity, inner))


def has_infinity(value: object) -> bool:
    """Return whether a decoded value is, or holds, NaN or an infinity (which texts such as ``"nan"`` decode to)."""
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, Decimal):
        return not value.is_finite()
    if isinstance(value, Mapping):
        return any(map(has_infinity, value.values()))
    if isinstance(value, (list, tuple, set, frozenset, deque)):
        return any(map(has_infinity, value))
    return any(has_infinity(getattr(value, name, None)) for name in field_names(value))


def listing(problems: Iterable[str]) -> str:
    """Join problems, one per line: at most `MAX_PROBLEMS` lines of bounded length, then a count of the rest."""
    lines = [line for problem in problems for line in problem.split("\n")]
    result = [line if len(line) <= _MAX_LINE else f"{line[: _MAX_LINE - 3]}..." for line in lines[:MAX_PROBLEMS]]
    if len(lines) > MAX_PROBLEMS:
        result.append(f"and {len(lines) - MAX_PROBLEMS} more")
    return "\n".join(result)


def shown(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return repr(value if len(value) <= 60 else value[:57] + "...")
    if isinstance(value, (int, float)):
        return "a very long integer" if isinstance(value, int) and value.bit_length() > 200 else repr(value)
    return "an object" if isinstance(value, Mapping) else "an array"


def explain(name: str, error: msgspec.ValidationError, value: object, schema: Mapping[str, object]) -> str:
    """Turn the decoder's error about one parameter into ``path: what was expected, got what``."""
    message = str(error)
    place = re.search(_PLACE, message)
    message = message[: place.start()] if place else message
    path, current, expected = name, value, schema
    for step in re.finditer(_STEP, place[1] if place else ""):
        key: str | int | None = step[1] or (int(step[2]) if step[2] else None)
        expected = _within(expected, key)
        if key is None and isinstance(current, Mapping) and len(current) == 1:
            key = next(iter(current))  # the decoder names no key, but there is only one
        path += step[0] if step[0] != "[...]" or key is None else f".{key}"
        current = _item(current, key)
    if (missing := re.match(r"Object missing required field `([^`]*)`", message)) is not None:
        return f"{path}.{missing[1]}: missing (required)"
    if (unknown := re.match(r"Object contains unknown field `([^`]*)`", message)) is not None:
        return f"{path}.{unknown[1]}: unknown field"
    actual = "" if current is _LOST or (place and "`key`" in place[0]) else f", got {shown(current)}"
    if message.startswith("Invalid "):
        return f"{path}: {_mend(message, expected)}{actual}"
    message = re.sub(_EXPECTED, _in_words, message)
    return f"{path}: {message}{'' if ', got ' in message else actual}"


def path_in(name: str, error: msgspec.ValidationError) -> str:
    place = re.search(_PLACE, str(error))
    return name + (place[1] if place else "")


_LOST = object()


def _item(value: object, key: str | int | None) -> object:
    if isinstance(value, Mapping) and key in value:
        return value[key]
    if isinstance(value, list) and isinstance(key, int) and key < len(value):
        return value[key]
    return _LOST


def _within(schema: Mapping[str, object], key: str | int | None) -> Mapping[str, object]:
    choices: list[object] = []
    for arm in _arms(schema):
        inner: object = None
        properties, prefix = arm.get("properties"), arm.get("prefixItems")
        if isinstance(key, str) and isinstance(properties, dict):
            inner = properties.get(key)
        elif key is None:
            inner = arm.get("additionalProperties")
        elif isinstance(prefix, list) and isinstance(key, int) and key < len(prefix):
            inner = prefix[key]
        elif isinstance(key, int):
            inner = arm.get("items")
        if isinstance(inner, dict) and not isinstance(inner.get("enum"), list):
            return inner
        if isinstance(inner, dict):
            choices += inner["enum"]
    return {"enum": choices} if choices else {}


def _arms(schema: Mapping[str, object]) -> list[Mapping[str, object]]:
    arms = schema.get("anyOf")
    return arms if isinstance(arms, list) else [schema]


def _in_words(match: re.Match[str]) -> str:
    return "expected " + " or ".join(_WORDS.get(each, each) for each in match[1].split(" | "))


def _mend(message: str, schema: Mapping[str, object]) -> str:
    """Return what was expected, for errors where the decoder only says that a text is invalid."""
    samples = {
        "date-time": "a date and time such as '2026-01-31T09:30:00Z'",
        "date": "a date such as '2026-01-31'",
        "time": "a time such as '09:30:00'",
        "duration": "an ISO 8601 duration such as 'PT1H30M'",
        "uuid": "a UUID such as '00000000-0000-4000-8000-000000000000'",
        "decimal": "a decimal number such as '12.50'",
    }
    for arm in _arms(schema):
        if message.startswith(("Invalid enum value", "Invalid value")) and "enum" in arm:
            return f"expected {expectation(arm)}"
        if (sample := samples.get(str(arm.get("format")))) is not None:
            return f"expected {sample}"
    return message[0].lower() + message[1:]


def expectation(schema: Mapping[str, object]) -> str:
    """Return a few words for what a schema expects, for problems that have no decoder message."""
    if isinstance(choices := schema.get("enum"), list):
        return "one of " + ", ".join(map(shown, choices))
    if isinstance(arms := schema.get("anyOf"), list):
        return " or ".join(expectation(arm) for arm in arms)
    if isinstance(keys := schema.get("required"), list) and keys:
        return f"an object with {', '.join(keys)}"
    name = str(schema.get("title") or schema.get("format") or schema.get("type") or "another value")
    return _WORDS.get(name, name)
