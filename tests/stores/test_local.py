"""The store of this process shows other threads only what is whole."""

from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

from ziggurat.journal import LogInfo, Row
from ziggurat.stores import InMemoryStore

T = TypeVar("T")
LOG = "run:r-1"


def at_once(call: Coroutine[Any, Any, T]) -> T:
    """Return the result of a call that waits for nothing."""
    try:
        call.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("the call waits")


class Watched(list[Row]):
    """Rows that look at the store while they are taken, as another thread may at any moment."""

    def __init__(self, store: InMemoryStore, *rows: Row) -> None:
        super().__init__(rows)
        self.store = store
        self.counts: list[int | None] = []

    def __iter__(self) -> Iterator[Row]:
        for row in (*super().__iter__(), None):
            info = at_once(self.store.find(LOG))
            self.counts.append(None if info is None else info.count)
            if row is not None:
                yield row


async def test_a_log_appears_with_its_rows_and_counts_only_those_that_are_there() -> None:
    store = InMemoryStore()
    rows = Watched(store, Row(1, "a", b"{}", "running"), Row(2, "b", b"{}", "running"))
    epoch = await store.create(LogInfo(LOG), rows)
    assert rows.counts == [None, None, None]

    more = Watched(store, Row(3, "c", b"{}", "running"))
    await store.append(LOG, epoch, more)
    assert more.counts == [2, 2]
    info = await store.find(LOG)
    assert info is not None
    assert info.count == 3 == len(await store.read(LOG))
