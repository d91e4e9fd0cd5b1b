"""Stores in a forked process, such as a worker of gunicorn, Celery or multiprocessing."""

import os
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from ziggurat.databases.writer import closed_when_unused

P = ParamSpec("P")
S = TypeVar("S")

_stores: "WeakKeyDictionary[Any, Callable[[Any], None]]" = WeakKeyDictionary()
_abandoned: list[dict[str, Any]] = []


def reopened_after_fork(init: Callable[Concatenate[S, P], None]) -> Callable[Concatenate[S, P], None]:
    """Make a store open its own connection in a forked process: decorate its `__init__`, which runs there again."""

    @wraps(init)
    def opened(store: S, /, *args: P.args, **options: P.kwargs) -> None:
        init(store, *args, **options)
        _stores[store] = lambda again: init(again, *args, **options)

    return opened


def _reopen() -> None:
    for store, init in list(_stores.items()):
        # Connections and locks of the parent are kept and never closed: closing them here would end them there, too.
        _abandoned.append(vars(store).copy())
        with closed_when_unused():
            init(store)


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_reopen)
