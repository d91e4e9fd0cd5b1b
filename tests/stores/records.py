"""Reading and writing the records of runs in a store of this process, from code that is not async."""

from collections.abc import Coroutine
from typing import Any, TypeVar

from ziggurat.agents import runs_of
from ziggurat.journal import LocalJournal
from ziggurat.stores import InMemoryStore

T = TypeVar("T")


def _at_once(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the value of a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        value: T = end.value
        return value
    raise AssertionError("a store of this process makes nobody wait")


def journal_of(store: InMemoryStore, run_id: str) -> LocalJournal:
    """Return a copy of a run's record."""
    return _at_once(runs_of(store).read(run_id))


def dump_of(store: InMemoryStore, run_id: str) -> bytes:
    """Return a run's record as JSON lines."""
    return journal_of(store, run_id).dump()


def ids_of(store: InMemoryStore) -> list[str]:
    """Return the ids of the runs, the latest first."""
    return [info.id for info in _at_once(store.logs("run:"))]


def plant(store: InMemoryStore, run_id: str, data: bytes, agent: str = "agent") -> None:
    """Put a record into a store."""
    _at_once(runs_of(store).plant(run_id, agent, LocalJournal.load(data).entries))
