"""The options of a run: dependencies, listeners, ids; checked when they are passed, before anything is written."""

__all__ = ["Deps", "RunOptions", "check_id", "check_options", "with_deps"]

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypedDict

from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.event import Listener
from ziggurat.core.scope import Key
from ziggurat.core.store import ID, is_id
from ziggurat.messages.agent import AgentRun
from ziggurat.messages.message import Message
from ziggurat.stores.session import Session
from ziggurat.tools.approval import APPROVALS
from ziggurat.tools.permissions import DECLARED_ONLY, GRANTS, narrow_grants

Deps = Mapping[Key[Any], Any] | Mapping[object, Any]
"""Dependencies of a run, read with ``ctx.scope[KEY]``; `object` because mypy joins keys of several types to it."""


class RunOptions(TypedDict, total=False):
    """The options of `run` other than the prompt."""

    history: Sequence[Message]
    deps: Deps | None
    listeners: Sequence[Listener]
    run_id: str | None
    session: str | Session | None
    detached: bool


def check_options(deps: Deps | None, listeners: Sequence[Listener], run_id: str | None = None) -> None:
    """Check the dependencies, listeners and id of a run.

    Raises:
        ConfigurationError: one of them has the wrong form; the message says how to give it.
    """
    if deps is not None:
        _check_deps(deps)
    if listeners != ():
        _check_listeners(listeners)
    if run_id is not None and (not isinstance(run_id, str) or not run_id or not is_id(run_id)):
        raise ConfigurationError(f"run_id must be {ID}, got {run_id!r:.200}")


def check_id(run_id: object) -> None:
    """Check that a value can be the id of a run; whether the run exists is checked later.

    Raises:
        ConfigurationError: it is a run, a list or similar.
    """
    if isinstance(run_id, AgentRun):
        raise ConfigurationError(f"a run is named by its id: give run.id ({run_id.id!r}), not the run")
    if not isinstance(run_id, Hashable):
        raise ConfigurationError(f"a run is named by its id, a string such as run.id; got {run_id!r:.200}")


def _check_deps(deps: Deps) -> None:
    wrong = next((key for key in deps if not isinstance(key, Key)), None) if isinstance(deps, Mapping) else deps
    if wrong is not None:
        raise ConfigurationError(
            "deps maps keys to values: make one with DB = Key[Database]('database') and pass deps={DB: db}; "
            f"got {'the key ' if isinstance(deps, Mapping) else ''}{wrong!r}"
        )


def _check_listeners(listeners: Sequence[Listener]) -> None:
    if not isinstance(listeners, Sequence) or isinstance(listeners, str):
        raise ConfigurationError(f"listeners is a list of functions of an event: listeners=[f]; got {listeners!r}")
    for each in listeners:
        if not callable(each):
            raise ConfigurationError(f"listeners must be callable with an event, sync or async; got {each!r}")


def with_deps(ctx: Context, deps: Deps | None) -> Context:
    """Return a context with these dependencies in its scope.

    Inside a run they can only restrict: approvals are added and grants are narrowed.
    """
    if not deps:
        return ctx
    values: dict[Any, Any] = dict(deps)
    if GRANTS in values:
        values[GRANTS] = narrow_grants(ctx, values[GRANTS])
    if APPROVALS in values:
        values[APPROVALS] = (*(ctx.scope.get(APPROVALS) or ()), *values[APPROVALS])
    if ctx.scope.get(DECLARED_ONLY):
        values[DECLARED_ONLY] = True
    return ctx.scoped(ctx.scope.with_values(values))
