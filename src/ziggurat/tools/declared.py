"""The permissions and validators that a tool is declared with."""

__all__ = ["Validator", "complaint_of", "declared_permissions"]

from collections.abc import Callable, Iterable
from typing import Any

from ziggurat.core.errors import ToolError
from ziggurat.tools.permissions import known
from ziggurat.tools.results import ended_by

Validator = Callable[..., str | None]
"""Called with a tool's arguments; returns what is wrong with them, or None."""


def declared_permissions(permissions: Iterable[str] | None) -> tuple[str, ...]:
    """Return the permissions that a tool declares as a tuple, empty for None.

    Raises:
        ConfigurationError: one has no known name.
    """
    if permissions is None:
        return ()
    declared = tuple(permissions)
    known(declared)
    return declared


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
