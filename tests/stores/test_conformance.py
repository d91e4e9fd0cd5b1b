"""Every store of this package passes the conformance checks."""

import asyncio
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from tests.samples import sample
from tests.stores.places import PLACES
from tests.stores.server import schema
from ziggurat.core.clock import Clock
from ziggurat.journal import LogInfo, Store
from ziggurat.stores import FileStore, InMemoryStore, PostgresStore, SqliteStore
from ziggurat.testing import CHECKS, run_check
from ziggurat.testing.stores import Check, Factory


def _memory(folder: Path) -> Factory:
    place = InMemoryStore()
    return lambda clock: InMemoryStore(clock=clock, shared=place)


def _file(folder: Path) -> Factory:
    return lambda clock: FileStore(folder / "runs", clock=clock)


def _sqlite(folder: Path) -> Factory:
    return lambda clock: SqliteStore(folder / "runs.db", clock=clock)


def _fast(folder: Path) -> Factory:
    return lambda clock: SqliteStore(folder / "runs.db", synchronous="NORMAL", clock=clock)


def _postgres(folder: Path) -> Factory:
    url = schema()
    return lambda clock: PostgresStore(url, clock=clock)


STORES: dict[str, Callable[[Path], Factory]] = {
    "memory": _memory,
    "file": _file,
    "sqlite": _sqlite,
    "fast": _fast,
    "postgres": _postgres,
}


CASES = [
    *product([kind for kind in STORES if kind != "sqlite"], CHECKS),
    *product(["sqlite"], sample(CHECKS, 10)),  # `fast` is the same with other flushes
]


@pytest.mark.parametrize(("kind", "check"), CASES, ids=lambda each: getattr(each, "__name__", each))
def test_stores_do_what_stores_must(kind: str, check: Check, tmp_path: Path) -> None:
    run_check(check, STORES[kind](tmp_path))


def test_the_checks_notice_a_store_that_forgets(tmp_path: Path) -> None:
    class Forgetful(InMemoryStore):
        async def delete(self, log: str) -> bool:
            return False

    def factory(clock: Clock) -> Store:
        return Forgetful(clock=clock)

    failing = next(check for check in CHECKS if check.__name__ == "logs_are_removed")
    with pytest.raises(AssertionError):
        run_check(failing, factory)


@pytest.mark.parametrize("turns", range(4))
@pytest.mark.parametrize("kind", PLACES)
async def test_it_may_be_closed_again_whatever_was_in_progress(kind: str, turns: int, tmp_path: Path) -> None:
    store = PLACES[kind](tmp_path)()
    await store.logs()
    created = [asyncio.ensure_future(store.create(LogInfo(f"run:{each}", "desk"))) for each in range(5)]
    for _ in range(turns):
        await asyncio.sleep(0)
    await asyncio.gather(store.close(), *created, return_exceptions=True)
    await store.close()
