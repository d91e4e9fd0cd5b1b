"""Lists that are declared of a tool, held to what they must be where they are given."""

__all__ = ["Validator", "functions", "listed"]

from collections.abc import Callable, Iterable, Sequence

from ziggurat.core.errors import ConfigurationError
from ziggurat.tools.permissions import known

Validator = Callable[..., str | None]
"""Called with a tool's arguments; returns what is wrong with them, or None."""


def listed(permissions: Sequence[str] | None) -> tuple[str, ...]:
    """Return the permissions that a tool declares, none for None.

    Raises:
        ConfigurationError: they are no list of texts, or one has no known name.
    """
    if isinstance(permissions, str):
        raise ConfigurationError(f"permissions is a list, such as [{permissions!r}]; got the text {permissions!r}")
    if permissions is None:
        return ()
    given = tuple(permissions) if isinstance(permissions, Iterable) else (None,)
    if not all(isinstance(each, str) for each in given):
        raise ConfigurationError(f"permissions is a list of texts, such as ['network']; got {permissions!r}")
    known(given)
    return given


def functions(validators: Sequence[Validator], name: str) -> tuple[Validator, ...]:
    """Return what checks the arguments of a tool.

    Raises:
        ConfigurationError: that is no list of functions.
    """
    given = tuple(validators) if isinstance(validators, Iterable) else (None,)
    if not all(map(callable, given)):
        raise ConfigurationError(
            f"validators of {name} is a list of functions of its arguments: validators=[check]; got {validators!r}"
        )
    return given
