"""Tests of what all kinds of memory share: origin, superseding, forgetting and erasing."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.memory.making import context
from tests.wrong import wrong
from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError
from ziggurat.memory.agent_memory import AgentMemory
from ziggurat.memory.episodic import EpisodicMemory
from ziggurat.memory.longterm import LongTermMemory
from ziggurat.memory.record import pack
from ziggurat.memory.semantic import SemanticMemory
from ziggurat.memory.stores.local import LocalMemoryStore
from ziggurat.memory.working import WorkingMemory
from ziggurat.messages.embedding import Embeddings, EmbedRequest
from ziggurat.testing.clock import HandClock


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
    with pytest.raises(ConfigurationError, match="'ben' has no memory with the id"):
        await ben.remember("secret", supersedes=anns.id)
    assert await ben.forget(anns.id) == 0
    assert await ben.erase(anns.id) == 0
    assert await ben.history(anns.id) == []
    assert await ben.recall("secret") == []
    assert await store.get([anns.id]) == [anns]


async def test_wrong_arguments_raise_at_once() -> None:
    memory = EpisodicMemory(LocalMemoryStore(), "ann")
    with pytest.raises(ConfigurationError, match=r"\(content=...\) is a text that is not empty"):
        await memory.remember(" \n")
    with pytest.raises(ConfigurationError, match=r"\(content=...\) is a text that is not empty; got 3"):
        await memory.remember(3)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"write \['abc'\]"):
        await memory.remember("x", tags="abc")
    with pytest.raises(ConfigurationError, match=r"\(importance=...\) is a number; got 'high'"):
        await memory.remember("x", importance="high")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"\(limit=...\) is a whole number of at least 0"):
        await memory.recall("x", limit=-1)
    with pytest.raises(ConfigurationError, match="importance"):
        await memory.remember("x", importance=float("nan"))
    with pytest.raises(ConfigurationError, match="no memory with the id 'gone'"):
        await memory.remember("x", supersedes="gone")
    assert await memory.count() == 0


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


@pytest.mark.parametrize("kind", [EpisodicMemory, SemanticMemory, LongTermMemory, AgentMemory])
@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"query": 3}, r"recall\(query=...\) is a text( or None)?; got 3"),
        ({"limit": None}, r"recall\(limit=...\) is a whole number of at least 0; got None"),
        ({"limit": "10"}, "is a whole number of at least 0; got '10'"),
        ({"limit": True}, "is a whole number of at least 0; got True"),
        ({"tags": "home"}, r"recall\(tags=...\) is a list, each item a text; got 'home', write \['home'\]"),
        ({"tags": 3}, r"\(tags=...\) is a list, each item a text; got 3"),
        ({"tags": [3]}, r"\(tags=...\) is a list, each item a text; got 3 among them"),
        ({"embedding": "x"}, r"\(embedding=...\) is a value of bytes, 32-bit floats as pack\(\) writes them"),
        ({"embedding": b"xyz"}, "an embedding is 32-bit floats"),
    ],
    ids=repr,
)
async def test_a_recall_that_cannot_be_asked_is_refused(kind: type, wrong: dict[str, Any], told: str) -> None:
    memory = kind(LocalMemoryStore(), "ann")
    await memory.remember("Ann lives in Rome.")
    with pytest.raises(ConfigurationError, match=told):
        await memory.recall(**{"query": "Rome", **wrong})


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"tags": [3]}, "is a list, each item a text"),
        ({"taint": "search"}, r"\(taint=...\) is a list, each item a text; got 'search', write \['search'\]"),
        ({"taint": 3}, "is a list, each item a text"),
        ({"origin": "nobody"}, "is 'user', 'model', 'tool' or 'runtime'; got 'nobody'"),
        ({"facts": [1]}, r"\(facts=...\) is a mapping, each key a text, or None; got \[1\]"),
        ({"facts": {3: 4}}, "is a mapping, each key a text"),
        ({"embedding": b"xyz"}, "an embedding is 32-bit floats"),
        ({"supersedes": []}, r"\(supersedes=...\) is a text or None; got \[\]"),
    ],
    ids=repr,
)
async def test_what_cannot_be_remembered_is_refused_and_nothing_is_kept(wrong: dict[str, Any], told: str) -> None:
    memory = EpisodicMemory(LocalMemoryStore(), "ann")
    with pytest.raises(ConfigurationError, match=told):
        await memory.remember("Ann lives in Rome.", **wrong)
    assert await memory.count() == 0


@pytest.mark.parametrize("verb", ["forget", "erase", "history"])
async def test_memories_are_named_by_their_ids(verb: str) -> None:
    with pytest.raises(ConfigurationError, match="is a text; got"):
        await getattr(EpisodicMemory(LocalMemoryStore(), "ann"), verb)([])


async def test_tags_may_come_one_by_one() -> None:
    memory = SemanticMemory(LocalMemoryStore(), "ann")
    await memory.remember("Ann lives in Rome.", key="home", tags=(tag for tag in ["place", "city"]))
    assert len(await memory.recall(tags=(tag for tag in ["city"]))) == 1
    assert [record.content async for record in memory.scan(tags=(tag for tag in ["place"]))] == ["Ann lives in Rome."]


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (
            lambda store: LongTermMemory(store, "ann", min_importance=wrong("x")),
            "is a number from 0 to 1; got 'x'",
        ),
        (
            lambda store: LongTermMemory(store, "ann", stability_days=wrong("x")),
            "is a number above 0; got 'x'",
        ),
        (
            lambda store: EpisodicMemory(store, "ann", max_age=wrong("x")),
            "is a number of seconds above 0 or None; got 'x'",
        ),
        (lambda store: EpisodicMemory(store, "ann", score=wrong(3)), r"EpisodicMemory\(score=...\) is a function"),
        (
            lambda store: WorkingMemory(store, "ann", capacity=wrong(None)),
            r"capacity=...\) is a whole number of at least 1; got None",
        ),
        (lambda store: WorkingMemory(store, wrong(3)), r"owner=...\) is a text that is not empty; got 3"),
        (
            lambda store: asyncio.run(LongTermMemory(store, "ann").consolidate(wrong("x"))),
            "a number from 0 to 1; got 'x'",
        ),
        (
            lambda store: asyncio.run(SemanticMemory(store, "ann").about(wrong([]))),
            "is a text that is not empty; got",
        ),
        (lambda store: asyncio.run(WorkingMemory(store, "ann").set("a", wrong(3))), "is a text; got 3"),
        (
            lambda store: asyncio.run(WorkingMemory(store, "ann").get(wrong(3))),
            "is a text; got 3",
        ),
    ],
)
def test_settings_of_wrong_types_are_refused(make: Callable[[LocalMemoryStore], object], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        make(LocalMemoryStore())
