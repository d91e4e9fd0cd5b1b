"""Checks for the numbers that compaction takes as settings."""

__all__ = ["check_number", "check_whole"]

from ziggurat.core.errors import ConfigurationError


def check_whole(what: str, value: object, minimum: int = 1) -> None:
    """Raise unless a setting is a whole number of at least `minimum`.

    Args:
        what: The name of the setting, such as ``"Recent(tokens=...)"``.
        value: The value.
        minimum: The lowest valid value.

    Raises:
        ConfigurationError: it is not.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
        raise ConfigurationError(f"{what} must be a whole number of at least {minimum}, got {value!r:.200}")


def check_number(what: str, value: object) -> float:
    """Return a setting, or raise if it is not a number or is NaN.

    Raises:
        ConfigurationError: it is not a number.
    """
    if not isinstance(value, (int, float)) or isinstance(value, bool) or value != value:
        raise ConfigurationError(f"{what} must be a number, got {value!r:.200}")
    return value
