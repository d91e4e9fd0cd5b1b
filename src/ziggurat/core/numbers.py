"""Whether a setting is a number: True and infinity are numbers to Python, but nobody means them."""

__all__ = ["is_finite"]

from math import isfinite
from typing import TypeGuard


def is_finite(value: object) -> TypeGuard[float]:
    """Return whether a value is a whole or floating-point number that is finite, and no bool."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return isfinite(value)
    except OverflowError:  # a whole number that no float can hold
        return False
