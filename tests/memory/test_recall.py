"""Recall with the embedded sentence model: never worse than its parts, and nothing where nothing is asked."""

from pathlib import Path

import pytest

from tests.memory.recall import measure, rows_of
from tests.samples import LONG
from ziggurat.memory import AgentMemory, open_memory
from ziggurat.models import resolve_embedder

pytestmark = pytest.mark.local
DATA = Path(__file__).parent / "data"


@pytest.mark.skipif(not LONG, reason="measures quality")
@pytest.mark.parametrize("half", ["development", "reporting"])
async def test_recall_is_at_least_as_good_as_search_by_meaning_and_by_words(half: str) -> None:
    """Of a type with few questions, words may push one back behind another fact with more of them, still among five."""
    counts = await measure(rows_of(DATA / f"recall_{half}.jsonl"))
    assert counts["all"]["recall"].questions > 75
    assert counts.pop("unknown")["recall"].questions >= 10
    for kind, ways in counts.items():
        parts = (ways["meaning"], ways["words"])
        spare = 0 if kind in ("all", "paraphrase", "literal") or half == "development" else 1
        assert ways["recall"].first >= max(each.first for each in parts) - spare, kind
        assert ways["recall"].among_five >= max(each.among_five for each in parts), kind
    assert counts["literal"]["recall"].first == counts["literal"]["recall"].questions


def opened() -> AgentMemory:
    return AgentMemory(open_memory("memory:"), "ann", embedder=resolve_embedder("local"))


async def test_a_query_without_meaning_recalls_nothing() -> None:
    memory = opened()
    await memory.remember("Ann lives in Rome.")
    await memory.remember("Ann is allergic to peanuts.")
    for query in ("", " ", "?", "...", "-- !", "zzz", "xyzzy", "blah blah"):
        assert await memory.recall(query) == [], query


async def test_facts_come_before_talk_about_them_and_each_text_comes_once() -> None:
    memory = opened()
    await memory.remember("The deadline of project Falcon is 12 June.", kind="semantic", key="falcon deadline")
    await memory.remember("Bees sleep at night.", kind="semantic")
    for number in range(120):
        await memory.remember("What is the deadline of project Falcon?")
        await memory.remember(f"What is the deadline of project Falcon, asked for the {number}th time?")
    texts = [each.content for each in await memory.recall("What is the deadline of project Falcon?", limit=4)]
    assert texts[:2] == ["The deadline of project Falcon is 12 June.", "What is the deadline of project Falcon?"]
    assert len(set(texts)) == 4


async def test_a_long_prompt_is_searched_whole() -> None:
    memory = opened()
    await memory.remember("The deadline of project Falcon is 12 June.", kind="semantic")
    filling = "The weather was fine and nothing of note happened. " * 60
    for query in (f"{filling}When is Falcon due? {filling}", f"{filling}When is the deadline of Falcon?"):
        assert [each.content for each in await memory.recall(query)] == ["The deadline of project Falcon is 12 June."]
