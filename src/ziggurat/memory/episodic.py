"""Episodic memory: events, which lose worth with time and are recalled by score."""

from collections.abc import Sequence

from ziggurat.core.context import Context
from ziggurat.core.settings import NonEmptyText, NonNegativeInt, Seconds, checked
from ziggurat.memory.arguments import Vector, Words, check_vector
from ziggurat.memory.eviction import Eviction, lowest
from ziggurat.memory.finding import Recalled
from ziggurat.memory.record import MemoryRecord
from ziggurat.memory.scoring import Score, importance
from ziggurat.memory.store import OpenedStore
from ziggurat.memory.view import CANDIDATES, View
from ziggurat.messages.embedding import Embedder

_LOWEST = lowest()


class EpisodicMemory(View):
    """Store the episodes of one owner and recall the ones that score best.

    ::

        memory = EpisodicMemory(store, "ann", score=decayed(half_life(hours=24)), capacity=1000)
        await memory.remember("The deployment failed at noon.", importance=0.9)
        for recalled in await memory.recall(limit=3):
            print(recalled.score, recalled.content)

    Args:
        store: Where the episodes are stored.
        owner: The owner of the episodes.
        score: What an episode is worth; `importance`, ``decayed(half_life(...))``, `hybrid` or your own.
        max_age: Episodes older than this many seconds are not recalled; None for no limit.
        capacity: How many may be in use; None for any number.
        evict: Chooses which episodes are evicted beyond the capacity; by default the least important, never the new
            one.
        keep_evicted: Archive evicted episodes; False to delete them.
        embedder: Computes the vectors of contents and queries; without it only words are compared.
        ctx: Supplies the clock and the ids; by default the system's.

    Raises:
        ConfigurationError: a bound is not above 0, or the owner is missing.
    """

    kind: str = "episodic"

    @checked
    def __init__(
        self,
        store: OpenedStore,
        owner: NonEmptyText,
        *,
        score: Score = importance,
        max_age: Seconds | None = None,
        capacity: int | None = None,
        evict: Eviction = _LOWEST,
        keep_evicted: bool = True,
        embedder: Embedder | None = None,
        ctx: Context | None = None,
    ) -> None:
        super().__init__(
            store,
            owner,
            capacity=capacity,
            evict=evict,
            keep_evicted=keep_evicted,
            embedder=embedder,
            ctx=ctx,
        )
        self.score = score
        self.max_age = max_age

    @checked
    async def recall(
        self,
        query: str | None = None,
        *,
        limit: NonNegativeInt = 10,
        tags: Words = (),
        embedding: Vector | None = None,
    ) -> list[Recalled]:
        """Return the episodes that score best, the earliest of equals first, and record that they were recalled.

        Args:
            query: Only episodes that match this, at most the thousand most relevant; without it all are scored.
            limit: The maximum number of results.
            tags: Only episodes that have all of these tags.
            embedding: The vector of the query.

        Raises:
            ConfigurationError: an argument has the wrong type or range.
        """
        check_vector(embedding)
        if query is None:
            candidates = [Recalled(record, 0.0) for record in await self._young(tuple(tags))]
        else:
            matches = await self.find(query, limit=CANDIDATES, tags=tags, embedding=embedding)
            candidates = [each for each in matches if self._is_young(each.record)]
        return await self._recall_best(candidates, self.score, limit)

    async def prune(self) -> int:
        """Evict the episodes older than `max_age`; return how many were evicted."""
        old = [record async for record in self.scan() if not self._is_young(record)]
        await self._let_go(old)
        return len(old)

    def is_outdated(self, record: MemoryRecord) -> bool:
        """Return whether a memory is an episode that is too old to be recalled."""
        return record.kind == self.kind and not self._is_young(record)

    def _is_young(self, record: MemoryRecord) -> bool:
        return self.max_age is None or self.ctx.clock.now() - record.created <= self.max_age

    async def _young(self, tags: Sequence[str]) -> list[MemoryRecord]:
        return [record async for record in self.scan(tags=tags) if self._is_young(record)]
