"""Flows that wait: whatever happens in whatever order, and wherever they are broken off, they come to the same end."""

import asyncio
import random
import re
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.agents.flow_trees import plant
from tests.agents.waiting_trees import WaitingTrial, World, waiting_tree
from tests.samples import sample
from tests.stores.places import PLACES, new_store, reopened, used
from ziggurat.agents import runs_of
from ziggurat.journal.entries import Decided, Pending
from ziggurat.messages import stops
from ziggurat.stores import InMemoryStore, SqliteStore
from ziggurat.testing import HandClock

_EVERYWHERE = [*product(PLACES, range(3)), *(("by reference", seed) for seed in range(3, 12))]


def words(text: str) -> list[str]:
    """Return what is in an output, without the order in which concurrent parts took their events.

    A step that acts once only and was broken off says that its outcome is unknown.
    """
    return sorted(word for word in re.findall(r"\w+", text) if word != "unknown")


@pytest.mark.parametrize(("place", "seed"), sample(_EVERYWHERE, 7))
def test_all_that_is_waited_for_comes_once(place: str, seed: int, tmp_path: Path) -> None:
    tree = ("sequence", waiting_tree(random.Random(seed)), waiting_tree(random.Random(seed + 100), 2))

    async def trial() -> None:
        outputs: list[list[str]] = []
        made: list[str] = []
        for order in range(2):
            store = new_store()

            def flow_of(store: Any = store, made: list[str] = made) -> Any:
                trial = WaitingTrial(tree)
                trial.made = made
                return trial.flow(store if place == "by reference" else reopened(store))

            world = World(random.Random(order), tree, HandClock())
            run = await flow_of().run(run_id=f"w-{order}", environment=world.environment)
            run = await world.drive(flow_of, run.id)
            assert isinstance(run.stop, stops.Completed)
            assert len(made) == len(set(made))
            made.clear()
            outputs.append(words(run.output))
        assert outputs[0] == outputs[1]

    with used(place, tmp_path):
        asyncio.run(trial())


@pytest.mark.parametrize(("kind", "seed"), sample(product(["memory", "sqlite"], range(7)), 6))
async def test_a_run_that_waits_goes_on_by_what_is_due_alone(kind: str, seed: int, tmp_path: Path) -> None:
    tree = ("sequence", waiting_tree(random.Random(seed)), waiting_tree(random.Random(seed + 100), 2))

    async def trial() -> None:
        clock = HandClock()
        stores: list[InMemoryStore | SqliteStore] = []
        memory, made = InMemoryStore(clock=clock), list[str]()

        def flow_of() -> Any:
            stores.append(memory if kind == "memory" else SqliteStore(tmp_path / "runs.db", clock=clock))
            trial = WaitingTrial(tree)
            trial.made = made
            return trial.flow(stores[-1])

        world = World(random.Random(seed), tree, clock)
        await flow_of().submit(run_id="r", environment=world.environment)
        run = await world.recover(flow_of, "r")
        assert isinstance(run.stop, stops.Completed)
        assert len(made) == len(set(made))
        for store in stores:
            await store.close()

    await trial()


@pytest.mark.parametrize(
    ("place", "seed"), sample([("memory", 0), ("sqlite", 3), ("memory", 1), ("memory", 2), ("sqlite", 4)], 2)
)
def test_resumed_equals_uninterrupted_at_every_cut(place: str, seed: int, tmp_path: Path) -> None:
    tree = ("sequence", waiting_tree(random.Random(seed)), ("timer", 5000), ("event", "paid"))

    async def trial() -> None:
        store, clock = new_store(), HandClock()
        world = World(random.Random(seed), tree, clock)
        whole = WaitingTrial(tree)
        await whole.flow(store).run(run_id="whole", environment=world.environment)
        run = await world.drive(lambda: whole.flow(store), "whole")
        entries = [*(await runs_of(store).read("whole")).entries]
        inbox = await runs_of(store).inbox("whole")
        for cut in sample(range(1, len(entries)), 12):
            prefix = entries[:cut]
            times = {entry.id: entry.until for entry in prefix if isinstance(entry, Pending)}
            ended = [times[entry.id] or 0 for entry in prefix if isinstance(entry, Decided) and not entry.posted]
            now = max([HandClock().now(), *(each for each in ended if each)])
            again = World(random.Random(cut), tree, HandClock(now))
            again.unsent = []  # they are in its inbox
            await plant(store, f"cut-{cut}", prefix)
            for item in inbox:
                await runs_of(store).post(f"cut-{cut}", item.key, item.data)
            end = await again.drive(lambda: WaitingTrial(tree).flow(reopened(store)), f"cut-{cut}")
            assert words(end.output) == words(run.output)

    with used(place, tmp_path):
        asyncio.run(trial())
