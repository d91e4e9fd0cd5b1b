"""Checks of store arguments; without them a mistake would surface only in the store's thread."""

__all__ = ["check_path", "check_seconds", "check_synchronous"]

import os
from pathlib import Path

from ziggurat.core.errors import ConfigurationError


def check_path(path: object, store: object) -> Path:
    """Return the path for a store's data.

    Raises:
        ConfigurationError: it is not a path.
    """
    if not isinstance(path, (str, Path)) or not os.fspath(path).strip() or "\0" in os.fspath(path):
        raise ConfigurationError(f"{type(store).__name__}() takes a path, such as 'agents.db'; got {path!r}")
    if isinstance(path, str) and path.startswith(("sqlite:", "file:")):
        raise ConfigurationError(f"{type(store).__name__}() takes a path; an address such as {path!r} is for connect()")
    return Path(path)


def check_seconds(store: object, **seconds: float) -> None:
    """Check numbers of seconds, given by argument name.

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
    """Check the durability mode of a SQLite database.

    Raises:
        ConfigurationError: it is neither "FULL" nor "NORMAL".
    """
    if synchronous not in ("FULL", "NORMAL"):
        raise ConfigurationError(f"{type(store).__name__}(synchronous=...) is 'FULL' or 'NORMAL', got {synchronous!r}")
