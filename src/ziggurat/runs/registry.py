"""The runs of a store: one object per store, shared by all agents that use it."""

__all__ = ["runs_of"]

from ziggurat.core.store import Store
from ziggurat.runs.local import LocalRuns
from ziggurat.runs.runs import BY_STORE, Runs


def runs_of(store: str | Store | None) -> Runs:
    """Return the runs of a store; without one, runs of this process that are kept while they can be continued.

    Raises:
        ConfigurationError: there is no store at the address, or it is no store.
    """
    if store is None:
        return LocalRuns()
    from ziggurat.runs.stored import StoredRuns
    from ziggurat.stores.addresses import connect

    store = connect(store)
    runs = BY_STORE.get(id(store))  # runs keep their store alive, so its id is not reused
    if runs is None:
        runs = BY_STORE[id(store)] = StoredRuns(store)
    return runs
