"""Ids and numbers as they come in paths, headers, queries and bodies."""

import re
from collections.abc import Mapping

from ziggurat.core.errors import ConfigurationError

_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")


def check_id(text: str) -> str:
    """Return an id that may name a run."""
    if not _ID.fullmatch(text):
        raise ConfigurationError(f"an id has letters, digits and . _ - (at most 128), got {text!r:.150}")
    return text


def read_number(query: Mapping[str, str], name: str, default: int, *, least: int = 0, most: int = 999_999_999) -> int:
    """Return a number of a query."""
    text = query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 10 and least <= int(text) <= most):
        raise ConfigurationError(f"{name} is a whole number from {least} to {most}, got {text!r:.50}")
    return int(text)
