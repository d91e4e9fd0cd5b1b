"""Tests of long-term memory: the forgetting curve, pruning, and merging of near-duplicates."""

from math import log

import pytest
from hypothesis import given, settings, strategies as st

from tests.memory.making import DAY, context, embedder_of
from tests.samples import amount
from ziggurat import ConfigurationError
from ziggurat.memory import LongTermMemory, SemanticMemory, audit
from ziggurat.memory.stores.sqlite import LocalMemoryStore
from ziggurat.testing import HandClock


async def test_one_word_of_three_brings_a_memory_to_mind() -> None:
    clock = HandClock()
    memory = LongTermMemory(
        LocalMemoryStore(), "ann", capacity=1_000, min_importance=0.05, stability_days=30.0, ctx=context(clock)
    )
    made = await memory.remember("Ferry tickets include harbour bus rides", importance=0.9)
    await memory.remember("Tea is hot", importance=1.0)
    (top,) = await memory.recall("ferry travel prices", limit=5)
    assert top.record == made
    share = log(1 + 2 / 1) / (log(1 + 2 / 1) + 2 * log(1 + 2 / 0.5))  # one word of three, in one of two memories
    assert top.score == pytest.approx(0.9 * share)
    assert await memory.prune() == 0
    assert await memory.consolidate() == []


async def test_retention_is_applied_once_and_recalling_begins_it_anew() -> None:
    clock = HandClock()
    memory = LongTermMemory(LocalMemoryStore(), "ann", stability_days=30, ctx=context(clock))
    await memory.remember("tea", importance=0.9)
    await clock.advance(30 * DAY)
    await memory.prune()
    assert (await memory.recall("tea"))[0].score == pytest.approx(0.331091, abs=1e-6)  # 0.9 / e
    assert (await memory.recall("tea"))[0].score == pytest.approx(0.9)


async def test_what_is_all_but_forgotten_is_let_go_when_its_time_comes() -> None:
    clock = HandClock()
    memory = LongTermMemory(LocalMemoryStore(), "ann", ctx=context(clock))
    await memory.remember("low", importance=0.1)
    await memory.remember("high", importance=0.9)
    await clock.advance(20.79 * DAY)  # 30 * ln(0.1 / 0.05) = 20.794
    assert await memory.prune() == 0
    await clock.advance(0.01 * DAY)
    assert await memory.prune() == 1
    await clock.advance(65.9 * DAY)  # 30 * ln(0.9 / 0.05) = 86.711
    assert await memory.prune() == 0
    await clock.advance(0.02 * DAY)
    assert await memory.prune() == 1
    assert await memory.store.count(owner="ann", archived=True) == 2


async def test_beyond_the_capacity_goes_what_is_worth_least_by_now() -> None:
    clock = HandClock()
    memory = LongTermMemory(LocalMemoryStore(), "ann", capacity=2, ctx=context(clock))
    await memory.remember("once great", importance=0.9)
    await clock.advance(60 * DAY)  # 0.9 / e**2 = 0.12
    await memory.remember("small", importance=0.2)
    await memory.remember("new", importance=0.0)
    assert [record.content async for record in memory.scan()] == ["small", "new"]


async def test_near_duplicates_become_one_and_their_parts_stay_reachable() -> None:
    clock = HandClock()
    memory = LongTermMemory(LocalMemoryStore(), "ann", ctx=context(clock))
    first = await memory.remember("the user likes green tea with milk", importance=0.8, tags=["tea"], taint=["web"])
    await clock.advance(DAY)
    second = await memory.remember("the user really likes green tea with milk", importance=0.4, tags=["drink"])
    third = await memory.remember("the user plays chess", importance=0.4)
    await memory.store.touch([first.id, second.id, second.id], clock.now())
    (merged,) = await memory.consolidate()
    assert merged.content == second.content  # the longer; 7 / sqrt(7 * 8) = 0.935
    assert merged.importance == pytest.approx(0.6)
    assert (merged.uses, merged.created, merged.supersedes) == (3, first.created, first.id)
    assert (merged.tags, merged.taint) == (("tea", "drink"), ("web",))
    assert {record.id async for record in memory.scan()} == {merged.id, third.id}
    assert [each.id for each in await memory.history(merged.id)] == [merged.id, first.id, second.id]
    assert await memory.consolidate() == []


async def test_only_what_is_above_the_bound_is_merged() -> None:
    memory = LongTermMemory(LocalMemoryStore(), "ann", embedder=embedder_of(One=(0.6, 0.8)))
    await memory.remember("one dog")
    await memory.remember("One dog!")
    assert await memory.consolidate(threshold=0.601) == []
    assert len(await memory.consolidate(threshold=0.599)) == 1


