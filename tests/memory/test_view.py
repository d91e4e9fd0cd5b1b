"""Tests of what all kinds of memory share: origin, superseding, forgetting and erasing."""

from typing import Any

import pytest

from tests.memory.making import context
from tests.wrong import wrong
from ziggurat import ConfigurationError, Context
from ziggurat.memory import AgentMemory, EpisodicMemory, LongTermMemory, SemanticMemory, WorkingMemory
from ziggurat.memory.stores.sqlite import LocalMemoryStore
from ziggurat.messages import Embeddings, EmbedRequest
from ziggurat.messages.model import pack
from ziggurat.testing import HandClock


async def test_a_memory_says_who_said_it_and_what_it_was_made_of() -> None:
    memory = EpisodicMemory(LocalMemoryStore(), "ann", ctx=context(HandClock(5.0)))
    made = await memory.remember(
        "x", importance=7, tags=["b", "a", "b"], origin="model", taint=["web", "mail", "web"], facts={"page": 3}
    )
    assert (made.id, made.owner, made.kind, made.importance) == ("m1", "ann", "episodic", 1.0)
    assert (made.tags, made.origin, made.taint, made.facts) == (("b", "a"), "model", ("mail", "web"), {"page": 3})
    assert (made.created, made.used, made.uses) == (5.0, 5.0, 0)
    assert (await memory.remember("y", importance=-1, origin="tool")).taint == ("tool",)


async def test_what_is_superseded_is_archived_and_can_be_read() -> None:
    memory = SemanticMemory(LocalMemoryStore(), "ann")
    rome = await memory.remember("Ann lives in Rome.", tags=["home"])
    oslo = await memory.remember("Ann lives in Oslo.", tags=["home"], supersedes=rome.id)
    bern = await memory.remember("Ann lives in Bern.", tags=["home"], supersedes=oslo.id)
    assert [each.content for each in await memory.recall("Where does Ann live? She lives in")] == [bern.content]
    assert [each.id for each in await memory.history(bern.id)] == [bern.id, oslo.id, rome.id]
    assert [each.archived for each in await memory.history(bern.id)] == [False, True, True]
    assert await memory.forget(bern.id) == 1
    assert await memory.forget(bern.id) == 0
    assert await memory.recall(tags=["home"]) == []
    assert await memory.erase(bern.id) == 3
    assert await memory.history(bern.id) == []


async def test_nobody_touches_the_memories_of_others() -> None:
    store = LocalMemoryStore()
    anns = await SemanticMemory(store, "ann").remember("secret of Ann")
    ben = SemanticMemory(store, "ben")
    with pytest.raises(ConfigurationError, match="'ben'"):
        await ben.remember("secret", supersedes=anns.id)
    assert await ben.forget(anns.id) == 0
    assert await ben.erase(anns.id) == 0
    assert await ben.history(anns.id) == []
    assert await ben.recall("secret") == []
    assert await store.get([anns.id]) == [anns]


async def test_an_embedder_makes_the_vectors_of_what_is_remembered_and_asked() -> None:
    asked: list[tuple[EmbedRequest, str]] = []

    async def embedder(request: EmbedRequest, ctx: Context) -> Embeddings:
        asked.append((request, ctx.path))
        return Embeddings(tuple(pack([1.0, 0.0] if "cat" in text else [0.6, 0.8]) for text in request.texts))

    memory = AgentMemory(LocalMemoryStore(), "ann", embedder=embedder, ctx=context(HandClock()))
    made = await memory.remember("a cat purrs", kind="longterm")
    assert made.embedding == pack([1.0, 0.0])
    (recalled,) = await memory.recall("an animal")
    assert (recalled.record.id, round(recalled.score, 6)) == (made.id, 0.6)
    assert asked == [
        (EmbedRequest(("a cat purrs",)), "test/embed"),
        (EmbedRequest(("an animal",), "query"), "test/embed#2"),
    ]


ASKED: list[dict[str, Any]] = [
    {"query": 3}, {"limit": -1}, {"limit": None}, {"limit": "10"}, {"limit": True}, {"tags": "home"}, {"tags": 3},
    {"tags": [3]},
]  # fmt: skip


@pytest.mark.parametrize("kind", [EpisodicMemory, SemanticMemory, LongTermMemory, AgentMemory])
async def test_a_recall_that_cannot_be_asked_is_refused(kind: type) -> None:
    memory = kind(LocalMemoryStore(), "ann")
    await memory.remember("Ann lives in Rome.")
    for given in ASKED:
        with pytest.raises(ConfigurationError, match="".join(given)):
            await memory.recall(**{"query": "Rome", **given})


SAID: list[dict[str, Any]] = [
    {"content": " \n"}, {"content": 3}, {"tags": "abc"}, {"tags": [3]}, {"taint": "search"}, {"taint": 3},
    {"importance": "high"}, {"importance": float("nan")}, {"origin": "nobody"}, {"facts": [1]}, {"facts": {3: 4}},
    {"supersedes": []},
]  # fmt: skip


async def test_what_cannot_be_remembered_is_refused_and_nothing_is_kept() -> None:
    memory = EpisodicMemory(LocalMemoryStore(), "ann")
    for given in SAID:
        with pytest.raises(ConfigurationError, match="".join(given)):
            await memory.remember(**{"content": "Ann lives in Rome.", **given})
    with pytest.raises(ConfigurationError, match="gone"):
        await memory.remember("x", supersedes="gone")
    assert await memory.count() == 0


async def test_tags_may_come_one_by_one() -> None:
    memory = SemanticMemory(LocalMemoryStore(), "ann")
    await memory.remember("Ann lives in Rome.", key="home", tags=(tag for tag in ["place", "city"]))
    assert len(await memory.recall(tags=(tag for tag in ["city"]))) == 1
    assert [record.content async for record in memory.scan(tags=(tag for tag in ["place"]))] == ["Ann lives in Rome."]


SETTINGS: list[tuple[Any, dict[str, Any]]] = [
    (LongTermMemory, {"min_importance": "x"}), (LongTermMemory, {"stability_days": "x"}),
    (EpisodicMemory, {"max_age": "x"}), (EpisodicMemory, {"score": 3}),
    (WorkingMemory, {"capacity": None}), (WorkingMemory, {"owner": 3}),
]  # fmt: skip


async def test_settings_of_wrong_types_are_refused() -> None:
    store = LocalMemoryStore()
    for kind, given in SETTINGS:
        with pytest.raises(ConfigurationError, match="".join(given)):
            kind(**{"store": store, "owner": "ann", **given})
    with pytest.raises(ConfigurationError):
        await WorkingMemory(store, "ann").set("a", wrong(3))
