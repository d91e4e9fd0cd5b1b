"""Tests of consolidation and compression: old memories are merged, and nothing is lost."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from tests.memory.making import DAY, HOUR, context
from tests.memory.test_upkeep import PLACES, opened
from tests.samples import amount
from ziggurat import ConfigurationError, Context, Event, ModelRequest, ModelResponse, Usage
from ziggurat.errors import LeaseHeld, ModelError
from ziggurat.events import MemoriesMerged
from ziggurat.memory import (
    AgentMemory,
    CompressionPolicy,
    ConsolidationPolicy,
    EpisodicMemory,
    MemoryRecord,
    MergeRequest,
    SemanticMemory,
    audit,
    compression,
    consolidation,
)
from ziggurat.memory.merging import MergeReport, leased
from ziggurat.memory.record import predecessors
from ziggurat.memory.stores.sqlite import LocalMemoryStore
from ziggurat.messages import assistant
from ziggurat.testing import HandClock

if find_spec("sklearn") is None:  # which takes a second to import
    pytest.skip("scikit-learn is not installed", allow_module_level=True)

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


POLICY = CompressionPolicy(max_memories=5, keep_recent=2, min_age=DAY, threshold=0.3, window=4)


def episode(number: int, importance: float = 0.1, **more: object) -> MemoryRecord:
    content = f"Ann met Ben in Oslo, visit {chr(97 + number)}"
    return MemoryRecord(
        id=f"e{number}",
        owner="ann",
        content=content,
        importance=importance,
        created=number * DAY,
        **more,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("place", PLACES)
async def test_old_unimportant_memories_become_notes_and_come_back(place: str, tmp_path: Path) -> None:
    ctx = context(HandClock(now=12.5 * DAY))
    store = opened(place, tmp_path)
    before = [episode(n, 0.9 if n == 3 else 0.1, taint=("web",) if n == 1 else ()) for n in range(13)]
    await store.add(before)
    compress = compression(store, POLICY)
    report = await compress(MergeRequest("ann"), ctx)
    assert (report.examined, report.archived) == (13, 10)  # without the important one and the latest two
    assert [each.content for each in report.summaries] == [
        "4 memories from 1970-01-01 to 1970-01-05, about: ann, met, ben, oslo, visit",
        "4 memories from 1970-01-06 to 1970-01-09, about: ann, met, ben, oslo, visit",
        "2 memories from 1970-01-10 to 1970-01-11, about: ann, met, ben, oslo, visit",
    ]
    assert [each.facts["sources"] for each in report.summaries] == [
        ["e0", "e1", "e2", "e4"],
        ["e5", "e6", "e7", "e8"],
        ["e9", "e10"],
    ]
    assert report.summaries[0].taint == ("web",)
    assert [record.id async for record in store.scan(owner="ann", kind="episodic")] == ["e3", "e11", "e12"]
    assert await compress(MergeRequest("ann"), ctx) == MergeReport("ann", 3)
    changes = (await audit(store, "ann")).changes
    assert [(each.why, each.ids[1:]) for each in changes] == [
        ("compressed", ("e0", "e1", "e2", "e4")),
        ("compressed", ("e5", "e6", "e7", "e8")),
        ("compressed", ("e9", "e10")),
    ]
    memory = AgentMemory(store, "ann", ctx=ctx)
    for each in changes:
        await memory.undo(each.ids[0])
    back = [record async for record in store.scan(owner="ann")]
    assert [(each.id, each.content, each.taint) for each in back] == [(e.id, e.content, e.taint) for e in before]
    assert (await compress(MergeRequest("ann"), ctx)).archived == 0  # what was brought back stays
    await store.close()


@settings(max_examples=amount(30, 300))
@given(
    st.lists(st.tuples(st.sampled_from(["", "a", "b"]), st.integers(0, 10), st.integers(0, 20)), max_size=40),
    st.integers(0, 10),
    st.integers(0, 5),
    st.integers(2, 6),
)
async def test_facts_with_keys_important_and_recent_memories_are_never_compressed(
    said: list[tuple[str, int, int]], most: int, recent: int, window: int
) -> None:
    now = 20.0 * DAY
    store = LocalMemoryStore()
    records = [
        MemoryRecord(
            id=f"{n}",
            owner="ann",
            content=f"fact {n}",
            kind="semantic",
            importance=importance / 10,
            created=now - age * DAY,
            tags=(f"key:{key}",) if key else (),
        )
        for n, (key, importance, age) in enumerate(said)
    ]
    await store.add(records)
    policy = CompressionPolicy(
        max_memories=most, keep_recent=recent, threshold=0.5, window=window, kind="semantic", into="summary"
    )
    report = await compression(store, policy)(MergeRequest("ann"), context(HandClock(now=now)))
    everything = {record.id: record async for record in store.scan(owner="ann", archived=None)}
    latest = {record.id for record in sorted(records, key=lambda each: each.created)[max(0, len(records) - recent) :]}
    gone = [record for record in records if everything[record.id].archived]
    assert len(gone) == report.archived == sum(len(predecessors(each)) for each in report.summaries)
    assert not gone or len(records) > most
    for record in gone:
        assert not record.tags
        assert record.importance < 0.5
        assert record.id not in latest
    for each in report.summaries:
        assert 2 <= len(predecessors(each)) <= window


async def test_a_model_writes_the_summaries_and_its_failure_loses_nothing() -> None:
    asked: list[str] = []

    async def model(request: ModelRequest, ctx: Context) -> ModelResponse:
        asked.append(request.messages[0].text)
        if len(asked) == 2:
            raise ModelError("down", kind="overloaded")
        return ModelResponse(assistant("Ann saw Ben often."))

    ctx = context(HandClock(now=20.0 * DAY))
    store = LocalMemoryStore()
    await store.add([episode(n) for n in range(12)])
    compress = compression(store, POLICY, model=model)
    with pytest.raises(ModelError):
        await compress(MergeRequest("ann"), ctx)
    assert await store.count(owner="ann", archived=True) == 4 + 1  # with the lease
    report = await compress(MergeRequest("ann"), ctx)
    assert asked[1] == asked[2] == "\n".join(f"- {episode(n).content}" for n in range(4, 8))
    assert [(each.content, each.origin, each.kind) for each in report.summaries] == [
        ("Ann saw Ben often.", "model", "semantic"),
        ("Ann saw Ben often.", "model", "semantic"),
    ]


async def test_compression_and_consolidation_never_work_on_one_owner_at_once() -> None:
    ctx = context(HandClock(now=20.0 * DAY))
    store = LocalMemoryStore()
    await store.add([episode(n) for n in range(12)])
    async with leased(store, "ann", "consolidation", ctx, 60):
        with pytest.raises(LeaseHeld):
            await compression(store, POLICY)(MergeRequest("ann"), ctx)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"window": 1}, "window=...) is a whole number of at least 2; got 1"),
        ({"into": "episodic"}, "a kind of their own"),
    ],
)
def test_mistakes_are_told(settings: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigurationError, match="CompressionPolicy") as error:
        CompressionPolicy(**settings)  # type: ignore[arg-type]
    assert told in str(error.value)
