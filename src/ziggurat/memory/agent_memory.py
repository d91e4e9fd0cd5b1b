"""The memory of one agent in one store: episodes, facts, working values and long-term memories."""

__all__ = ["AgentMemory", "Kind"]

from collections.abc import Sequence
from typing import Literal, Unpack

from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError
from ziggurat.memory.episodic import EpisodicMemory
from ziggurat.memory.longterm import LongTermMemory
from ziggurat.memory.record import MemoryRecord
from ziggurat.memory.scoring import Score
from ziggurat.memory.semantic import SemanticMemory
from ziggurat.memory.similar import nearness
from ziggurat.memory.store import MemoryStore
from ziggurat.memory.view import CANDIDATES, Recalled, RememberOptions, View, asked, weighed
from ziggurat.memory.working import WorkingMemory
from ziggurat.messages.embedding import Embedder

Kind = Literal["episodic", "semantic", "longterm"]


class AgentMemory(View):
    """All that one agent remembers; each kind is an attribute, and `recall` asks all of them at once.

    ::

        memory = AgentMemory(store, "ann")
        await memory.remember("The user prefers trains to planes.", kind="semantic", key="travel")
        await memory.working.set("goal", "book a trip to Rome")
        await memory.recall("How shall we travel?")

    Args:
        store: Where the memories are kept.
        owner: Whose they are.
        score: Orders what was found, such as ``product(similarity, decayed(retention(30)))``; the store's own order,
            by meaning and words, without.
        episodic: Its episodes, where they have settings of their own; the other kinds likewise.
        embedder: Makes the vectors for all kinds but those that were given; words alone are compared without.
        ctx: Whose clock and ids are used; the system's without.

    Raises:
        ConfigurationError: a kind that was given keeps its memories elsewhere, or for somebody else.
    """

    kind = None

    def __init__(
        self,
        store: MemoryStore,
        owner: str,
        *,
        score: Score | None = None,
        episodic: EpisodicMemory | None = None,
        semantic: SemanticMemory | None = None,
        working: WorkingMemory | None = None,
        longterm: LongTermMemory | None = None,
        embedder: Embedder | None = None,
        ctx: Context | None = None,
    ) -> None:
        super().__init__(store, owner, embedder=embedder, ctx=ctx)
        self.score = score
        self.episodic = episodic or EpisodicMemory(store, owner, embedder=embedder, ctx=ctx)
        self.semantic = semantic or SemanticMemory(store, owner, embedder=embedder, ctx=ctx)
        self.working = working or WorkingMemory(store, owner, ctx=ctx)
        self.longterm = longterm or LongTermMemory(store, owner, embedder=embedder, ctx=ctx)
        for view in (self.episodic, self.semantic, self.working, self.longterm):
            if view.store is not store or view.owner != owner:
                raise ConfigurationError(f"{view!r} is not a part of the memory of {owner!r} in {store!r}")

    async def remember(
        self,
        content: str,
        *,
        kind: Kind = "episodic",
        key: str | None = None,
        **options: Unpack[RememberOptions],
    ) -> MemoryRecord:
        """Keep something as an episode, a fact or a lasting memory.

        Args:
            content: What is to be remembered.
            kind: As what.
            key: What a fact is about; see `SemanticMemory.remember`.
            options: What `View.remember` takes, such as ``importance=0.9``; ``supersedes`` may name any kind of memory.

        Raises:
            ConfigurationError: the kind is unknown, a key is given for what is not a fact, or as `View.remember`.
        """
        views: dict[str, View] = {"episodic": self.episodic, "semantic": self.semantic, "longterm": self.longterm}
        if kind not in views:
            raise ConfigurationError(f"remember: kind is one of {', '.join(views)}, got {kind!r}")
        if key is not None and kind != "semantic":
            raise ConfigurationError(f"remember: only facts have a key; use kind='semantic', got {kind!r}")
        if key is not None:
            return await self.semantic.remember(content, key=key, **options)
        return await views[kind].remember(content, **options)

    async def recall(
        self, query: str, *, limit: int = 10, tags: Sequence[str] = (), embedding: bytes | None = None
    ) -> list[Recalled]:
        """Return what has to do with a query, whatever its kind, and note in it that it was recalled.

        Values at hand are left out: they are few, and `working.items` has them all.

        Args:
            query: What is looked for.
            limit: How many at most.
            tags: Only memories that have all of these.
            embedding: The vector of the query.

        Raises:
            ConfigurationError: one of these is not of its kind.
        """
        tags = asked(query, limit, tags, embedding)
        hits = [
            hit
            for hit in await self._found(query, limit * CANDIDATES, tags, embedding)
            if hit.record.kind != WorkingMemory.kind
        ]
        if self.score is not None:
            return await self._best(weighed(query, hits), self.score, limit)
        return await self._noted([Recalled(hit.record, nearness(query, hit)) for hit in hits[:limit]])
