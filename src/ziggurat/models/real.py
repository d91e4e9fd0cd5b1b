"""Forbid calls to real models, so that no test spends money by mistake."""

import os
from contextlib import AbstractContextManager, ExitStack

from ziggurat.core.errors import ConfigurationError

FORBID_VARIABLE = "ZIGGURAT_FORBID_REAL_CALLS"

_NO = frozenset({"", "0", "false", "no", "off"})


class _Switch:
    """The setting for the whole process; None leaves it to the environment variable."""

    forbidden: bool | None = None


def _set(forbidden: bool) -> ExitStack:
    """Change the setting at once; a ``with`` block undoes it at its end."""
    undo = ExitStack()
    undo.callback(setattr, _Switch, "forbidden", _Switch.forbidden)
    _Switch.forbidden = forbidden
    return undo


def forbid_real_calls() -> AbstractContextManager[object]:
    """Refuse every call to a real model from now on, in all threads; or within a block only.

    Servers on this machine (loopback) are called all the same.

    ::

        with forbid_real_calls():
            agent.run_sync("...")       # raises if it would reach a provider
    """
    return _set(True)


def allow_real_calls() -> AbstractContextManager[object]:
    """Allow calls to real models from now on, whatever the environment says; or within a block only."""
    return _set(False)


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
