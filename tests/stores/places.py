"""The places where tests keep runs: each is opened anew as the next process would open it."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from ziggurat.core.store import Store
from ziggurat.stores.file import FileStore
from ziggurat.stores.memory_rows import MemoryRows
from ziggurat.stores.sqlite import SqliteStore

Place = Callable[[], Store]
"""Opens the same place again, with new objects that share nothing but what is written."""


def _memory(folder: Path) -> Place:
    place = MemoryRows()
    return lambda: MemoryRows(shared=place)


PLACES: dict[str, Callable[[Path], Place]] = {
    "memory": _memory,
    "file": lambda folder: lambda: FileStore(folder / "runs"),
    "sqlite": lambda folder: lambda: SqliteStore(folder / "runs.db", synchronous="NORMAL"),
}


def closed(*stores: Store) -> None:
    """Close stores, as the end of a process does in good order."""

    async def main() -> None:
        for store in stores:
            await store.close()

    asyncio.run(main())
