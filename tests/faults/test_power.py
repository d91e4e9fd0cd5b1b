"""Losses of power in a short run, on each store; `make faults` has longer ones."""

from itertools import product
from pathlib import Path

import pytest

pytest.importorskip("apsw")

from tests.faults.flow_world import FlowWorld
from tests.faults.graph_world import GraphWorld
from tests.faults.plan_world import PlanWorld
from tests.faults.power import KINDS, Machine, Outcome, Step, examine, record
from tests.faults.world import World
from tests.samples import LONG, amount, sample


async def _lose_power(store: str, folder: Path, every: int, tail_may_go: bool, makes: type[World] = World) -> Outcome:
    recording = await record(KINDS[store], folder, 3, makes)
    return await examine(KINDS[store], recording, seed=3, tail_may_go=tail_may_go, every=every)


def _every(store: str) -> int:
    return 1 if store == "file" else amount(16, 3)  # files take few requests


@pytest.mark.parametrize("store", KINDS)
async def test_what_was_acknowledged_is_there_when_power_is_back(store: str, tmp_path: Path) -> None:
    found = await _lose_power(store, tmp_path, _every(store), store == "normal")
    assert not found.lost
    assert found.states > (10 if store == "file" else amount(10, 100))
    assert (found.shorter > 0) == (found.accepted > 0) == (store == "normal")


@pytest.mark.parametrize(("store", "makes"), sample(product(["file", "sqlite"], [FlowWorld, GraphWorld, PlanWorld]), 1))
async def test_the_acknowledged_steps_of_planned_work_are_there_when_power_is_back(
    store: str, makes: type[World], tmp_path: Path
) -> None:
    found = await _lose_power(store, tmp_path, _every(store), False, makes)
    assert not found.lost
    assert found.states > 10
    assert found.resumed or not LONG


async def test_a_database_that_flushes_seldom_is_seen_to_lose(tmp_path: Path) -> None:
    assert (await _lose_power("normal", tmp_path, amount(60, 20), tail_may_go=False)).lost


def test_what_was_not_flushed_may_be_lost_torn_or_kept() -> None:
    import random

    machine = Machine()
    steps = (Step("open", "a", 0), Step("write", "a", 0, b"one"), Step("sync", "a"), Step("sync_folder", ""))
    for step in (*steps, Step("write", "a", 3, b"two"), Step("rename", "a", to="b")):
        machine.do(step)
    draw = random.Random(1)
    assert machine.left("none", "none", draw) == ({""}, {"a": b"one"})
    assert machine.left("all", "none", draw) == ({""}, {"a": b"onetwo"})
    assert machine.left("none", "all", draw) == ({""}, {"b": b"one"})
    torn = {machine.left("torn", "all", draw)[1]["b"] for _ in range(20)}
    assert torn == {b"onet", b"onetw"}
    machine.do(Step("sync", "b"))
    machine.do(Step("sync_folder", ""))
    assert machine.left("none", "none", draw) == ({""}, {"b": b"onetwo"})
