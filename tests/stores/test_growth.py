"""What a process keeps in memory of runs that have ended: nothing, however many there were."""

import asyncio
import gc
import sys
from collections import OrderedDict, deque
from collections.abc import Callable
from pathlib import Path
from types import BuiltinFunctionType, FrameType, FunctionType, ModuleType
from typing import Any

import pytest

from tests.faults.power import HastyDisk
from tests.samples import amount, sample
from tests.stores.server import schema
from ziggurat import Agent
from ziggurat.models import FunctionModel
from ziggurat.stores import FileStore, InMemoryStore, PostgresStore, SqliteStore

_CONTAINERS = (dict, list, set, frozenset, tuple, deque, OrderedDict)
_APART = (ModuleType, type, FunctionType, BuiltinFunctionType, FrameType, asyncio.AbstractEventLoop)

STORES: dict[str, tuple[int, Callable[[Path], Any]]] = {
    "none": (10_000, lambda folder: None),
    "memory": (1_000, lambda folder: InMemoryStore(limit=10)),
    "file": (200, lambda folder: FileStore(folder / "runs", disk=HastyDisk())),
    "sqlite": (500, lambda folder: SqliteStore(folder / "runs.db", synchronous="NORMAL")),
    "postgres": (200, lambda folder: PostgresStore(schema())),
}
"""Numbers of runs, and stores; without one the number is that of a busy day."""

_IMPORTED = ("__loader__", "__spec__")
"""What the import system keeps of a module: with the loader of pytest, all tests of the process."""

_OUTSIDE = ("file", "sqlite", "postgres")
"""Those that keep conversations outside of the process."""


def _size(*roots: object) -> int:
    """Return how many items there are in all containers that can be reached, those of the package's modules too."""
    modules = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] == "ziggurat"]
    kept = (value for module in modules for name, value in vars(module).items() if name not in _IMPORTED)
    waiting: list[object] = [*roots, *kept]
    seen, size = set[int](), 0
    while waiting:
        each = waiting.pop()
        if id(each) in seen or isinstance(each, _APART):
            continue
        seen.add(id(each))
        if isinstance(each, _CONTAINERS):
            size += len(each)
        waiting += gc.get_referents(each)
    return size


@pytest.mark.parametrize("kind", sample(STORES, 2))
async def test_what_is_kept_in_memory_does_not_grow_with_runs(tmp_path: Path, kind: str) -> None:
    most, opens = STORES[kind]
    count = amount(min(most, 150), most)
    store = opens(tmp_path)
    agent = Agent(FunctionModel(lambda messages: "Done."), store=store)

    async def runs(first: int, number: int) -> None:
        for each in range(first, first + number):
            name = f"run-{each}" if each % 2 else None
            session = f"session-{each}" if each % 2 and kind in _OUTSIDE else None
            assert (await agent.run("q", run_id=name, session=session)).text == "Done."

    await runs(0, 250)  # fills caches that are bounded
    gc.collect()
    before = _size(agent, store)
    await runs(250, count)
    gc.collect()
    grown = _size(agent, store) - before
    if store is not None:
        await store.close()
    assert grown < count / 2, f"{grown} items more after {count} runs"
