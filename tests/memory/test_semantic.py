"""Tests of semantic memory: recall by meaning, by tags and by both; one fact per key."""

from math import log
from typing import Any

import pytest

from ziggurat import ConfigurationError, Context
from ziggurat.memory import LocalMemoryStore, SemanticMemory
from ziggurat.memory.record import pack
from ziggurat.models import Embeddings, EmbedRequest


async def test_fluffy_pets_bring_the_fact_about_cats_to_mind_first() -> None:
    memory = SemanticMemory(LocalMemoryStore(), "ann")
    await memory.remember("cats are fluffy animals", key="cat_fact")
    await memory.remember("quantum mechanics uncertainty principle", key="physics")
    first, *_ = await memory.recall("fluffy pets", limit=2)
    assert first.record.facts["key"] == "cat_fact"
    assert first.score == pytest.approx(log(3) / (log(3) + log(5)))  # one word of two, in one of two memories


async def test_tags_must_all_be_there_and_narrow_a_search() -> None:
    memory = SemanticMemory(LocalMemoryStore(), "ann")
    for content, tags in (("cats purr", ["animal", "home"]), ("lions purr", ["animal"]), ("cars purr", [])):
        await memory.remember(content, tags=tags)
    assert {each.content for each in await memory.recall(tags=["animal"])} == {"cats purr", "lions purr"}
    assert [each.content for each in await memory.recall(tags=["home", "animal"])] == ["cats purr"]
    assert [each.content for each in await memory.recall("cars cats", tags=["animal"])] == ["cats purr"]


async def test_meaning_is_the_cosine_of_embeddings() -> None:
    memory = SemanticMemory(LocalMemoryStore(), "ann")
    await memory.remember("north", embedding=pack([0, 1]))
    await memory.remember("east", embedding=pack([1, 0]))
    recalled = await memory.recall("elsewhere", embedding=pack([3, 4]))
    assert [(each.content, round(each.score, 6)) for each in recalled] == [("north", 0.8), ("east", 0.6)]


async def test_a_fact_takes_the_place_of_the_one_under_its_key() -> None:
    memory = SemanticMemory(LocalMemoryStore(), "ann")
    blue = await memory.remember("Ann's colour is blue.", key="colour")
    assert await memory.remember("Ann's colour is blue.", key="colour") == blue
    red = await memory.remember("Ann's colour is red.", key="colour", origin="tool", taint=["web"])
    await memory.remember("Ann's town is Rome.", key="town")
    assert red.supersedes == blue.id
    assert await memory.about("colour") == red
    assert await memory.about("shape") is None
    assert await memory.count() == 2
    assert [each.id for each in await memory.history(red.id)] == [red.id, blue.id]


async def test_a_key_is_text_and_tags_are_words() -> None:
    store = LocalMemoryStore()
    wrong: list[dict[str, Any]] = [{"key": 3}, {"key": ""}, {"tags": "travel"}, {"tags": 3}, {"tags": None}]
    for options in wrong:
        with pytest.raises(ConfigurationError, match="".join(options)):
            await SemanticMemory(store, "ann").remember("Ann lives in Rome.", **options)
    assert await store.count(owner="ann") == 0


async def test_a_fact_is_found_by_its_key_too() -> None:
    """By words, and by the vector: its text then begins with the key."""
    embedded: list[str] = []

    async def embedder(request: EmbedRequest, ctx: Context) -> Embeddings:
        embedded.extend(request.texts)
        return Embeddings(tuple(pack([1.0, float(len(text))]) for text in request.texts))

    memory = SemanticMemory(LocalMemoryStore(), "ann")
    await memory.remember("Ann drinks tea.")
    rome = await memory.remember("Ann lives in Rome.", key="home town")
    assert [each.record.id for each in await memory.recall("What is her home town?")] == [rome.id]
    memory = SemanticMemory(memory.store, "ann", embedder=embedder)
    await memory.remember("Ann moved to Oslo.", key="home town")
    assert embedded == [
        *("home town: Ann moved to Oslo.", "home town"),
        *("Ann drinks tea.", "home town: Ann lives in Rome.", "home town"),
    ]
