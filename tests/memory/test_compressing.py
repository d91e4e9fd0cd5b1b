"""Tests of compression: too many old, unimportant memories become few, and nothing is lost."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.memory.making import DAY, context
from tests.memory.test_transfer import PLACES, opened
from tests.samples import amount
from ziggurat import ConfigurationError, Context, ModelRequest, ModelResponse
from ziggurat.errors import LeaseHeld, ModelError
from ziggurat.memory import (
    AgentMemory,
    CompressionPolicy,
    LocalMemoryStore,
    MemoryRecord,
    MergeReport,
    MergeRequest,
    audit,
    compression,
)
from ziggurat.memory.lease import leased
from ziggurat.memory.merging import LEASE
from ziggurat.memory.record import predecessors
from ziggurat.messages import assistant
from ziggurat.testing import HandClock

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
    changes = (await audit(store, "ann", ctx=ctx)).changes
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
    async with leased(store, "ann", LEASE, ctx, 60):
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
