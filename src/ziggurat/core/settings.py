"""Checks of setting values, used where settings are passed."""

__all__ = ["is_finite", "is_function"]

from inspect import iscoroutinefunction
from math import isfinite
from typing import TypeGuard


def is_finite(value: object) -> TypeGuard[float]:
    """Return whether a value is a finite int or float.

    Booleans and infinity are numbers in Python, but never meant as settings.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return isfinite(value)
    except OverflowError:  # an int too large for a float
        return False


def is_function(value: object) -> bool:
    """Return whether a value is a plain callable; a coroutine function is not, since a coroutine is always true."""
    return callable(value) and not iscoroutinefunction(value)
