"""A flow that was broken off at any entry of its record, and resumed, gives what it gives uninterrupted."""

import asyncio
import random
from itertools import product
from pathlib import Path

import pytest

from tests.agents.flow_trees import Trial, plant, tree
from tests.samples import sample
from tests.stores.places import new_store, reopened, used
from ziggurat import AgentRun
from ziggurat.agents import runs_of
from ziggurat.core.codec import as_error, as_type
from ziggurat.journal.entries import Failure, Intent, JournalEntry, Result
from ziggurat.messages import stops


def recorded_in(entries: list[JournalEntry]) -> set[object]:
    """Return what the steps were asked for whose outcome is recorded."""
    texts: set[object] = set()
    for entry in outcomes_in(entries):
        if isinstance(entry, Failure):
            texts.add(str(as_error(entry.error)))
        elif entry.name in ("act", "pay"):
            texts.add(as_type(entry.value, str))
    return texts


def outcomes_in(entries: list[JournalEntry]) -> list[Result | Failure]:
    return [entry for entry in entries if isinstance(entry, Result | Failure)]


def decisions_in(entries: list[JournalEntry]) -> set[str]:
    """Return the places where it is recorded which part was the first; before, that depends on timing."""
    return {entry.path for entry in outcomes_in(entries) if entry.name in ("first", "quorum")}


def unknown_in(entries: list[JournalEntry]) -> bool:
    """Return whether a step that acts once only was begun and has not ended."""
    begun = {entry.path for entry in entries if isinstance(entry, Intent)}
    return bool(begun - {entry.path for entry in outcomes_in(entries)})


@pytest.mark.parametrize(("place", "seed"), sample(product(["memory", "file", "sqlite"], range(12)), 9))
def test_resumed_equals_uninterrupted_at_every_cut(place: str, seed: int, tmp_path: Path) -> None:
    shape = ("handled", tree(random.Random(seed)), ("step", "step z"))

    async def trial() -> None:
        whole, store = Trial(shape), new_store()
        run = await whole.flow(store).run(run_id="whole")
        assert isinstance(run.stop, stops.Completed)
        entries = [*(await runs_of(store).read("whole")).entries]
        made = set(whole.made)
        for cut in range(1, len(entries)):
            await plant(store, f"cut-{cut}", entries[:cut])
            resumed = Trial(shape)
            again: AgentRun[str] = await resumed.flow(store if place == "memory" else reopened(store)).resume(
                f"cut-{cut}", strict=not unknown_in(entries[:cut])
            )
            assert not recorded_in(entries[:cut]) & set(resumed.made)
            if not unknown_in(entries[:cut]) and decisions_in(entries[:cut]) == decisions_in(entries):
                assert again.output == run.output
                assert set(resumed.made) <= made

    with used(place, tmp_path):
        asyncio.run(trial())
