"""Dialogues over several sessions with facts that change: a short form of ``python -m tests.memory.dialogues``."""

import asyncio

import pytest

from tests.memory.dialogues import dialogue, measure
from ziggurat.models.embed.resolve import resolve_embedder


@pytest.mark.local
@pytest.mark.parametrize("judge", ["key", "model"])
@pytest.mark.parametrize("half", ["choosing", "reporting"])
def test_the_current_fact_comes_first_and_one_that_no_longer_holds_never(half: str, judge: str) -> None:
    counts = asyncio.run(measure(half, range(100, 103), judge, resolve_embedder("local"), plain=True))
    assert counts.asked == 27
    assert counts.updates >= 12
    assert counts.first >= 0.9 * counts.asked
    assert counts.updated_first == counts.updated
    assert counts.stale == 0


@pytest.mark.local
def test_without_a_key_and_a_judge_both_facts_are_stored() -> None:
    counts = asyncio.run(measure("choosing", range(100, 102), "none", resolve_embedder("local"), plain=True))
    assert counts.recalled >= 0.9 * counts.asked
    assert counts.stale > 0


def test_a_dialogue_is_made_from_its_seed() -> None:
    script = dialogue(1, "reporting")
    assert script == dialogue(1, "reporting")
    assert script != dialogue(2, "reporting")
    assert len(script.sessions) == 5
    assert sum(1 for fact in script.current.values() if fact) == 9
    assert len(script.questions) == 12
