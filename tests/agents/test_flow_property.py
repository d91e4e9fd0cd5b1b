"""A flow that was broken off at any entry of its record, and resumed, gives what it gives uninterrupted."""

import asyncio
import random
from pathlib import Path

import pytest

from tests.agents.flow_trees import Trial, plant, tree
from tests.stores.places import PLACES, new_store, reopened, used
from ziggurat.core.entries import Ended, Intent, JournalEntry, Result
from ziggurat.messages import stops
from ziggurat.messages.agent import AgentRun
from ziggurat.runs.local import runs_of


def steps_in(entries: list[JournalEntry]) -> int:
    return sum(isinstance(entry, Result) and entry.path.count("/") > 0 for entry in entries)


def unknown_in(entries: list[JournalEntry]) -> bool:
    """Return whether a step that acts once only was begun last, so that its outcome is unknown."""
    return isinstance(entries[-1], Intent)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("place", [place for place in PLACES if place != "postgres"])
def test_resumed_equals_uninterrupted_at_every_cut(place: str, seed: int, tmp_path: Path) -> None:
    shape = ("handled", tree(random.Random(seed)), ("step", "z"))

    async def trial() -> None:
        whole, store = Trial(shape), new_store()
        run = await whole.flow(store).run(run_id="whole")
        assert isinstance(run.stop, stops.Completed)
        entries = [*(await runs_of(store).read("whole")).entries]
        calls = list(whole.made)
        for cut in range(1, len(entries)):
            await plant(store, f"cut-{cut}", entries[:cut])
            resumed = Trial(shape)
            again: AgentRun[str] = await resumed.flow(store if place == "memory" else reopened(store)).resume(
                f"cut-{cut}", strict=not unknown_in(entries[:cut])
            )
            if unknown_in(entries[:cut]):
                assert "unknown" in (again.output or "")
                continue
            assert again.output == run.output
            assert [*calls[: len(calls) - len(resumed.made)], *resumed.made] == calls
            if isinstance(entries[cut - 1], Ended | Result):
                assert len(resumed.made) < len(calls) or not steps_in(entries[:cut])

    with used(place, tmp_path):
        asyncio.run(trial())
