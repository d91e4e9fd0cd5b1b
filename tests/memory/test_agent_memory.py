"""Tests of one agent's memory, all kinds together."""

import pytest

from tests.memory.making import DAY, context
from ziggurat import ConfigurationError
from ziggurat.memory import AgentMemory, EpisodicMemory, half_life, importance, product
from ziggurat.memory.stores.sqlite import LocalMemoryStore
from ziggurat.testing import HandClock


async def test_one_question_asks_all_kinds() -> None:
    memory = AgentMemory(LocalMemoryStore(), "ann")
    await memory.remember("We talked about trains.", kind="episodic")
    await memory.remember("Ann prefers trains to planes.", kind="semantic", key="travel")
    await memory.remember("Trains to Rome leave at night.", kind="longterm")
    await memory.working.set("goal", "trains")
    recalled = await memory.recall("trains")
    assert sorted(each.record.kind for each in recalled) == ["episodic", "longterm", "semantic"]
    assert await memory.semantic.about("travel") is not None
    assert [each.record.kind for each in await memory.episodic.recall("trains")] == ["episodic"]
    assert await memory.count() == 4


async def test_a_score_orders_what_was_found() -> None:
    clock = HandClock()
    memory = AgentMemory(LocalMemoryStore(), "ann", score=product(importance, half_life(24)), ctx=context(clock))
    await memory.remember("tea tea tea", importance=0.9)
    await clock.advance(DAY)
    await memory.remember("the tea of today", importance=0.5, kind="longterm")
    assert [each.score for each in await memory.recall("tea")] == pytest.approx([0.5, 0.45])


async def test_what_contradicts_supersedes_across_kinds() -> None:
    memory = AgentMemory(LocalMemoryStore(), "ann")
    told = await memory.remember("Ann lives in Rome")
    fact = await memory.remember("Ann lives in Oslo", kind="semantic", supersedes=told.id)
    assert [each.record.id for each in await memory.recall("Ann lives")] == [fact.id]
    assert [each.id for each in await memory.history(fact.id)] == [fact.id, told.id]


async def test_wrong_arguments_raise_at_once() -> None:
    store = LocalMemoryStore()
    with pytest.raises(ConfigurationError, match="'ann'"):
        AgentMemory(store, "ann", episodic=EpisodicMemory(store, "ben"))

    memory = AgentMemory(store, "ann")
    with pytest.raises(ConfigurationError, match="working"):
        await memory.remember("x", kind="working")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="only facts have a key"):
        await memory.remember("x", key="y")
