"""What all kinds of memory share: who said it, what took whose place, and what can be forgotten."""

import asyncio

import pytest

from tests.memory.making import context
from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError
from ziggurat.memory.agent_memory import AgentMemory
from ziggurat.memory.episodic import EpisodicMemory
from ziggurat.memory.record import pack
from ziggurat.memory.semantic import SemanticMemory
from ziggurat.memory.stores.in_memory import InMemoryStore
from ziggurat.messages.embedding import Embeddings, EmbedRequest
from ziggurat.testing.clock import HandClock


def test_a_memory_says_who_said_it_and_what_it_was_made_of() -> None:
    async def main() -> None:
        memory = EpisodicMemory(InMemoryStore(), "ann", ctx=context(HandClock(5.0)))
        made = await memory.remember(
            "x", importance=7, tags=["b", "a", "b"], origin="model", taint=["web", "mail", "web"], facts={"page": 3}
        )
        assert (made.id, made.owner, made.kind, made.importance) == ("m1", "ann", "episodic", 1.0)
        assert (made.tags, made.origin, made.taint, made.facts) == (("b", "a"), "model", ("mail", "web"), {"page": 3})
        assert (made.created, made.used, made.uses) == (5.0, 5.0, 0)
        assert (await memory.remember("y", importance=-1, origin="tool")).taint == ("tool",)

    asyncio.run(main())


def test_what_is_superseded_is_archived_and_can_be_read() -> None:
    async def main() -> None:
        memory = SemanticMemory(InMemoryStore(), "ann")
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

    asyncio.run(main())


def test_nobody_touches_the_memories_of_others() -> None:
    async def main() -> None:
        store = InMemoryStore()
        anns = await SemanticMemory(store, "ann").remember("secret of Ann")
        ben = SemanticMemory(store, "ben")
        with pytest.raises(ConfigurationError, match="'ben' has no memory with the id"):
            await ben.remember("secret", supersedes=anns.id)
        assert await ben.forget(anns.id) == 0
        assert await ben.erase(anns.id) == 0
        assert await ben.history(anns.id) == []
        assert await ben.recall("secret") == []
        assert await store.get([anns.id]) == [anns]

    asyncio.run(main())


def test_mistakes_are_told_at_the_door() -> None:
    async def main() -> None:
        memory = EpisodicMemory(InMemoryStore(), "ann")
        with pytest.raises(ConfigurationError, match="text that is not empty"):
            await memory.remember(" \n")
        with pytest.raises(ConfigurationError, match="text that is not empty, got 3"):
            await memory.remember(3)  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match=r"such as \['abc'\]"):
            await memory.remember("x", tags="abc")
        with pytest.raises(ConfigurationError, match="importance is a number from 0 to 1, got 'high'"):
            await memory.remember("x", importance="high")  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="a whole number that is not below 0"):
            await memory.recall("x", limit=-1)
        with pytest.raises(ConfigurationError, match="importance"):
            await memory.remember("x", importance=float("nan"))
        with pytest.raises(ConfigurationError, match="no memory with the id 'gone'"):
            await memory.remember("x", supersedes="gone")
        assert await memory.count() == 0

    asyncio.run(main())


def test_an_embedder_makes_the_vectors_of_what_is_remembered_and_asked() -> None:
    async def main() -> None:
        asked: list[tuple[EmbedRequest, str]] = []

        async def embedder(request: EmbedRequest, ctx: Context) -> Embeddings:
            asked.append((request, ctx.path))
            return Embeddings(tuple(pack([1.0, 0.0] if "cat" in text else [0.6, 0.8]) for text in request.texts))

        memory = AgentMemory(InMemoryStore(), "ann", embedder=embedder, ctx=context(HandClock()))
        made = await memory.remember("a cat purrs", kind="longterm")
        assert made.embedding == pack([1.0, 0.0])
        (recalled,) = await memory.recall("an animal")
        assert (recalled.record.id, round(recalled.score, 6)) == (made.id, 0.6)
        assert asked == [
            (EmbedRequest(("a cat purrs",)), "test/embed"),
            (EmbedRequest(("an animal",), "query"), "test/embed#2"),
        ]

    asyncio.run(main())
