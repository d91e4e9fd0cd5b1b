"""Tests of working memory: bounded, the least recently used value is dropped first."""

from collections import OrderedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.memory.making import context
from tests.samples import amount
from ziggurat import ConfigurationError
from ziggurat.memory import LocalMemoryStore, WorkingMemory
from ziggurat.testing import HandClock


async def test_reading_a_value_keeps_it_and_the_least_recently_used_goes() -> None:
    store = LocalMemoryStore()
    memory = WorkingMemory(store, "ann", capacity=2, ctx=context(HandClock()))
    await memory.set("goal", "fly to Rome")
    await memory.set("seat", "window")
    assert await memory.get("goal") == "fly to Rome"
    await memory.set("meal", "pasta")
    assert await memory.items() == {"goal": "fly to Rome", "meal": "pasta"}
    assert await memory.get("seat") is None
    await memory.set("goal", "fly to Oslo", origin="tool")
    assert await memory.items() == {"meal": "pasta", "goal": "fly to Oslo"}
    assert [record.taint async for record in store.scan(owner="ann", newest_first=True, limit=1)] == [("tool",)]
    assert await WorkingMemory(store, "an").items() == {}
    assert (await memory.discard("goal"), await memory.discard("goal")) == (True, False)
    await memory.clear()
    assert await memory.items() == {}


def test_wrong_arguments_raise_at_once() -> None:
    with pytest.raises(ConfigurationError, match="capacity"):
        WorkingMemory(LocalMemoryStore(), "ann", capacity=0)
    with pytest.raises(ConfigurationError, match="owner"):
        WorkingMemory(LocalMemoryStore(), "")


@settings(max_examples=amount(30, 300))
@given(st.integers(1, 4), st.lists(st.tuples(st.booleans(), st.sampled_from("abcdef"), st.sampled_from([0.0, 1.0]))))
async def test_it_does_what_an_ordered_dictionary_would(capacity: int, acts: list[tuple[bool, str, float]]) -> None:
    clock, expected = HandClock(), OrderedDict[str, str]()
    memory = WorkingMemory(LocalMemoryStore(), "ann", capacity=capacity, ctx=context(clock))
    for number, (is_set, name, wait) in enumerate(acts):
        if is_set:
            expected[name] = f"{number}"
            await memory.set(name, f"{number}")
        else:
            assert await memory.get(name) == expected.get(name)
        if name in expected:
            expected.move_to_end(name)
        while len(expected) > capacity:
            expected.popitem(last=False)
        await clock.advance(wait)
    assert list((await memory.items()).items()) == list(expected.items())
