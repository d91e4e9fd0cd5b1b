"""The store under test, for the conformance checks: opened as often as a check needs, with a clock by hand."""

import asyncio
from collections.abc import Awaitable, Callable

from ziggurat.core.clock import Clock
from ziggurat.core.store import Row, Store, chained
from ziggurat.testing.clock import HandClock

Factory = Callable[[Clock], Store]
"""Opens the store under test, each time as another process would."""

Check = Callable[["StoreUnderTest"], Awaitable[None]]


class StoreUnderTest:
    """The store under test, opened as often as a check needs, and the clock that it uses."""

    def __init__(self, factory: Factory) -> None:
        self.clock: HandClock = HandClock()
        self._factory = factory
        self._stores: list[Store] = []

    def open(self, clock: Clock | None = None) -> Store:
        """Open the store as another process would, optionally with its own clock."""
        store = self._factory(clock or self.clock)
        self._stores.append(store)
        return store

    async def close(self) -> None:
        """Close every store that was opened."""
        for store in self._stores:
            await store.close()


def run_check(check: Check, factory: Factory) -> None:
    """Run one check on a store.

    Raises:
        AssertionError: the store fails the check.
        ConfigurationError: the check or the factory is no function.
    """

    async def main() -> None:
        opened = StoreUnderTest(factory)
        try:
            await check(opened)
        finally:
            await opened.close()

    asyncio.run(main())


def rows(count: int, after: int = 0, before: str = "", status: str = "running") -> list[Row]:
    """Return consecutive rows."""
    result: list[Row] = []
    for number in range(after + 1, after + count + 1):
        data = b'{"entry":"Test","number":%d,"text":"\xc3\xa4 \\n"}' % number
        before = chained(before, data)
        result.append(Row(number, before, data, status))
    return result


async def refused(work: Awaitable[object], *kinds: type[Exception]) -> None:
    """Await an operation that must raise one of these errors."""
    try:
        await work
    except kinds:
        return
    raise AssertionError(f"it must be refused with {' or '.join(kind.__name__ for kind in kinds)}")
