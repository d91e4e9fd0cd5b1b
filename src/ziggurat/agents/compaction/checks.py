"""Checks for the numbers that compaction takes as settings."""

__all__ = ["check_number", "check_whole"]

from ziggurat.core.errors import ConfigurationError


def check_whole(what: str, value: object, minimum: int = 1) -> None:
    """Refuse what is not a whole number of at least `minimum`.

    Args:
        what: How it is called where it is given, such as ``"Recent(tokens=...)"``.
        value: What was given.
        minimum: The lowest that makes sense.

    Raises:
        ConfigurationError: it is none.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
        raise ConfigurationError(f"{what} must be a whole number of at least {minimum}, got {value!r:.200}")


def check_number(what: str, value: object) -> float:
    """Return a number, and refuse what is none or not to be compared.

    Raises:
        ConfigurationError: it is none.
    """
    if not isinstance(value, (int, float)) or isinstance(value, bool) or value != value:
        raise ConfigurationError(f"{what} must be a number, got {value!r:.200}")
    return value
