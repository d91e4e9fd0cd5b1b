"""Checks for the arguments of stores; without them the mistake would surface in the store's thread."""

__all__ = ["check_path", "check_seconds", "check_synchronous"]

import os
from pathlib import Path

from ziggurat.core.errors import ConfigurationError


def check_path(path: object, store: object) -> Path:
    """Return where a store is to keep things.

    Raises:
        ConfigurationError: that is not a path.
    """
    if not isinstance(path, (str, Path)) or not os.fspath(path).strip() or "\0" in os.fspath(path):
        raise ConfigurationError(f"{type(store).__name__}() takes a path, such as 'agents.db'; got {path!r}")
    if isinstance(path, str) and path.startswith(("sqlite:", "file:")):
        raise ConfigurationError(f"{type(store).__name__}() takes a path; an address such as {path!r} is for connect()")
    return Path(path)


def check_seconds(store: object, **seconds: float) -> None:
    """Check times by their names.

    Raises:
        ConfigurationError: one is not a positive number.
    """
    for name, value in seconds.items():
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not 0 < value < float("inf"):
            raise ConfigurationError(
                f"{type(store).__name__}({name}=...) is a positive number of seconds, got {value!r}"
            )


def check_synchronous(store: object, synchronous: object) -> None:
    """Check how durable a database is to be.

    Raises:
        ConfigurationError: it is neither of the two ways.
    """
    if synchronous not in ("FULL", "NORMAL"):
        raise ConfigurationError(f"{type(store).__name__}(synchronous=...) is 'FULL' or 'NORMAL', got {synchronous!r}")
