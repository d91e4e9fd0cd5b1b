"""Long-term memory: memories are forgotten along a curve unless used, and merged when nearly equal."""

from collections.abc import Sequence

from msgspec.structs import replace

from ziggurat.core.context import Context
from ziggurat.core.settings import Fraction, NonEmptyText, NonNegativeInt, PositiveFloat, checked
from ziggurat.memory.record import UNDONE, MemoryRecord, Words, combined
from ziggurat.memory.scoring import Score, ScoringInputs, importance, lowest, product, retention, similarity
from ziggurat.memory.search import Recalled
from ziggurat.memory.similar import find_same
from ziggurat.memory.store import OpenedStore
from ziggurat.memory.view import CANDIDATES, View
from ziggurat.messages.model import Embedder


class LongTermMemory(View):
    """Store memories whose worth is ``importance * exp(-days_since_last_use / stability_days)``.

    ::

        memory = LongTermMemory(store, "ann", capacity=1000)
        await memory.remember("Ferry tickets include harbour bus rides", importance=0.9)
        hits = await memory.recall("ferry travel prices", limit=5)
        await memory.prune()  # archive what is nearly forgotten
        await memory.consolidate()  # merge near-duplicates

    Args:
        capacity: How many may be in use; beyond it the memory of least worth is evicted.
        min_importance: `prune` evicts memories worth less than this.
        stability_days: Days without use after which 1/e, about 0.37, of a memory's worth is left.
        store: Where the memories are stored, as `open_memory` returns it.
        owner: Whose memories they are, such as a user's or an agent's name.
        keep_evicted: Archive evicted memories, so that they can still be read; False to delete them.
        embedder: Makes the vectors of contents and queries; without it only words are compared.
        ctx: Supplies the clock, the ids and the context of embedder calls; by default the system's.
    """

    kind: str = "longterm"

    @checked
    def __init__(
        self,
        store: OpenedStore,
        owner: NonEmptyText,
        *,
        capacity: int | None = 10_000,
        min_importance: Fraction = 0.05,
        stability_days: PositiveFloat = 30.0,
        keep_evicted: bool = True,
        embedder: Embedder | None = None,
        ctx: Context | None = None,
    ) -> None:
        self.worth: Score = product(importance, retention(stability_days))
        self.min_importance = min_importance
        super().__init__(
            store,
            owner,
            capacity=capacity,
            evict=lowest(self.worth),
            keep_evicted=keep_evicted,
            embedder=embedder,
            ctx=ctx,
        )

    @checked
    async def recall(self, query: str, *, limit: NonNegativeInt = 10, tags: Words = ()) -> list[Recalled]:
        """Return the memories that match a query, by ``relevance * importance * retention``, and record their use."""
        matches = await self.find(query, limit=CANDIDATES, tags=tags)
        return await self._recall_best(matches, product(similarity, self.worth), limit)

    async def prune(self) -> int:
        """Evict the memories now worth less than `min_importance`; return how many were evicted.

        The remaining memories are not written, so pruning twice has the same effect as pruning once.
        """
        at = ScoringInputs(self.ctx.clock.now())
        return await self._prune(lambda record: self.worth(record, at) < self.min_importance)

    async def consolidate(self, threshold: Fraction = 0.85) -> list[MemoryRecord]:
        """Merge near-duplicates; return the new memories, each with its parts in `history`.

        The earliest memory absorbs those that have the same `wording` and a cosine with it above the threshold, so that
        memories that differ in a number, a unit, a name, a tense or an opposite stay apart. The result has the longest
        content, the mean importance, the sum of all uses, and the creation time of the earliest.

        Raises:
            MissingExtra: the memories have vectors, and NumPy is not installed.
        """
        records = [record async for record in self.scan() if UNDONE not in record.facts]
        merged: list[MemoryRecord] = []
        for group, _ in find_same(records, threshold):
            new = _merge(group)
            await self.store.put([new, *(replace(record, archived=True) for record in group)])
            merged.append(new)
        return merged


def _merge(group: Sequence[MemoryRecord]) -> MemoryRecord:
    first, longest = group[0], max(group, key=lambda record: len(record.content))
    base = replace(
        first,
        content=longest.content,
        embedding=longest.embedding,
        origin=longest.origin,
        used=max(record.used for record in group),
        supersedes=first.id,
    )
    return combined(group, base)
