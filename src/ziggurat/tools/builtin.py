"""Three small tools without dependencies, for first experiments and tests."""

import ast
import math
import operator
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from ziggurat.core.context import Context
from ziggurat.core.errors import InvalidArguments

MAX_LENGTH = 2000  # characters an expression may have
MAX_DEPTH = 50  # how deep signs, powers and right operands may be nested
_MAX_BITS = 14_000  # bits of the largest whole number, just below Python's default limit for printing (4,300 digits)

_NUMBER = re.compile(r"(?:(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d*)?|\.\d+)(?:[eE](?P<exponent>[+-]?\d+))?", re.ASCII)
_UNKNOWN = re.compile(r"\w+|[^\s()+*/%-]")
_SAME = str.maketrans({"\u00d7": "*", "\u00f7": "/", "\u2212": "-", "^": "**"})

_Number = Fraction | float


def evaluate(expression: str) -> int | float:
    """Evaluate numbers, signs, parentheses and ``+ - * / // % **`` (also ``^``, U+00D7, U+00F7 and U+2212)."""
    if len(expression) > MAX_LENGTH:
        raise InvalidArguments(f"the expression has {len(expression)} characters; at most {MAX_LENGTH} are allowed")
    text = " ".join(expression.translate(_SAME).split())
    if not text:
        raise InvalidArguments("the expression is empty; write one such as 12 * (7 + 5)")
    if unknown := _UNKNOWN.search(_NUMBER.sub(" ", text)):
        raise InvalidArguments(f"{unknown[0]!r} is unknown; only numbers and + - * / // % ** ( ) are allowed")
    # Python would round decimal numbers, so each is a name while Python parses the rest.
    numbers = [_number(match) for match in _NUMBER.finditer(text)]
    names = iter(range(len(numbers)))
    try:
        tree = ast.parse(_NUMBER.sub(lambda _: f" n{next(names)} ", text).strip(), mode="eval")
    except SyntaxError as error:
        raise InvalidArguments(f"the expression is not valid: {error.msg}") from None
    except (RecursionError, MemoryError):
        raise _too_deep() from None
    try:
        value = _value(tree.body, numbers, 0)
        if isinstance(value, Fraction):
            return value.numerator if value.denominator == 1 else float(value)
    except ZeroDivisionError:
        raise InvalidArguments("division by zero") from None
    except OverflowError:
        raise _too_large() from None
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _number(match: re.Match[str]) -> Fraction:
    exponent = match["exponent"] or "0"
    if len(exponent) > 5 or abs(int(exponent)) > _MAX_BITS // 4:
        raise InvalidArguments("a number is too large or too small")
    return Fraction(match[0].replace(",", ""))


def _value(node: ast.expr, numbers: list[Fraction], depth: int) -> _Number:
    if depth > MAX_DEPTH:
        raise _too_deep()
    row = []
    while isinstance(node, ast.BinOp):  # a sum of a thousand numbers is nested a thousand times, to the left
        row.append(node)
        node = node.left
    value: _Number
    if isinstance(node, ast.Name):
        value = _bounded(numbers[int(node.id[1:])])
    elif isinstance(node, ast.UnaryOp):
        value = _value(node.operand, numbers, depth + 1)
        value = -value if isinstance(node.op, ast.USub) else value
    else:
        raise InvalidArguments("the expression is not valid: an operator or a number is missing")
    for each in reversed(row):
        value = _bounded(_OPERATORS[type(each.op)](value, _value(each.right, numbers, depth + 1)))
    return value


def _power(base: _Number, exponent: _Number) -> _Number:
    if isinstance(base, Fraction) and isinstance(exponent, Fraction) and exponent.denominator == 1:
        if (_bits(base) - 1) * abs(exponent) > _MAX_BITS:
            raise _too_large()
        return Fraction(base**exponent.numerator)
    power = float(base) ** float(exponent)
    if isinstance(power, complex):
        raise InvalidArguments("a negative number to a fractional power has no real value")
    return float(power)


_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}


def _bits(value: Fraction) -> int:
    return max(value.numerator.bit_length(), value.denominator.bit_length())


def _bounded(value: _Number | int) -> _Number:
    if isinstance(value, int):
        value = Fraction(value)
    if _bits(value) > _MAX_BITS if isinstance(value, Fraction) else not math.isfinite(value):
        raise _too_large()
    return value


def _too_large() -> InvalidArguments:
    return InvalidArguments(f"the number is too large (at most {_MAX_BITS} bits)")


def _too_deep() -> InvalidArguments:
    return InvalidArguments(f"the expression is nested more than {MAX_DEPTH} levels deep")


def echo(text: str) -> str:
    """Give a text back unchanged.

    Args:
        text: The text to give back.
    """
    return text


def calculator(expression: str) -> int | float:
    """Work out an arithmetic expression exactly.

    Args:
        expression: Numbers, + - * / // % **, and parentheses, such as "12 * (7 + 5)".
    """

    return evaluate(expression)


def timestamp(ctx: Context, zone: str = "UTC") -> str:
    """Tell the current date and time, such as "2026-01-31T09:30:00Z".

    Args:
        zone: Name of the time zone, such as "Europe/Paris".
    """
    from datetime import UTC, datetime

    now = datetime.fromtimestamp(int(ctx.clock.now() // 1), UTC)
    if zone == "UTC":
        return now.strftime("%Y-%m-%dT%H:%M:%SZ")
    from zoneinfo import ZoneInfo

    try:
        return now.astimezone(ZoneInfo(zone)).isoformat()
    except (ValueError, OSError, LookupError) as error:  # a wrong form, a folder of names, or no such zone
        raise InvalidArguments(f"zone: there is no time zone {zone!r}; give one such as 'Europe/Paris'") from error
