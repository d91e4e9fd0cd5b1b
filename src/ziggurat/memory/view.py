"""The base class of all kinds of memory: one owner's records of one kind, in any store."""

from collections.abc import AsyncIterator, Callable, Collection, Mapping
from typing import Any

from msgspec.structs import replace

from ziggurat.core.context import Context, root
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.settings import NonEmptyText, PositiveInt, checked
from ziggurat.memory import vectorizing
from ziggurat.memory.record import UNDONE, MemoryRecord, Origin, Words, predecessors
from ziggurat.memory.scoring import Eviction, Score, ScoringInputs, lowest
from ziggurat.memory.search import FLOOR, Recalled, find, near_best
from ziggurat.memory.store import OpenedStore, Query
from ziggurat.memory.words import KEY_TAG
from ziggurat.messages.model import Embedder

_LOWEST = lowest()
CANDIDATES = 1000  # how many of the most relevant memories are scored, where a score decides their order


class View:
    """The memories of one owner and one kind; subclasses differ in how they recall and forget."""

    kind: str | None = None
    """The kind of record stored; None for a view of all kinds, which creates records of the kind ``"memory"``."""

    @checked
    def __init__(
        self,
        store: OpenedStore,
        owner: NonEmptyText,
        *,
        capacity: PositiveInt | None = None,
        evict: Eviction = _LOWEST,
        embedder: Embedder | None = None,
        ctx: Context | None = None,
    ) -> None:
        self.store = store
        self.owner = owner
        self.capacity = capacity
        self.evict = evict
        self.embedder = embedder
        self.ctx: Context = ctx or root("memory")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.store!r}, {self.owner!r})"

    @checked
    async def remember(
        self,
        content: NonEmptyText,
        *,
        importance: float = 0.5,
        tags: Words = (),
        origin: Origin = "user",
        taint: Words = (),
        supersedes: str | None = None,
        facts: Mapping[str, object] | None = None,
    ) -> MemoryRecord:
        """Store something, and evict memories beyond the capacity.

        Args:
            content: The text to remember.
            importance: From 0 to 1; values outside are clipped.
            tags: Words to filter by.
            origin: Who said it.
            taint: The tools whose results it was made from; by default ``"tool"`` for content of that origin.
            supersedes: The id of a memory that this contradicts or replaces; that one is archived in the same write.
            facts: A few plain values to store beside it.

        Raises:
            ConfigurationError: the content is empty, or the owner has no memory with the superseded id.
        """
        draft = self._make(content, importance, tags, origin, taint, supersedes=supersedes, facts=dict(facts or {}))
        (record,) = await vectorizing.with_vectors([draft], self.store, self.embedder, self.ctx)
        record = await self._write(record)
        await self._make_room([record.id])
        return record

    async def _write(self, record: MemoryRecord) -> MemoryRecord:
        if record.supersedes is None:
            await self.store.add([record])
        else:
            await self.store.put([record, replace(await self._own_record(record.supersedes), archived=True)])
        return record

    @checked
    async def remember_all(
        self,
        contents: Collection[NonEmptyText],
        *,
        importance: float = 0.5,
        tags: Words = (),
        origin: Origin = "user",
        taint: Words = (),
    ) -> list[MemoryRecord]:
        """Store many texts in one write, with one request to the embedder for each hundred or so; see `remember`."""
        tags, taint = tuple(tags), tuple(taint)
        drafts = [self._make(content, importance, tags, origin, taint) for content in contents]
        records = await vectorizing.with_vectors(drafts, self.store, self.embedder, self.ctx)
        await self.store.add(records)
        await self._make_room([record.id for record in records])
        return records

    def _make(
        self, content: str, importance: float, tags: Words, origin: Origin, taint: Words, **more: Any
    ) -> MemoryRecord:
        now = self.ctx.clock.now()
        return MemoryRecord(
            id=self.ctx.new_id(),
            owner=self.owner,
            content=content,
            kind=self.kind or "memory",
            importance=min(1.0, max(0.0, importance)),
            tags=tuple(dict.fromkeys(tags)),
            origin=origin,
            taint=tuple(sorted(set(taint))) or (("tool",) if origin == "tool" else ()),
            created=now,
            used=now,
            **more,
        )

    async def reembed(self, progress: vectorizing.Progress | None = None) -> vectorizing.Reembedded:
        """Embed this owner's memories without a vector of the embedder's model; see `vectorizing.reembed`."""
        if self.embedder is None:
            raise ConfigurationError(f"{self!r} has no embedder to reembed with; give it embedder=...")
        return await vectorizing.reembed(self.store, self.owner, self.embedder, self.ctx, progress)

    async def forget(self, *ids: str) -> int:
        """Archive memories of this owner: no recall finds them, but `history` does; return how many were in use."""
        records = [record for record in await self.store.get(ids) if record.owner == self.owner and not record.archived]
        await self._archive(records)
        return len(records)

    async def undo(self, memory: str) -> list[MemoryRecord]:
        """Bring back what a memory replaced, or what was merged into it, and archive it; return what is in use again.

        A memory that was forgotten, evicted or pruned comes back itself. What was merged is not merged again.

        Raises:
            ConfigurationError: the owner has no memory with this id; another one in use replaced it, which is the one
                to undo; it was undone; or a memory that would come back has the key of another one in use.
        """
        record = await self._own_record(memory)
        before = [each for each in await self.store.get(predecessors(record)) if each.owner == self.owner]
        if record.archived:
            if any(not each.archived for each in before):
                raise ConfigurationError(f"the memory {memory!r} is not in use, and what it replaced is: it was undone")
            await self._check_not_replaced(record)
            back, archived = [replace(record, archived=False)], list[MemoryRecord]()
        else:
            mark = {UNDONE: record.id} if "sources" in record.facts else {}
            back = [replace(each, archived=False, facts={**each.facts, **mark}) for each in before if each.archived]
            archived = [replace(record, archived=True)]
        if back:
            await self._check_keys(back, record)
            await self.store.put([*archived, *back])
        return back

    async def _check_not_replaced(self, record: MemoryRecord) -> None:
        """Raise if a memory in use has taken the place of an archived one, directly or through others."""
        async for each in self.store.scan(owner=self.owner):
            before = await self.history(each.id) if predecessors(each) else ()
            if any(one.id == record.id for one in before):
                raise ConfigurationError(
                    f"the memory {record.id!r} was replaced by {each.id!r}, which is in use; undo that one"
                )

    async def _check_keys(self, back: Collection[MemoryRecord], going: MemoryRecord) -> None:
        for record in back:
            for tag in (each for each in record.tags if each.startswith(KEY_TAG)):
                others = self.store.scan(owner=self.owner, kind=record.kind, tags=[tag])
                rivals = [each.id async for each in others if each.id not in (record.id, going.id)]
                if rivals:
                    raise ConfigurationError(
                        f"the memory {record.id!r} has the key {tag.removeprefix(KEY_TAG)!r}, which {rivals[0]!r} has "
                        "taken since; forget that one first"
                    )

    async def erase(self, *ids: str) -> int:
        """Delete memories of this owner permanently, with all they superseded; return how many existed."""
        going: dict[str, None] = {}
        for each in ids:
            going.update(dict.fromkeys(record.id for record in await self.history(each)))
        return await self.store.remove(list(going))

    async def history(self, memory: str) -> list[MemoryRecord]:
        """Return the memory with this id and all it replaced, the latest first; empty if the id is unknown."""
        versions: dict[str, MemoryRecord] = {}
        waiting = [memory]
        while waiting:
            records = [record for record in await self.store.get(waiting) if record.owner == self.owner]
            versions.update({record.id: record for record in records})
            before = [each for record in records for each in predecessors(record)]
            waiting = [each for each in dict.fromkeys(before) if each not in versions]
        return list(versions.values())

    def scan(self, *, tags: Words = (), newest_first: bool = False) -> AsyncIterator[MemoryRecord]:
        """Iterate over the memories in use, by age."""
        return self.store.scan(owner=self.owner, kind=self.kind, tags=tuple(tags), newest_first=newest_first)

    async def count(self) -> int:
        """Return how many memories are in use."""
        return await self.store.count(owner=self.owner, kind=self.kind)

    async def _own_record(self, memory: str) -> MemoryRecord:
        for record in await self.store.get([memory]):
            if record.owner == self.owner:
                return record
        raise ConfigurationError(f"{self.owner!r} has no memory with the id {memory!r}")

    async def _make_room(self, newcomers: Collection[str]) -> None:
        """Evict memories beyond the capacity; concurrent writers never evict more than is too much together."""
        if self.capacity is None:
            return
        over = await self.count() - self.capacity
        while over > 0:
            records = [record async for record in self.scan()]
            others = [record for record in records if record.id not in newcomers] or records
            chosen = self.evict(others, min(len(others), over), self.ctx.clock.now())
            left = await self.store.trim([record.id for record in chosen], self.capacity)
            over = left if chosen else 0

    async def _prune(self, is_over: Callable[[MemoryRecord], bool]) -> int:
        going = [record async for record in self.scan() if is_over(record)]
        await self._archive(going)
        return len(going)

    async def _archive(self, records: Collection[MemoryRecord]) -> None:
        if records:
            await self.store.put([replace(record, archived=True) for record in records])

    async def find(
        self,
        query: str,
        *,
        limit: int = 10,
        tags: Words = (),
        floor: float = FLOOR,
        without: Words = (),
        apart: Words = (),
    ) -> list[Recalled]:
        """Return the most relevant memories, best first, each text once; nothing counts as recalled.

        Args:
            query: What to search for; a long one is searched in pieces of some sentences.
            limit: The maximum number of results.
            tags: Only memories that have all of these tags.
            floor: The relevance that a memory must have, see `Query`; 0 to find all, however irrelevant.
            without, apart: Kinds to leave out, or that may be many; see `Query`.
        """
        query_of = Query(
            owner=self.owner,
            text=query,
            limit=limit,
            kind=self.kind,
            tags=tuple(tags),
            without=tuple(without),
            apart=tuple(apart),
            floor=floor,
        )
        return await find(self.store, query_of, self.embedder, self.ctx)

    async def _recall_best(self, candidates: Collection[Recalled], score: Score, limit: int) -> list[Recalled]:
        least = near_best(each.relevance for each in candidates if each.relevance is not None)
        candidates = [each for each in candidates if each.relevance is None or each.relevance >= least]
        most = max((each.record.uses for each in candidates), default=0)
        now = self.ctx.clock.now()
        scored = [replace(each, score=score(each.record, ScoringInputs(now, each.score, most))) for each in candidates]
        return await self._touch(sorted(scored, key=lambda recalled: recalled.score, reverse=True)[:limit])

    async def _touch(self, recalled: list[Recalled]) -> list[Recalled]:
        if recalled:
            await self.store.touch([each.record.id for each in recalled], self.ctx.clock.now())
        return recalled
