"""Disks that fail in a short run; `make faults` has longer ones."""

import contextlib
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

import pytest

pytest.importorskip("apsw")

from tests.faults.disk import STORES, FailingDisk, Outcome, Trouble, every_request
from tests.faults.flow_world import FlowWorld
from tests.faults.graph_world import GraphWorld
from tests.faults.plan_world import PlanWorld
from tests.faults.world import World
from tests.samples import amount, sample
from ziggurat.errors import StoreError
from ziggurat.journal import Row
from ziggurat.stores import FileStore


@pytest.mark.parametrize(
    ("store", "which", "often"), sample(product(STORES, ["full", "broken", "flush"], [1, 1_000_000_000]), 4)
)
async def test_a_run_that_cannot_be_stored_stops_and_goes_on_when_there_is_room(
    store: str, which: str, often: int
) -> None:
    outcome = Outcome()
    await every_request(STORES[store], which, often, 3, outcome, amount(8, 2))
    assert not outcome.verdict, outcome.verdict
    assert outcome.faults >= amount(1, 3)


@pytest.mark.parametrize(("store", "makes"), sample(product(["file", "sqlite"], [FlowWorld, GraphWorld, PlanWorld]), 1))
async def test_planned_work_that_cannot_be_stored_stops_and_goes_on_when_there_is_room(
    store: str, makes: type[World]
) -> None:
    outcome = Outcome()
    await every_request(STORES[store], "full", 1, 4, outcome, amount(24, 4), makes)
    assert not outcome.verdict, outcome.verdict
    assert outcome.faults >= amount(1, 3)


async def test_a_store_that_passes_failures_over_is_found_out() -> None:
    class Careless(FileStore):
        async def append(  # type: ignore[override]
            self,
            log: str,
            epoch: int,
            rows: Sequence[Row],
            blobs: Mapping[str, bytes] | None = None,
            *,
            release: bool = False,
            due: float | None = None,
            read: int | None = None,
        ) -> None:
            with contextlib.suppress(StoreError):
                await super().append(log, epoch, rows, blobs, release=release, due=due, read=read)

    def opens(folder: Path, trouble: Trouble) -> FileStore:
        return Careless(folder / "runs", disk=FailingDisk(trouble))

    outcome = Outcome()
    with contextlib.suppress(StoreError):
        await every_request(opens, "flush", 1_000_000_000, 3, outcome, 3)
    assert any("its intent was not stored" in each for each in outcome.verdict.lost)
