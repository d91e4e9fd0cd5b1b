"""Forbid calls to real models, so that no test spends money by mistake."""

import os
from types import TracebackType

from ziggurat.core.errors import ConfigurationError

FORBID_VARIABLE = "ZIGGURAT_FORBID_REAL_CALLS"
"""The environment variable that forbids real calls if set to 1."""

_NO = frozenset({"", "0", "false", "no", "off"})


class _Switch:
    """The setting for the whole process; None leaves it to the environment variable."""

    forbidden: bool | None = None


class _Setting:
    """A setting that applies immediately; in a ``with`` block it is undone at the end."""

    __slots__ = ("_before",)

    def __init__(self, forbidden: bool) -> None:
        self._before = _Switch.forbidden
        _Switch.forbidden = forbidden

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _Switch.forbidden = self._before


def forbid_real_calls() -> _Setting:
    """Refuse every call to a real model from now on, in all threads; or within a block only.

    ::

        with forbid_real_calls():
            agent.run_sync("...")       # raises if it would reach a provider
    """
    return _Setting(True)


def allow_real_calls() -> _Setting:
    """Allow calls to real models from now on, whatever the environment says; or within a block only."""
    return _Setting(False)


def require_real_calls_allowed(model_name: str) -> None:
    """Raise if real calls are forbidden; models that call a provider check this before each call.

    Raises:
        ConfigurationError: real calls are forbidden; the message says why, and what to use instead.
    """
    forbidden = _Switch.forbidden
    if forbidden is None:
        if os.environ.get(FORBID_VARIABLE, "").strip().lower() in _NO:
            return
        by = f"the environment variable {FORBID_VARIABLE}"
    elif forbidden:
        by = "forbid_real_calls()"
    else:
        return
    raise ConfigurationError(
        f"a call to the real model {model_name!r} was refused: {by} forbids them here. Use ScriptedModel or "
        "FunctionModel in its place, or wrap what may call it in `with allow_real_calls():`"
    )
