"""Tests of making vectors anew: progress, and being interrupted and resumed."""

from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from tests.memory.test_upkeep import PLACES, opened
from tests.samples import amount, sample
from ziggurat import Context
from ziggurat.core import root
from ziggurat.errors import ModelError
from ziggurat.memory import AgentMemory, MemoryRecord
from ziggurat.memory.record import SUBJECT
from ziggurat.memory.vectorizing import BATCH, Reembedded, embed_records, reembed
from ziggurat.memory.vectors import similarities
from ziggurat.messages import Embeddings, EmbedRequest
from ziggurat.messages.model import pack


class Countdown:
    """An embedder that fails at one of its calls."""

    def __init__(self, model: str, fails_at: int = -1) -> None:
        self.model = model
        self.fails_at = fails_at
        self.texts: list[str] = []
        self.calls = 0

    async def __call__(self, request: EmbedRequest, ctx: Context) -> Embeddings:
        self.calls += 1
        if self.calls == self.fails_at:
            raise ModelError("the server is down", kind="overloaded", transient=True)
        self.texts += request.texts
        return Embeddings(tuple(pack([float(len(text)), 1.0]) for text in request.texts), self.model)


@pytest.mark.parametrize("place", sample(PLACES, 2))
async def test_reembedding_reports_progress_and_goes_on_where_it_was_interrupted(place: str, tmp_path: Path) -> None:
    many = 2 * BATCH + 40
    store = opened(place, tmp_path)
    memories = [
        MemoryRecord(id=f"{n}", owner="ann", content=f"tea {n}", created=n // 7, embedding=pack([1]), embedder="old")
        for n in range(many - 20)
    ]
    memories += [MemoryRecord(id=f"b{n}", owner="ann", content=f"b {n}", created=0.0) for n in range(20)]
    await store.add(memories)
    await store.add([MemoryRecord(id="w", owner="ann", content="w", kind="working")])
    await store.add([MemoryRecord(id="gone", owner="ann", content="gone", archived=True)])
    seen: list[Reembedded] = []
    first = Countdown("new", fails_at=3)  # the first call asks for the name of the model
    with pytest.raises(ModelError):
        await reembed(store, "ann", first, root(), progress=seen.append)
    assert [(each.done, each.model, each.total) for each in seen] == [(BATCH, "new", many + 1)]
    assert await store.count(owner="ann") == many + 1
    seen.clear()
    second = Countdown("new")
    report = await AgentMemory(store, "ann", embedder=second).reembed(seen.append)
    assert report == Reembedded(many - BATCH, "new", many + 1, many + 1) == seen[-1]
    assert len(seen) == 2
    assert sorted([*first.texts, *second.texts]) == sorted([record.content for record in memories] + ["model"] * 2)
    stored = {record.id: record async for record in store.scan(owner="ann")}
    for record in memories:
        made = stored[record.id]
        assert (made.embedding, made.embedder) == (pack([float(len(record.content)), 1.0]), "new")
    assert stored["w"].embedding is None
    again = await reembed(store, "ann", Countdown("new"), root())
    assert (again.done, again.examined) == (0, many + 1)
    await store.close()


@settings(max_examples=amount(25, 200))
@given(st.lists(st.integers(-9, 9), min_size=4, max_size=4).filter(any))
async def test_the_vector_of_a_fact_lies_between_its_text_and_its_subject(key: list[int]) -> None:
    """As near to the one as to the other, however long the vectors of the embedder are."""

    async def embedder(request: EmbedRequest, ctx: Context) -> Embeddings:
        return Embeddings(tuple(pack([4.0, 3.0, 0.0, 0.0] if ":" in text else key) for text in request.texts), "four")

    facts: list[dict[str, object]] = [{"key": "home"}, {SUBJECT: "home"}, {"key": "home", SUBJECT: "flat"}]
    records = [MemoryRecord(id="1", owner="ann", content="Oslo", facts=each) for each in facts]
    for vector in (await embed_records(embedder, records, root())).vectors:
        near = similarities(vector, [pack([4.0, 3.0, 0.0, 0.0]), pack(key)])
        assert near[0] == pytest.approx(near[1], abs=1e-4)


async def test_an_embedder_that_changes_its_name_is_refused_before_its_vectors_are_stored() -> None:
    store = opened("memory", Path())
    await store.add([MemoryRecord(id="1", owner="ann", content="tea")])
    embedder = Countdown("one")

    async def changing(request: EmbedRequest, ctx: Context) -> Embeddings:
        made = await embedder(request, ctx)
        embedder.model = "two"
        return made

    with pytest.raises(ModelError, match="calls itself 'one' and 'two'"):
        await reembed(store, None, changing, root())
    assert [record.embedding async for record in store.scan(owner=None)] == [None]
