"""Dialogues over several sessions with facts that change: a short form of ``python -m tests.memory.dialogues``."""

import json
from itertools import product
from pathlib import Path

import pytest

from tests.memory.dialogues import dialogue, measure
from tests.samples import amount, sample
from ziggurat.memory import AgentMemory, open_memory
from ziggurat.models import resolve_embedder


@pytest.mark.local
@pytest.mark.parametrize(("half", "judge"), sample(product(["choosing", "reporting"], ["key", "model"]), 1))
async def test_the_current_fact_comes_first_and_one_that_no_longer_holds_never(half: str, judge: str) -> None:
    number = amount(1, 3)
    counts = await measure(half, range(100, 100 + number), judge, resolve_embedder("local"), plain=True)
    assert counts.asked == 9 * number
    assert counts.updates >= 4 * number
    assert counts.asked - counts.first <= amount(1, 2)
    assert counts.updated_first == counts.updated
    assert counts.stale == 0
    assert counts.doubtful > 0.6 * counts.unknown
    assert counts.doubted_known < 0.2 * counts.asked


@pytest.mark.local
async def test_without_a_key_and_a_judge_both_facts_are_stored() -> None:
    counts = await measure("choosing", range(100, 100 + amount(1, 3)), "none", resolve_embedder("local"), plain=True)
    assert counts.recalled >= 0.9 * counts.asked
    assert counts.stale > 0


def test_a_dialogue_is_made_from_its_seed() -> None:
    script = dialogue(1, "reporting")
    assert script == dialogue(1, "reporting")
    assert script != dialogue(2, "reporting")
    assert len(script.sessions) == 5
    assert sum(1 for fact in script.current.values() if fact) == 9
    assert len(script.questions) == 12


@pytest.mark.local
async def test_the_current_facts_of_written_dialogues_come_first() -> None:
    """Eight dialogues that no rule was chosen with: facts under keys, and questions in other words."""
    lines = (Path(__file__).parent / "data" / "dialogues_heldout.jsonl").read_text(encoding="utf-8").splitlines()
    asked = first = 0
    embedder = resolve_embedder("local")
    for script in map(json.loads, sample(lines, 2)):
        memory = AgentMemory(open_memory("memory:"), "ann", embedder=embedder)
        current: dict[str, str] = {}
        for key, text in script["said"]:
            await memory.remember(text, kind="semantic", key=key)
            current[key] = text
        for question, key in script["asked"]:
            recalled = [each.content for each in await memory.recall(question, limit=3)]
            assert set(recalled) <= set(current.values())
            asked += bool(key)
            first += bool(key) and recalled[:1] == [current[key]]
    assert asked > len(lines)
    assert asked - first <= 4
