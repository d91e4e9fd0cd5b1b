"""The stores in which tests keep runs; each can be reopened as another process would."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from tests.stores.server import schema
from ziggurat.journal import Store
from ziggurat.stores import FileStore, InMemoryStore, PostgresStore, SqliteStore

Place = Callable[[], Store]
"""Reopens the same place with new objects that share only the written data."""


def _memory(folder: Path) -> Place:
    place = InMemoryStore()
    return lambda: InMemoryStore(shared=place)


def _postgres(folder: Path) -> Place:
    url = schema()
    return lambda: PostgresStore(url)


PLACES: dict[str, Callable[[Path], Place]] = {
    "memory": _memory,
    "file": lambda folder: lambda: FileStore(folder / "runs"),
    "sqlite": lambda folder: lambda: SqliteStore(folder / "runs.db", synchronous="NORMAL"),
    "postgres": _postgres,
}
QUEUES = ("memory", "sqlite", "postgres")
"""Those from which workers take runs, and which pass live events."""

STORES = ("memory", "sqlite", "file")
"""Those that need no server."""


@asynccontextmanager
async def stores(kind: str, folder: Path, count: int = 2) -> AsyncIterator[list[Store]]:
    """Yield stores of a kind on the same place, as several processes have them; close them after the block."""
    place = PLACES[kind](folder)
    opened = [place() for _ in range(count)]
    try:
        yield opened
    finally:
        for store in opened:
            await store.close()


@contextmanager
def _closing() -> Iterator[list[Store]]:
    async def close() -> None:
        for store in opened:
            await store.close()

    opened: list[Store] = []
    try:
        yield opened
    finally:
        asyncio.run(close())


@contextmanager
def opening(kind: str, folder: Path) -> Iterator[Any]:
    """Yield a `Place` of a kind, ``"by reference"`` for one store in this process; close what it opened."""
    if kind == "by reference":
        here = InMemoryStore()
        yield lambda: here
        return
    opens = PLACES[kind](folder)

    def again() -> Store:
        opened.append(opens())
        return opened[-1]

    with _closing() as opened:
        yield again


_used: list[tuple[Callable[[], Store] | None, list[Store]]] = []


@contextmanager
def used(kind: str, folder: Path) -> Iterator[None]:
    """Make `new_store` open stores of a kind within the block; close them after it."""
    with _closing() as opened:
        _used.append((None if kind == "by reference" else PLACES[kind](folder), opened))
        try:
            yield
        finally:
            _used.pop()


def new_store() -> Any:
    """Return a new object for the store of the kind in use; an InMemoryStore if there is none."""
    opens, opened = _used[-1] if _used else (None, [])
    if opens is None:
        return InMemoryStore()
    opened.append(opens())
    return opened[-1]


async def close_opened() -> None:
    """Close the stores that were opened so far, in a test that opens more than a server has connections."""
    opened = _used[-1][1] if _used else []
    while opened:
        await opened.pop().close()


def reopened(store: Store) -> Store:
    """Return a new object on the same place, as in another process."""
    if isinstance(store, InMemoryStore):
        again: Store = InMemoryStore(shared=store)
    elif isinstance(store, FileStore):
        again = FileStore(store.path)
    elif isinstance(store, PostgresStore):
        again = PostgresStore(f"{store.address.secret}?schema={store.address.schema}")
    else:
        assert isinstance(store, SqliteStore)
        again = SqliteStore(store.path, synchronous="NORMAL")
    _used[-1][1].append(again)
    return again
