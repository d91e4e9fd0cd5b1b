"""Several stores of one process on one database, while other processes come and go."""

import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.samples import sample
from ziggurat.journal import LogInfo
from ziggurat.knowledge import GraphStore
from ziggurat.memory.stores.sqlite import SqliteMemoryStore
from ziggurat.stores import SqliteStore
from ziggurat.testing.stores import rows

COUNTS = """
import asyncio, sys
from ziggurat.stores.sqlite import SqliteStore

async def main():
    store = SqliteStore(sys.argv[1])
    print(len(await store.read("run:r")))
    await store.close()

asyncio.run(main())
"""


def _count_elsewhere(path: Path) -> int:
    """Return the number of rows that another process finds; it closes the database afterwards."""
    found = subprocess.run([sys.executable, "-c", COUNTS, str(path)], capture_output=True, text=True, check=True)
    return int(found.stdout)


async def _memory(path: Path) -> None:
    store = SqliteMemoryStore(path)
    await store.get(["nothing"])
    await store.close()


async def _graph(path: Path) -> None:
    store = GraphStore(path)
    await store.graph()
    await store.close()


async def _runs(path: Path) -> None:
    store = SqliteStore(path)
    await store.logs()
    await store.close()


@pytest.mark.parametrize("second", sample([_memory, _graph, _runs], 1))
async def test_nothing_is_lost_when_another_store_of_the_process_opens_the_file(
    tmp_path: Path, second: Callable[[Path], Awaitable[None]]
) -> None:
    """A second opening must not drop the first connection's locks: another process would then remove its log."""
    path, first = tmp_path / "runs.db", rows(3)
    store = SqliteStore(path)
    await store.create(LogInfo("run:r", "agent"), first[:1])
    await second(path)
    assert _count_elsewhere(path) == 1
    await store.append("run:r", 1, first[1:2])
    assert _count_elsewhere(path) == 2
    await store.append("run:r", 1, first[2:])
    await store.close()
    assert _count_elsewhere(path) == 3
