"""The runs of a store: one object per store, shared by all agents that use it."""

__all__ = ["runs_of"]

from weakref import WeakValueDictionary

from ziggurat.core.store import Store
from ziggurat.runs.local import LocalRuns
from ziggurat.runs.runs import Runs
from ziggurat.runs.stored import StoredRuns

_by_store: "WeakValueDictionary[int, Runs]" = WeakValueDictionary()


def runs_of(store: Store | None) -> Runs:
    """Return the runs of a store; without one, runs of this process that are kept while they can be continued."""
    if store is None:
        local = LocalRuns()
        _by_store[id(local.store)] = local
        return local
    runs = _by_store.get(id(store))  # runs keep their store alive, so its id is not reused
    if runs is None:
        runs = _by_store[id(store)] = StoredRuns(store)
    return runs
