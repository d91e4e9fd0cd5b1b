"""A canonical form of a call's arguments, so that a person sees exactly what will be executed."""

import json
from typing import NoReturn

from ziggurat.core.errors import InvalidArguments
from ziggurat.core.visible import escaped_json
from ziggurat.messages.limits import check_depth, check_size, unique_object


def canonical(arguments: str, name: str = "a call") -> str:
    """Return a JSON object with sorted keys, no spaces, and all characters that a reader could miss as ``\\uXXXX``.

    Those are hidden characters, unusual spaces, and marks that do not stand on a letter of their script; see
    `core.visible`.

    >>> canonical('{ "to": "a\\u200bb", "amount": 1 }')
    '{"amount":1,"to":"a\\\\u200bb"}'

    Raises:
        InvalidArguments: it is too long (`limits.MAX_ARGUMENTS`) or not a JSON object, or parsers could read it
            differently: it has a repeated key, NaN or infinity, a number that is too large or too precise, or a lone
            surrogate.
    """
    check_size(arguments, f"the arguments of {name}")
    try:
        check_depth(arguments)
        value = json.loads(
            arguments or "{}", object_pairs_hook=unique_object, parse_constant=_no_number, parse_float=_exact_float
        )
        if not isinstance(value, dict):
            raise ValueError("not an object")
        text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        text.encode()
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise InvalidArguments(f"the arguments of {name} are not a plain JSON object: {error}") from error
    return escaped_json(text, strict=True)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number")


def _exact_float(text: str) -> float:
    from decimal import Decimal

    number = float(text)
    if number - number != 0 or (number == 0 and Decimal(text) != 0):
        raise ValueError(f"{text[:40]} is too large or too small a number")
    if Decimal(text) != Decimal(repr(number)):
        raise ValueError(f"{text[:40]} has too many digits for a number: pass it as text to keep them all")
    return number
