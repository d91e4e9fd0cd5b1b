"""What settings are held to where they are given."""

__all__ = ["is_finite", "is_function"]

from inspect import iscoroutinefunction
from math import isfinite
from typing import TypeGuard


def is_finite(value: object) -> TypeGuard[float]:
    """Return whether a value is a whole or floating-point number that is finite.

    True and infinity are numbers to Python, but nobody means them.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return isfinite(value)
    except OverflowError:  # a whole number that no float can hold
        return False


def is_function(value: object) -> bool:
    """Return whether a value can be called for a plain answer: what must be awaited is always true."""
    return callable(value) and not iscoroutinefunction(value)