async def test_what_contradicts_is_not_merged() -> None:
    memory = LongTermMemory(LocalMemoryStore(), "ann")
    await memory.remember("The weekly meeting of the whole team starts at 5 pm")
    await memory.remember("The weekly meeting of the whole team starts at 6 pm")
    assert await memory.consolidate() == []


TWINS = [
    ("Invoice 1001 from the plumber was paid by Ann in March.", "1001", "1002"),
    ("Turn the valve to the left to open the water.", "left", "right"),
    ("Lindiwe may approve purchases above 50,000.", "above", "below"),
    ("Ann likes green tea in the morning.", "green", "black"),
    ("Ann met Peter at the harbour on Monday.", "Peter", "Petra"),
    ("The pump does run at night and in winter.", "does", "does not"),
    ("The dose for the child is 0.5 mg of the drug.", "0.5", "5"),
    ("Send the report before the meeting on Friday.", "before", "after"),
    ("Ann was paid by Bob for the work on the roof.", "Ann was paid by Bob", "Bob was paid by Ann"),
]


@pytest.mark.parametrize(("text", "one", "other"), TWINS)
@pytest.mark.parametrize("vectors", [False, True])
async def test_memories_that_differ_in_what_matters_are_not_merged(
    text: str, one: str, other: str, vectors: bool
) -> None:
    memory = LongTermMemory(LocalMemoryStore(), "ann", embedder=embedder_of() if vectors else None)
    for each in (text, text.replace(one, other)):
        await memory.remember(each)
    assert await memory.consolidate(threshold=0.5) == []
    assert await memory.count() == 2


async def test_a_merge_and_a_replacement_can_be_undone_from_the_audit() -> None:
    store = LocalMemoryStore()
    memory = LongTermMemory(store, "ann")
    first = await memory.remember("The dog barks at night")
    second = await memory.remember("The dog really barks at night")
    await memory.consolidate()
    (change,) = (await audit(store, "ann")).changes
    assert (change.why, change.ids[1:]) == ("merged", (first.id, second.id))
    assert {each.id for each in await memory.undo(change.ids[0])} == {first.id, second.id}
    assert {each.id async for each in memory.scan()} == {first.id, second.id}
    with pytest.raises(ConfigurationError, match="not in use"):
        await memory.undo(change.ids[0])
    assert await memory.undo(first.id) == []
    assert await memory.consolidate() == []  # what was brought back stays apart
    facts = SemanticMemory(store, "ann")
    await facts.remember("Ann lives in Rome.", key="home")
    await facts.remember("Ann lives in Oslo.", key="home")
    (change,) = (await audit(store, "ann")).changes
    assert (change.why, change.texts) == ("replaced", ("Ann lives in Oslo.", "Ann lives in Rome."))
    await facts.undo(change.ids[0])
    home = await facts.about("home")
    assert home is not None
    assert home.content == "Ann lives in Rome."
    assert [each.content async for each in facts.scan()] == ["Ann lives in Rome."]


def test_wrong_arguments_raise_at_once() -> None:
    with pytest.raises(ConfigurationError, match="min_importance"):
        LongTermMemory(LocalMemoryStore(), "ann", min_importance=2)
    with pytest.raises(ConfigurationError, match="stability_days"):
        LongTermMemory(LocalMemoryStore(), "ann", stability_days=0)


@settings(max_examples=amount(30, 300))
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 50)), max_size=12))
async def test_pruning_twice_is_pruning_once(made: list[tuple[float, float]]) -> None:
    clock, store = HandClock(), LocalMemoryStore()
    memory = LongTermMemory(store, "ann", ctx=context(clock))
    for importance, days in made:
        await memory.remember("x", importance=importance)
        await clock.advance(days * DAY)
    await memory.prune()
    once = [record async for record in store.scan(owner="ann", archived=None)]
    assert await memory.prune() == 0
    assert [record async for record in store.scan(owner="ann", archived=None)] == once
    assert len(once) == len(made)


words = st.lists(
    st.sampled_from(["tea", "milk", "cup", "hot", "cold", "the", "is", "1", "2", "not"]), min_size=1, max_size=6
)


@settings(max_examples=amount(30, 300))
@given(st.lists(words.map(" ".join), max_size=12))
async def test_consolidation_loses_no_content_and_is_done_after_once(texts: list[str]) -> None:
    store = LocalMemoryStore()
    memory = LongTermMemory(store, "ann", ctx=context(HandClock()))
    made = [await memory.remember(text) for text in texts]
    merged = await memory.consolidate()
    reachable = {each.id async for each in memory.scan()}
    for each in list(reachable):
        reachable |= {record.id for record in await memory.history(each)}
    assert {record.id for record in made} <= reachable
    gone = 0
    for record in merged:
        sources = record.facts["sources"]
        assert isinstance(sources, list)
        gone += len(sources) - 1
    assert await memory.count() == len(made) - gone
