"""Tests of consolidation: old memories on one subject are merged, and nothing is lost."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.memory.making import HOUR, context
from tests.samples import amount
from ziggurat import ConfigurationError, Context, Event, ModelRequest, ModelResponse, Usage
from ziggurat.errors import LeaseHeld, ModelError
from ziggurat.events import MemoriesMerged
from ziggurat.memory import (
    ConsolidationPolicy,
    EpisodicMemory,
    LocalMemoryStore,
    MemoryRecord,
    MergeReport,
    MergeRequest,
    SemanticMemory,
    consolidation,
)
from ziggurat.memory.lease import leased
from ziggurat.messages import assistant
from ziggurat.testing import HandClock

pytest.importorskip("sklearn")

TEA = [
    "ann ordered green tea with milk again",
    "ann ordered green tea with milk",
    "green tea with milk for ann",
    "ann wants green tea with milk",
    "ann drinks green tea with milk",
]
OTHERS = ["the printer is broken", "lunch moved by one hour", "ben sends his regards", "the door code changed"]


async def everything(store: LocalMemoryStore) -> dict[str, MemoryRecord]:
    return {record.id: record async for record in store.scan(owner="ann", archived=None)}


async def in_use(store: LocalMemoryStore, kind: str = "episodic") -> list[str]:
    return [record.content async for record in store.scan(owner="ann", kind=kind)]


async def planted(store: LocalMemoryStore, ctx: Context, clock: HandClock) -> None:
    memory = EpisodicMemory(store, "ann", ctx=ctx)
    for number, text in enumerate([*TEA, *OTHERS]):
        await memory.remember(text, importance=number / 10, tags=["tea"] if text in TEA else [], taint=["web"][:number])
        await clock.advance(1)


async def test_of_five_on_tea_the_three_oldest_become_one_and_the_two_latest_stay() -> None:
    clock, store = HandClock(), LocalMemoryStore()
    ctx = context(clock)
    await planted(store, ctx, clock)
    tidy = consolidation(
        store,
        ConsolidationPolicy(
            min_cluster_size=3, max_age=3600, similarity_threshold=0.65, clusters=5, iterations=10, keep_recent=2
        ),
    )
    assert await tidy(MergeRequest("ann"), ctx) == MergeReport("ann", 9)  # none is an hour old
    await clock.advance(HOUR)
    report = await tidy(MergeRequest("ann"), ctx)
    (summary,) = report.summaries
    assert (report.examined, report.archived) == (9, 3)
    assert await in_use(store) == [*TEA[3:], *OTHERS]
    assert summary.content == "; ".join(TEA[:3])
    assert summary.importance == pytest.approx(0.1)  # the mean of 0, 0.1 and 0.2
    assert (summary.origin, summary.taint, summary.tags) == ("runtime", ("web",), ("consolidated", "tea"))
    history = await SemanticMemory(store, "ann").history(summary.id)
    assert [record.content for record in history[1:]] == TEA[:3]
    assert all(record.archived for record in history[1:])


async def test_as_many_clusters_as_it_takes_and_a_second_call_does_nothing() -> None:
    clock, store = HandClock(), LocalMemoryStore()
    ctx = context(clock)
    await planted(store, ctx, clock)
    await clock.advance(HOUR)
    tidy = consolidation(store)
    assert (await tidy(MergeRequest("ann"), ctx)).archived == 3
    before = await everything(store)
    assert (await tidy(MergeRequest("ann"), ctx)).archived == 0
    assert {key for key, value in (await everything(store)).items() if value.kind != "lease"} == {
        key for key, value in before.items() if value.kind != "lease"
    }
    assert (await tidy(MergeRequest("nobody"), ctx)) == MergeReport("nobody", 0)


async def test_a_model_may_write_the_summary_and_listeners_hear_of_it() -> None:
    clock, store = HandClock(), LocalMemoryStore()
    heard: list[Event] = []
    asked: list[ModelRequest] = []

    async def model(request: ModelRequest, ctx: Context) -> ModelResponse:
        asked.append(request)
        return ModelResponse(assistant("Ann likes green tea with milk."), usage=Usage(input=40, output=8, requests=1))

    async def hear(event: Event) -> None:
        heard.append(event)

    ctx = context(clock).heard_by(hear)
    await planted(store, ctx, clock)
    await clock.advance(HOUR)
    report = await consolidation(store, model=model)(MergeRequest("ann"), ctx)
    (summary,) = report.summaries
    assert report.usage == Usage(input=40, output=8, requests=1)
    assert (summary.content, summary.origin, summary.taint) == ("Ann likes green tea with milk.", "model", ("web",))
    assert asked[0].messages[0].text == "\n".join(f"- {text}" for text in TEA[:3])
    assert heard == [MemoriesMerged("test", "ann", summary.id, 3)]


@pytest.mark.parametrize(
    "reply",
    [
        ModelResponse(assistant(" ")),
        ModelResponse(assistant("I cannot."), "refusal"),
        ModelResponse(assistant("Ann"), "content_filter"),
        ModelResponse(assistant("Ann"), "error"),
        ModelResponse(assistant("Ann"), "malformed"),
    ],
    ids=lambda reply: reply.finish,
)
async def test_when_the_model_fails_nothing_has_changed_and_the_lease_is_given_back(reply: ModelResponse) -> None:
    clock, store = HandClock(), LocalMemoryStore()
    ctx = context(clock)

    async def model(request: ModelRequest, ctx: Context) -> ModelResponse:
        return reply

    await planted(store, ctx, clock)
    await clock.advance(HOUR)
    for _ in range(2):
        with pytest.raises(ModelError, match="that summarises memories"):
            await consolidation(store, model=model)(MergeRequest("ann"), ctx)
    assert len(await in_use(store)) == 9


async def test_what_was_forgotten_meanwhile_does_not_come_back() -> None:
    clock, store = HandClock(), LocalMemoryStore()
    ctx = context(clock)
    await planted(store, ctx, clock)
    await clock.advance(HOUR)
    memory = EpisodicMemory(store, "ann", ctx=ctx)
    first = (await memory.recall(limit=9))[-1].record.id  # the least important, so the first that was made

    async def model(request: ModelRequest, ctx: Context) -> ModelResponse:
        await memory.erase(first)
        return ModelResponse(assistant("Ann likes green tea with milk."))

    report = await consolidation(store, model=model)(MergeRequest("ann"), ctx)
    assert (report.archived, report.summaries) == (0, ())
    assert await store.get([first]) == []
    assert len(await in_use(store)) == 8


async def test_one_at_a_time_works_on_an_owner() -> None:
    clock, store = HandClock(), LocalMemoryStore()
    ctx = context(clock)
    async with leased(store, "ann", "consolidation", ctx, 10):
        with pytest.raises(LeaseHeld, match="consolidation of 'ann'"):
            await consolidation(store)(MergeRequest("ann"), ctx)
        await consolidation(store)(MergeRequest("ben"), ctx)


WRONG: dict[str, object] = {
    "min_cluster_size": 0, "clusters": 0, "keep_recent": -1, "max_age": float("nan"), "similarity_threshold": 1.5,
    "lease": 0, "into": "episodic",
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_raise_at_once(name: str) -> None:
    with pytest.raises(ConfigurationError, match="kind of their own" if name == "into" else name):
        ConsolidationPolicy(**{name: WRONG[name]})  # type: ignore[arg-type]


memories = st.lists(
    st.tuples(
        st.lists(st.sampled_from(("tea", "milk", "cup", "tax", "form", "late", "car", "x")), max_size=4).map(" ".join),
        st.sampled_from([0.0, 600.0, 4000.0]),
    ),
    max_size=14,
)


@settings(max_examples=amount(15, 200))
@given(memories, st.integers(0, 3), st.integers(1, 4), st.sampled_from([None, 1, 3]), st.floats(0, 1))
async def test_no_memory_is_lost_nor_changed_and_twice_is_once(
    made: Sequence[tuple[str, float]], keep: int, size: int, clusters: int | None, near: float
) -> None:
    clock, store = HandClock(), LocalMemoryStore()
    ctx = context(clock)
    memory = EpisodicMemory(store, "ann", ctx=ctx)
    for text, wait in made:
        await memory.remember(text or "-")
        await clock.advance(wait)
    before = await everything(store)
    policy = ConsolidationPolicy(min_cluster_size=size, keep_recent=keep, clusters=clusters, similarity_threshold=near)
    report = await consolidation(store, policy)(MergeRequest("ann"), ctx)
    after = await everything(store)
    merged = [source for each in report.summaries for source in (await memory.history(each.id))[1:]]
    assert len({each.id for each in merged}) == len(merged) == report.archived
    for key, record in before.items():
        assert after[key].content == record.content
        assert after[key].archived == (record.id in {each.id for each in merged})
    assert all(clock.now() - each.created >= 3600 for each in merged)
    assert (await consolidation(store, policy)(MergeRequest("ann"), ctx)).archived == 0


async def test_facts_with_keys_and_what_was_brought_back_are_not_merged() -> None:
    clock, store = HandClock(), LocalMemoryStore()
    ctx = context(clock)
    facts = SemanticMemory(store, "ann", ctx=ctx)
    for number, text in enumerate(TEA):
        await facts.remember(text, key=f"tea {number}")
    await clock.advance(HOUR)
    policy = ConsolidationPolicy(kind="semantic", into="summary", keep_recent=0)
    assert (await consolidation(store, policy)(MergeRequest("ann"), ctx)).archived == 0
    await planted(store, ctx, clock)
    await clock.advance(2 * HOUR)
    tidy = consolidation(store, ConsolidationPolicy(clusters=5))
    (summary,) = (await tidy(MergeRequest("ann"), ctx)).summaries
    assert len(await facts.undo(summary.id)) == 3
    assert (await tidy(MergeRequest("ann"), ctx)).archived == 0
