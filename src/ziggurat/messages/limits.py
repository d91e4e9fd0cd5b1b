"""Limits on what a model, a person or a provider may send: they are checked before any work is done."""

import re
from itertools import accumulate
from typing import Any

import msgspec

from ziggurat.core.errors import InvalidArguments

MAX_ARGUMENTS = 4_000_000
"""Characters of JSON that the arguments of one call, or one answer, may have."""

MAX_CALLS = 1_024
"""Tool calls that one reply of a model may make; a model that makes more is asked to make fewer."""

MAX_LONG_NUMBERS = 250
"""Numbers of 20 digits and more in one JSON text. Python's hashes of them can be chosen to be all equal, so that a set
or the keys of a dictionary take the square of their number; those of smaller numbers cannot."""

MAX_DEPTH = 200
"""How many levels deep arrays and objects may be nested. Without it, decoders would accept more on some Pythons."""

_MAX_KEY = 60
"""Characters of a key or a name that are shown in an error."""


SHORT = 20 * MAX_LONG_NUMBERS
"""Characters up to which a text cannot be too long for `check_size`."""

_LONG_NUMBER = re.compile(r"(?<!\w)[0-9]{20,}+(?!\w)", re.ASCII)


def check_size(text: str | bytes, what: str = "the arguments") -> None:
    """Refuse a JSON text that is too long to be read."""
    if len(text) > MAX_ARGUMENTS:
        raise InvalidArguments(
            f"{what} have {len(text):,} characters; at most {MAX_ARGUMENTS:,} are read: send less at a time"
        )
    if len(text) > SHORT:
        whole = text if isinstance(text, str) else text.decode("latin-1")
        if sum(1 for _ in _LONG_NUMBER.finditer(whole)) > MAX_LONG_NUMBERS:
            raise InvalidArguments(
                f"{what} have more than {MAX_LONG_NUMBERS:,} numbers of 20 digits and more: send less at a time"
            )


_NO_BRACKETS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[^\[\]{}"]+', re.DOTALL)  # strings, and what is between them
_STEPS = {"[": 1, "{": 1, "]": -1, "}": -1}


def check_depth(text: str | bytes) -> None:
    """Refuse a JSON text that is nested too deeply to be decoded on every Python; takes linear time."""
    text = text if isinstance(text, str) else text.decode("latin-1")  # in UTF-8, brackets are single bytes
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    brackets = _NO_BRACKETS.sub("", text)
    if max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > MAX_DEPTH:
        raise msgspec.DecodeError(f"it is nested more than {MAX_DEPTH} levels deep")


def unique_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of a JSON text; for the standard library's ``object_pairs_hook``. Takes linear time.

    >>> unique_object([("a", 1), ("b", 2)])
    {'a': 1, 'b': 2}

    Raises:
        InvalidArguments: a key occurs twice, so that two parsers could read the object differently.
    """
    result = dict(pairs)
    if len(result) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                quoted = key if len(key) <= _MAX_KEY else f"{key[:_MAX_KEY]}..."
                raise InvalidArguments(f"{quoted}: given more than once; give it once")
            seen.add(key)
    return result
