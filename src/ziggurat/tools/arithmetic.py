"""Evaluate arithmetic from text without ``eval``: exact, and bounded in time and memory."""

import math
import re
from fractions import Fraction

from ziggurat.core.errors import InvalidArguments

MAX_LENGTH = 2000
"""Characters an expression may have."""

MAX_DEPTH = 50
"""How deep parentheses, signs and powers may be nested."""

MAX_BITS = 14_000
"""Bits of the largest whole number, just below Python's default limit for printing (4,300 digits)."""

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)"
    r"|(?P<sign>\*\*|//|[-+*/%^()\u00d7\u00f7\u2212])|(?P<word>\w+)|(?P<other>\S))",
    re.ASCII,
)
_SAME = {"\u00d7": "*", "\u00f7": "/", "\u2212": "-", "^": "**"}
_SIGNS = "+ - * / // % ** ( )"
_POWER = 4
_BINARY = {"+": 1, "-": 1, "*": 2, "/": 2, "//": 2, "%": 2, "**": _POWER}
_SIGN = 3

Number = int | Fraction | float


def evaluate(expression: str) -> int | float:
    """Evaluate an expression of numbers, signs, parentheses and ``+ - * / // % **`` (also ``^``, U+00D7, U+00F7 and
    U+2212).

    Numbers are exact fractions until the end, so ``0.1 + 0.2`` is 0.3 and ``6 / 2`` is the integer 3; only a power
    with a fractional exponent is rounded on the way. The operators bind as in Python.

    Raises:
        InvalidArguments: it is not an expression, divides by zero or grows too large; the message names the position,
            counted from 1.
    """
    if len(expression) > MAX_LENGTH:
        raise InvalidArguments(f"the expression has {len(expression)} characters; at most {MAX_LENGTH} are allowed")
    value = _Parser(expression).whole()
    if isinstance(value, Fraction):
        if value.denominator == 1:
            return value.numerator
        try:
            return float(value)
        except OverflowError:
            raise InvalidArguments("the result is a fraction too large to write; use // for whole numbers") from None
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


class _Parser:
    """Precedence climbing over the tokens of one expression."""

    def __init__(self, text: str) -> None:
        self.tokens = [
            (kind, _SAME.get(match[kind], match[kind]), match.start(kind) + 1)
            for match in _TOKEN.finditer(text)
            if (kind := match.lastgroup)
        ]
        self.tokens.append(("end", "", len(text) + 1))
        self.index = 0
        self.depth = 0

    def whole(self) -> Number:
        if self.tokens[0][0] == "end":
            raise InvalidArguments("the expression is empty; write one such as 12 * (7 + 5)")
        value = self.climb(1)
        kind, text, position = self.tokens[self.index]
        if kind != "end":
            expected = "an operator before" if kind == "number" or text == "(" else "the end instead of"
            raise InvalidArguments(f"expected {expected} {text!r} at character {position}")
        return value

    def climb(self, lowest: int) -> Number:
        """Parse and apply the operators that bind at least this tightly."""
        left = self.operand()
        while (strength := _BINARY.get(self.tokens[self.index][1], 0)) >= lowest:
            _, operator, position = self.tokens[self.index]
            self.index += 1
            # A power groups to the right, and its exponent may have a sign: 2 ** -1.
            right = self.deeper(_SIGN, position) if operator == "**" else self.climb(strength + 1)
            left = _apply(operator, left, right, position)
        return left

    def deeper(self, lowest: int, position: int) -> Number:
        if self.depth >= MAX_DEPTH:
            raise InvalidArguments(f"nested more than {MAX_DEPTH} levels deep at character {position}")
        self.depth += 1
        value = self.climb(lowest)
        self.depth -= 1
        return value

    def operand(self) -> Number:
        kind, text, position = self.tokens[self.index]
        self.index += 1
        if kind == "number":
            return _number(text, position)
        if text in ("+", "-"):
            value = self.deeper(_SIGN, position)
            return -value if text == "-" else value
        if text == "(":
            value = self.deeper(1, position)
            if self.tokens[self.index][1] != ")":
                raise InvalidArguments(f"the parenthesis at character {position} is not closed")
            self.index += 1
            return value
        if kind == "end":
            raise InvalidArguments(f"expected a number at the end (character {position})")
        if kind == "word":
            raise InvalidArguments(f"{text!r} at character {position} is not known; only numbers and {_SIGNS}")
        raise InvalidArguments(f"expected a number instead of {text!r} at character {position}")


def _number(text: str, position: int) -> Number:
    digits, _, exponent = text.replace(",", "").lower().partition("e")
    if not exponent and "." not in digits:
        return _bounded(int(digits), position)
    if len(exponent) > 5 or abs(int(exponent or 0)) > MAX_BITS // 4:
        raise InvalidArguments(f"the number at character {position} is too large or too small")
    return _bounded(Fraction(digits.rstrip(".") or "0") * Fraction(10) ** int(exponent or 0), position)


def _apply(operator: str, left: Number, right: Number, position: int) -> Number:
    if right == 0 and operator in ("/", "//", "%"):
        raise InvalidArguments(f"division by zero at character {position}")
    try:
        if operator == "**":
            return _power(left, right, position)
        value: Number
        if operator == "+":
            value = left + right
        elif operator == "-":
            value = left - right
        elif operator == "*":
            value = left * right
        elif operator == "/":
            value = left / right if isinstance(left, float) or isinstance(right, float) else Fraction(left) / right
        elif operator == "//":
            value = left // right
        else:
            value = left % right
    except OverflowError:
        raise _too_large(position) from None
    return _bounded(value, position)


def _power(base: Number, exponent: Number, position: int) -> Number:
    if base == 0 and exponent < 0:
        raise InvalidArguments(f"division by zero at character {position}: 0 to a negative power")
    if isinstance(exponent, Fraction) and exponent.denominator == 1:
        exponent = exponent.numerator
    if isinstance(exponent, int) and not isinstance(base, float):
        if base in (0, 1):
            return base if exponent else 1
        if base == -1:
            return 1 if exponent % 2 == 0 else -1
        if (_bits(base) - 1) * abs(exponent) > MAX_BITS:
            raise _too_large(position)
        return _bounded(Fraction(base) ** exponent, position)
    if base < 0 and exponent % 1:
        raise InvalidArguments(f"a negative number to a fractional power has no real value (character {position})")
    return _bounded(float(base) ** float(exponent), position)


def _bits(value: int | Fraction) -> int:
    return max(value.numerator.bit_length(), value.denominator.bit_length())


def _bounded(value: Number, position: int) -> Number:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _too_large(position)
    elif _bits(value) > MAX_BITS:
        raise _too_large(position)
    return value


def _too_large(position: int) -> InvalidArguments:
    return InvalidArguments(f"the number is too large at character {position} (at most {MAX_BITS} bits)")
