"""The memory of one agent in one store: episodes, facts, working values and long-term memories."""

from collections.abc import Sequence
from typing import Literal, Unpack

from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.settings import NonEmptyText, NonNegativeInt, checked
from ziggurat.memory.kinds import EpisodicMemory, LongTermMemory, SemanticMemory, WorkingMemory
from ziggurat.memory.record import MemoryRecord, RememberOptions, Words
from ziggurat.memory.scoring import Score
from ziggurat.memory.search import BOUNDS, Bounds, Recalled, near_best
from ziggurat.memory.store import MemoryStore
from ziggurat.memory.view import CANDIDATES, View
from ziggurat.messages.model import Embedder

Kind = Literal["episodic", "semantic", "longterm"]

_SEEN = 50  # how many memories are looked at if some of them may be too old


class AgentMemory(View):
    """Combine all the memories of one agent; each kind is an attribute, and `recall` searches all of them at once.

    ::

        memory = AgentMemory(store, "ann")
        await memory.remember("The user prefers trains to planes.", kind="semantic", key="travel")
        await memory.working.set("goal", "book a trip to Rome")
        await memory.recall("How shall we travel?")

    Args:
        score: Orders the results; by default facts come before episodes, and the most relevant first.
        episodic, semantic, working, longterm: Each kind that needs settings of its own.
        embedder: Computes the vectors for each kind that was not passed in; without it only words are compared.
        bounds: How relevant a memory must be to be recalled; other embedders have others.
        store, owner, ctx: As of `EpisodicMemory`.

    Raises:
        ConfigurationError: a kind that was passed in uses another store or another owner.
    """

    kind: str | None = None

    @checked
    def __init__(
        self,
        store: MemoryStore,
        owner: NonEmptyText,
        *,
        score: Score | None = None,
        episodic: EpisodicMemory | None = None,
        semantic: SemanticMemory | None = None,
        working: WorkingMemory | None = None,
        longterm: LongTermMemory | None = None,
        embedder: Embedder | None = None,
        bounds: Bounds = BOUNDS,
        ctx: Context | None = None,
    ) -> None:
        super().__init__(store, owner, embedder=embedder, ctx=ctx)
        self.score = score
        self.bounds = bounds
        self.episodic: EpisodicMemory = episodic or EpisodicMemory(store, owner, embedder=embedder, ctx=ctx)
        self.semantic: SemanticMemory = semantic or SemanticMemory(store, owner, embedder=embedder, ctx=ctx)
        self.working: WorkingMemory = working or WorkingMemory(store, owner, ctx=ctx)
        self.longterm: LongTermMemory = longterm or LongTermMemory(store, owner, embedder=embedder, ctx=ctx)
        for view in (self.episodic, self.semantic, self.working, self.longterm):
            if view.store is not store or view.owner != owner:
                raise ConfigurationError(f"{view!r} is not a part of the memory of {owner!r} in {store!r}")

    @checked
    async def remember(
        self,
        content: NonEmptyText,
        *,
        kind: Kind = "episodic",
        key: NonEmptyText | None = None,
        **options: Unpack[RememberOptions],
    ) -> MemoryRecord:
        """Store something as an episode, a fact or a long-term memory.

        Args:
            content: The text to remember.
            kind: The kind of memory to store it as.
            key: What a fact is about; see `SemanticMemory.remember`.
            options: As of `EpisodicMemory.remember`; ``supersedes`` may name a memory of any kind.

        Raises:
            ConfigurationError: a key is given for another kind than a fact, or as `EpisodicMemory.remember`.
        """
        if kind == "semantic":
            return await self.semantic.remember(content, key=key, **options)
        if key is not None:
            raise ConfigurationError(f"remember: only facts have a key; use kind='semantic', got {kind!r}")
        return await (self.episodic if kind == "episodic" else self.longterm).remember(content, **options)

    @checked
    async def recall(self, query: str, *, limit: NonNegativeInt = 10, tags: Words = ()) -> list[Recalled]:
        """Return the memories that match a query, of all kinds but working values, and record their use."""
        hidden, floor = (WorkingMemory.kind,), self.bounds.floor
        if self.score is not None:
            matches = await self.find(query, limit=CANDIDATES, tags=tags, floor=floor, without=hidden)
            return await self._recall_best(self._not_outdated(matches), self.score, limit)
        talk = (EpisodicMemory.kind,)  # there may be facts behind much of it
        many = limit if self.episodic.max_age is None else max(limit, _SEEN)
        matches = await self.find(query, limit=many, tags=tags, floor=floor, without=hidden, apart=talk)
        return await self._touch(_facts_first(self._not_outdated(matches))[:limit])

    def _not_outdated(self, matches: Sequence[Recalled]) -> list[Recalled]:
        return [each for each in matches if not self.episodic.is_outdated(each.record)]


def _facts_first(matches: Sequence[Recalled]) -> list[Recalled]:
    least = near_best(each.score for each in matches)
    first = [each for each in matches if each.record.kind != EpisodicMemory.kind and each.score >= least]
    ids = {each.record.id for each in first}
    return [*first, *(each for each in matches if each.record.id not in ids)]
