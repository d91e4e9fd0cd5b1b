"""Short tests of crashes and power losses during writes; `make memory` has thousands."""

from pathlib import Path

import pytest

pytest.importorskip("apsw")

from tests.memory.losses import examine, missing, record, storm
from tests.samples import amount
from ziggurat.memory.stores.sqlite import SqliteMemoryStore


def test_two_processes_that_are_killed_lose_nothing_they_acknowledged(tmp_path: Path) -> None:
    said, lost = storm(tmp_path, amount(80, 240), amount(1, 3), seed=5)
    assert said > 40
    assert lost == []


async def test_a_loss_of_power_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    recording, names = await record(tmp_path, amount(20, 60))
    states, lost = await examine(recording, names, every=amount(15, 7), seed=3)
    assert states > 5
    assert lost == []


async def test_what_is_lost_is_seen(tmp_path: Path) -> None:
    store = SqliteMemoryStore(tmp_path / "memory.db", synchronous="NORMAL")
    assert len(await missing(store, ["m1", "m2"])) == 6
    await store.close()
