"""Check the permissions and validators that a tool is declared with, and call the validators."""

__all__ = ["Validator", "complaint_of", "declared_permissions", "functions"]

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ziggurat.core.errors import ConfigurationError, ToolError
from ziggurat.tools.permissions import known
from ziggurat.tools.results import ended_by

Validator = Callable[..., str | None]
"""Called with a tool's arguments; returns what is wrong with them, or None."""


def declared_permissions(permissions: Sequence[str] | None) -> tuple[str, ...]:
    """Return the permissions that a tool declares as a tuple, empty for None.

    Raises:
        ConfigurationError: they are not a list of strings, or one has no known name.
    """
    if isinstance(permissions, str):
        raise ConfigurationError(f"permissions is a list, such as [{permissions!r}]; got the string {permissions!r}")
    if permissions is None:
        return ()
    given = tuple(permissions) if isinstance(permissions, Iterable) else (None,)
    if not all(isinstance(each, str) for each in given):
        raise ConfigurationError(f"permissions is a list of strings, such as ['network']; got {permissions!r}")
    known(given)
    return given


def functions(validators: Sequence[Validator], name: str) -> tuple[Validator, ...]:
    """Return a tool's validators as a tuple.

    Raises:
        ConfigurationError: they are not a list of functions, or one of them is async.
    """
    given = tuple(validators) if isinstance(validators, Iterable) else (None,)
    if not all(map(callable, given)):
        raise ConfigurationError(
            f"validators of {name} is a list of functions of its arguments: validators=[check]; got {validators!r}"
        )
    if any(map(inspect.iscoroutinefunction, given)):
        raise ConfigurationError(f"the validators of {name} are not awaited: write def, not async def")
    return given


def complaint_of(validator: Validator, arguments: dict[str, Any]) -> str | None:
    """Return what a validator finds wrong with a call's arguments, or None.

    Raises:
        ToolError: it returned neither text nor None, or raised SystemExit or similar.
    """
    try:
        wrong: object = validator(**arguments)
    except Exception:
        raise
    except BaseException as error:
        raise ended_by(error) from error
    if wrong is None or isinstance(wrong, str):
        return wrong
    name = getattr(validator, "__name__", "a validator")
    raise ToolError(
        f"{name} must return what is wrong with the arguments, or None; it returned a {type(wrong).__name__}"
    )
