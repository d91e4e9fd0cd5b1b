"""What tests give on purpose where something else is wanted."""

from typing import Any


def wrong(value: object) -> Any:
    """Return a value as it is, but hidden from the type checker: a door, not its type, is what must refuse it."""
    return value
