"""A canonical form of a call's arguments, so that a person sees exactly what will be executed."""

__all__ = ["canonical"]

import json
import unicodedata
from typing import NoReturn

from ziggurat.core.errors import InvalidArguments
from ziggurat.messages.limits import check_size, unique_object

_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Characters that are invisible although their category does not say so."""


def canonical(arguments: str, name: str = "a call") -> str:
    """Return a JSON object with sorted keys, no spaces, and all characters that a reader could miss as ``\\uXXXX``.

    Those are characters that reorder text or have no width, control characters, unusual spaces, and combining accents.

    >>> canonical('{ "to": "a\\u200bb", "amount": 1 }')
    '{"amount":1,"to":"a\\\\u200bb"}'

    Raises:
        InvalidArguments: it is too long (`limits.MAX_ARGUMENTS`) or not a JSON object, or parsers could read it
            differently: it has a repeated key, NaN or infinity, a number that is too large or too precise, or a lone
            surrogate.
    """
    check_size(arguments, f"the arguments of {name}")
    try:
        value = json.loads(
            arguments or "{}", object_pairs_hook=unique_object, parse_constant=_no_number, parse_float=_exact_float
        )
        if not isinstance(value, dict):
            raise ValueError("not an object")
        text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        text.encode()
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise InvalidArguments(f"the arguments of {name} are not a plain JSON object: {error}") from error
    return text if text.isascii() and "\x7f" not in text else _escape_invisible(text)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number")


def _exact_float(text: str) -> float:
    from decimal import Decimal

    number = float(text)
    if number - number != 0 or (number == 0 and Decimal(text) != 0):
        raise ValueError(f"{text[:40]} is too large or too small a number")
    if Decimal(text) != Decimal(repr(number)):
        raise ValueError(f"{text[:40]} is too precise a number: as text it would be kept as it is")
    return number


def _escape_invisible(text: str) -> str:
    split = not unicodedata.is_normalized("NFC", text)
    return "".join(_escaped(each) if _is_invisible(each, split) else each for each in text)


def _is_invisible(character: str, split: bool) -> bool:
    if " " <= character <= "~":
        return False
    category = unicodedata.category(character)
    if category in _INVISIBLE or category == "Zs" or character in _BLANK:
        return True
    return category == "Mn" and (split or "\ufe00" <= character <= "\ufe0f" or character >= "\U000e0100")


def _escaped(character: str) -> str:
    return "\\u007f" if character == "\x7f" else json.dumps(character)[1:-1]
