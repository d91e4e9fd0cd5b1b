"""Kinds of memory: events, facts, a few named values, and what is forgotten along a curve unless it is used."""

from collections.abc import Sequence
from typing import Unpack

from msgspec.structs import replace

from ziggurat.core.context import Context, root
from ziggurat.core.settings import (
    Fraction,
    NonEmptyText,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Seconds,
    checked,
)
from ziggurat.memory import scoring
from ziggurat.memory.record import UNDONE, MemoryRecord, Origin, RememberOptions, Words, combined
from ziggurat.memory.scoring import Eviction, Score, importance
from ziggurat.memory.search import Recalled
from ziggurat.memory.similar import find_same
from ziggurat.memory.store import OpenedStore, in_place_of
from ziggurat.memory.view import CANDIDATES, View
from ziggurat.memory.words import KEY_TAG
from ziggurat.messages.model import Embedder

_LOWEST = scoring.lowest()
_INSTANT = 1e-6


class EpisodicMemory(View):
    """Store the episodes of one owner and recall the ones that score best.

    ::

        memory = EpisodicMemory(store, "ann", score=product(importance, half_life(24)), capacity=1000)
        await memory.remember("The deployment failed at noon.", importance=0.9)
        for recalled in await memory.recall(limit=3):
            print(recalled.score, recalled.content)

    Args:
        score: What an episode is worth; `importance`, ``product(importance, half_life(...))``, `hybrid` or your own.
        max_age: Episodes older than this many seconds are not recalled; None for no limit.
        capacity: How many may be in use; None for any number.
        evict: Chooses which are evicted beyond the capacity; by default the least important, never the new one.
        store: Where the memories are stored, as `open_memory` returns it.
        owner: Whose memories they are, such as a user's or an agent's name.
        embedder: Makes the vectors of contents and queries; without it only words are compared.
        ctx: Supplies the clock, the ids and the context of embedder calls; by default the system's.
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
        embedder: Embedder | None = None,
        ctx: Context | None = None,
    ) -> None:
        super().__init__(store, owner, capacity=capacity, evict=evict, embedder=embedder, ctx=ctx)
        self.score = score
        self.max_age = max_age

    @checked
    async def recall(
        self,
        query: str | None = None,
        *,
        limit: NonNegativeInt = 10,
        tags: Words = (),
    ) -> list[Recalled]:
        """Return the episodes that score best, the earliest of equals first, and record that they were recalled.

        Only those that match the query are scored, at most the thousand most relevant; without a query, all.
        """
        if query is None:
            candidates = [Recalled(record, 0.0) async for record in self.scan(tags=tags)]
        else:
            candidates = await self.find(query, limit=CANDIDATES, tags=tags)
        young = [each for each in candidates if not self.is_outdated(each.record)]
        return await self._recall_best(young, self.score, limit)

    async def prune(self) -> int:
        """Evict the episodes older than `max_age`; return how many were evicted."""
        return await self._prune(self.is_outdated)

    def is_outdated(self, record: MemoryRecord) -> bool:
        """Return whether a memory is an episode that is too old to be recalled."""
        age = self.ctx.clock.now() - record.created
        return record.kind == self.kind and self.max_age is not None and age > self.max_age


class SemanticMemory(View):
    """Store the facts of one owner; a fact stored under a key replaces the one that was there.

    ::

        memory = SemanticMemory(store, "ann")
        await memory.remember("Otters are playful swimmers.", key="otter", tags=["animal"])
        (best, *others) = await memory.recall("playful swimmers")

    Args:
        capacity: How many facts may be in use; None for any number. Beyond it facts are evicted, but never the new one.
        evict: Chooses which facts are evicted; by default the least important.
        store, owner, embedder, ctx: As of `EpisodicMemory`.
    """

    kind: str = "semantic"

    @checked
    async def remember(
        self,
        content: NonEmptyText,
        *,
        key: NonEmptyText | None = None,
        **options: Unpack[RememberOptions],
    ) -> MemoryRecord:
        """Store a fact.

        Args:
            content: The fact.
            key: What the fact is about. A different fact under the same key is superseded, the same one stored once.
            options: As of `EpisodicMemory.remember`, such as ``importance=0.9`` and ``tags=["place"]``.
        """
        if key is None:
            return await super().remember(content, **options)
        tags = options["tags"] = (*options.get("tags", ()), KEY_TAG + key)
        options["facts"] = {**(options.get("facts") or {}), "key": key}
        before = await self.about(key)
        same = before is not None and before.content == content and before.tags == tuple(dict.fromkeys(tags))
        if before is not None and same and options.get("supersedes") is None:
            return before
        return await super().remember(content, **options)

    async def _write(self, record: MemoryRecord) -> MemoryRecord:
        key = record.facts.get("key")
        if not isinstance(key, str) or KEY_TAG + key not in record.tags:
            return await super()._write(record)
        if record.supersedes is not None:
            await self._own_record(record.supersedes)
        before = await self.store.put_in_place(record, KEY_TAG + key)
        if record.supersedes is not None and record.supersedes not in [each.id for each in before]:
            await self._archive([await self._own_record(record.supersedes)])
        return in_place_of(record, before)

    async def about(self, key: NonEmptyText) -> MemoryRecord | None:
        """Return the fact stored under a key, or None."""
        async for record in self.store.scan(
            owner=self.owner, kind=self.kind, tags=[KEY_TAG + key], newest_first=True, limit=1
        ):
            return record
        return None

    @checked
    async def recall(
        self,
        query: str | None = None,
        *,
        limit: NonNegativeInt = 10,
        tags: Words = (),
    ) -> list[Recalled]:
        """Return facts by meaning, by tags, or by both, and record in them that they were recalled.

        The most relevant come first, with their relevance as their scores; without a query, the latest.
        """
        if query is None:
            records = self.store.scan(
                owner=self.owner, kind=self.kind, tags=tuple(tags), newest_first=True, limit=limit
            )
            return await self._touch([Recalled(record, record.importance) async for record in records])
        return await self._touch(await self.find(query, limit=limit, tags=tags))


class WorkingMemory:
    """Store up to `capacity` texts by name; reading or setting one makes it the most recently used.

    It is a scratch pad: setting a name again overwrites its value, and values beyond the capacity are deleted.

    ::

        memory = WorkingMemory(store, "ann", capacity=2)
        await memory.set("goal", "book a flight")
        await memory.get("goal")
    """

    kind: str = "working"

    @checked
    def __init__(
        self,
        store: OpenedStore,
        owner: NonEmptyText,
        *,
        capacity: PositiveInt = 64,
        ctx: Context | None = None,
    ) -> None:
        self.store = store
        self.owner = owner
        self.capacity = capacity
        self.ctx: Context = ctx or root("memory")
        self._last = 0.0

    def __repr__(self) -> str:
        return f"WorkingMemory({self.store!r}, {self.owner!r}, capacity={self.capacity})"

    @checked
    async def set(self, name: str, value: str, *, origin: Origin = "user", taint: Words = ()) -> None:
        """Store a value under a name, replacing the one that was there."""
        now = self._instant()
        record = MemoryRecord(
            id=self._id(name),
            owner=self.owner,
            content=value,
            kind=self.kind,
            origin=origin,
            taint=tuple(taint) or (("tool",) if origin == "tool" else ()),
            created=now,
            used=now,
            facts={"name": name},
        )
        await self.store.put([record])
        # One reading decides how many are removed and which: a count before it could be that of other writers.
        if await self.store.count(owner=self.owner, kind=self.kind) > self.capacity:
            await self.store.remove([each.id for each in (await self.records())[: -self.capacity]])

    async def get(self, name: str) -> str | None:
        """Return the value under a name, or None, and record that it was used."""
        for record in await self.store.get([self._id(name)]):
            await self.store.touch([record.id], self._instant())
            return record.content
        return None

    async def discard(self, name: str) -> bool:
        """Delete the value under a name; return whether there was one."""
        return await self.store.remove([self._id(name)]) > 0

    async def clear(self) -> None:
        """Delete all values."""
        await self.store.remove([record.id for record in await self.records()])

    async def items(self) -> dict[str, str]:
        """Return all values by name, the least recently used first; this does not count as use."""
        return {str(record.facts["name"]): record.content for record in await self.records()}

    async def records(self) -> list[MemoryRecord]:
        """Return the records of all values, the least recently used first; this does not count as use."""
        records = [record async for record in self.store.scan(owner=self.owner, kind=self.kind)]
        return sorted(records, key=lambda record: record.used)

    def _id(self, name: str) -> str:
        return f"working:{len(self.owner)}:{self.owner}:{name}"

    def _instant(self) -> float:
        """Return the time, but later than any returned before, so that values set at the same moment stay ordered."""
        self._last = max(self.ctx.clock.now(), self._last + _INSTANT)
        return self._last


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
        store, owner, embedder, ctx: As of `EpisodicMemory`.
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
        embedder: Embedder | None = None,
        ctx: Context | None = None,
    ) -> None:
        self.worth: Score = scoring.product(importance, scoring.retention(stability_days))
        self.min_importance = min_importance
        super().__init__(
            store,
            owner,
            capacity=capacity,
            evict=scoring.lowest(self.worth),
            embedder=embedder,
            ctx=ctx,
        )

    @checked
    async def recall(self, query: str, *, limit: NonNegativeInt = 10, tags: Words = ()) -> list[Recalled]:
        """Return the memories that match a query, by ``relevance * importance * retention``, and record their use."""
        matches = await self.find(query, limit=CANDIDATES, tags=tags)
        return await self._recall_best(matches, scoring.product(scoring.similarity, self.worth), limit)

    async def prune(self) -> int:
        """Evict the memories now worth less than `min_importance`; return how many were evicted."""
        at = scoring.ScoringInputs(self.ctx.clock.now())
        return await self._prune(lambda record: self.worth(record, at) < self.min_importance)

    async def consolidate(self, threshold: Fraction = 0.85) -> list[MemoryRecord]:
        """Merge near-duplicates; return the new memories, each with its parts in `history`.

        The earliest memory absorbs those with the same `wording` and a cosine with it above the threshold; memories
        that differ in a number, a unit, a name, a tense or an opposite stay apart. The result has the longest content,
        the mean importance, the sum of all uses, and the creation time of the earliest.
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
