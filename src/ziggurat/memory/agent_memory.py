"""The memory of one agent: its episodes, facts, values at hand and lasting memories, in one store."""

__all__ = ["AgentMemory"]

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError
from ziggurat.memory.episodic import EpisodicMemory
from ziggurat.memory.longterm import LongTermMemory
from ziggurat.memory.record import MemoryRecord, Origin
from ziggurat.memory.scoring import Score
from ziggurat.memory.semantic import SemanticMemory
from ziggurat.memory.similar import nearness
from ziggurat.memory.store import MemoryStore
from ziggurat.memory.view import CANDIDATES, Recalled, View, weighed
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
        importance: float = 0.5,
        tags: Iterable[str] = (),
        origin: Origin = "user",
        taint: Iterable[str] = (),
        supersedes: str | None = None,
        embedding: bytes | None = None,
        facts: Mapping[str, object] | None = None,
    ) -> MemoryRecord:
        """Keep something as an episode, a fact or a lasting memory; see `View.remember`.

        Args:
            content: What is to be remembered.
            kind: As what.
            key: What a fact is about; see `SemanticMemory.remember`.
            importance: From 0 to 1.
            tags: Words to find it by.
            origin: Who said it.
            taint: The tools whose results it was made of.
            supersedes: The id of a memory, of whatever kind, that this contradicts or replaces.
            embedding: Its vector.
            facts: A few plain values to keep beside it.

        Raises:
            ConfigurationError: the kind is unknown, a key is given for what is no fact, or the content is empty.
        """
        views: dict[str, View] = {"episodic": self.episodic, "semantic": self.semantic, "longterm": self.longterm}
        if kind not in views:
            raise ConfigurationError(f"remember: kind is one of {', '.join(views)}, got {kind!r}")
        if key is not None and kind != "semantic":
            raise ConfigurationError(f"remember: only facts have a key; use kind='semantic', got {kind!r}")
        keyed: dict[str, str] = {} if key is None else {"key": key}
        return await views[kind].remember(
            content,
            importance=importance,
            tags=tags,
            origin=origin,
            taint=taint,
            supersedes=supersedes,
            embedding=embedding,
            facts=facts,
            **keyed,
        )

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
        """
        hits = [
            hit
            for hit in await self._found(query, limit * CANDIDATES, tags, embedding)
            if hit.record.kind != WorkingMemory.kind
        ]
        if self.score is not None:
            return await self._best(weighed(query, hits), self.score, limit)
        return await self._noted([Recalled(hit.record, nearness(query, hit)) for hit in hits[:limit]])
