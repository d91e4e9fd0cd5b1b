"""The base class of all kinds of memory: one owner's records of one kind, in any store."""

__all__ = ["CANDIDATES", "Recalled", "RememberOptions", "View", "checked_tags", "texts", "with_nearness"]

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from heapq import nlargest
from typing import Literal, TypedDict, get_args

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.core.context import Context, root
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.settings import NonEmptyText, PositiveInt, checked
from ziggurat.memory.eviction import Eviction, lowest
from ziggurat.memory.record import MemoryRecord, Origin
from ziggurat.memory.scoring import Circumstances, Score
from ziggurat.memory.similar import nearness
from ziggurat.memory.store import Hit, OpenedStore, Query
from ziggurat.messages.embedding import Embedder, EmbedRequest

_LOWEST = lowest()
CANDIDATES = 4
"""How many times more memories are searched than are asked for, because a score may change their order."""


class Recalled(Struct, frozen=True):
    """A recalled memory with its score.

    Attributes:
        record: The memory, as it was before this recall was recorded in it.
        score: Its score; comparable only within one recall.
    """

    record: MemoryRecord
    score: float

    @property
    def content(self) -> str:
        """The text of the memory."""
        return self.record.content


class RememberOptions(TypedDict, total=False):
    """The options of every kind of memory; see `View.remember`."""

    importance: float
    tags: Iterable[str]
    origin: Origin
    taint: Iterable[str]
    supersedes: str | None
    embedding: bytes | None
    facts: Mapping[str, object] | None


class View:
    """The memories of one owner and one kind; subclasses differ in how they recall and forget.

    A view holds only its settings: the records are in the store, where other views and processes see them.

    Args:
        store: Where the memories are stored.
        owner: The owner of the memories, such as an agent's name.
        capacity: How many may be in use; None for any number. Beyond it memories are evicted, but never the new one.
        evict: Chooses which memories are evicted.
        keep_evicted: Archive evicted memories, so that they can still be read; False to delete them.
        embedder: Computes the vectors of contents and queries; without it only words are compared.
        ctx: Supplies the clock, the ids and the context of embedder calls; by default the system's.

    Raises:
        ConfigurationError: the capacity is below 1, or the owner is missing.
    """

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
        keep_evicted: bool = True,
        embedder: Embedder | None = None,
        ctx: Context | None = None,
    ) -> None:
        self.store = store
        self.owner = owner
        self.capacity = capacity
        self.evict = evict
        self.keep_evicted = keep_evicted
        self.embedder = embedder
        self.ctx = ctx or root("memory")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.store!r}, {self.owner!r})"

    async def remember(
        self,
        content: str,
        *,
        importance: float = 0.5,
        tags: Iterable[str] = (),
        origin: Origin = "user",
        taint: Iterable[str] = (),
        supersedes: str | None = None,
        embedding: bytes | None = None,
        facts: Mapping[str, object] | None = None,
    ) -> MemoryRecord:
        """Store something, and evict memories beyond the capacity.

        Args:
            content: The text to remember.
            importance: From 0 to 1; values outside are clipped.
            tags: Words to filter by.
            origin: Who said it.
            taint: The tools whose results it was made from; content of origin ``"tool"`` is tainted at least by
                ``"tool"``.
            supersedes: The id of a memory that this contradicts or replaces; that one is archived in the same write.
            embedding: Its vector, as `record.pack` writes it; by default the embedder computes it.
            facts: A few plain values to store beside it.

        Raises:
            ConfigurationError: the content is empty, an argument has the wrong type, or the owner has no memory with
                the superseded id.
        """
        _check(content, importance, origin, embedding, facts)
        tags, taint = texts("tags", tags), texts("taint", taint)
        now = self.ctx.clock.now()
        record = MemoryRecord(
            id=self.ctx.new_id(),
            owner=self.owner,
            content=content,
            kind=self.kind or "memory",
            embedding=embedding or await self._embed(content, "document"),
            importance=min(1.0, max(0.0, importance)) if importance == importance else importance,
            tags=tuple(dict.fromkeys(tags)),
            origin=origin,
            taint=tuple(sorted(set(taint))) or (("tool",) if origin == "tool" else ()),
            created=now,
            used=now,
            supersedes=supersedes,
            facts=dict(facts or {}),
        )
        if supersedes is None:
            await self.store.add([record])
        else:
            await self.store.put([record, replace(await self._own_record(supersedes), archived=True)])
        await self._make_room(record.id)
        return record

    async def forget(self, *ids: str) -> int:
        """Archive memories of this owner: no recall finds them, but `history` does; return how many were in use."""
        _check_ids(ids)
        found = [record for record in await self.store.get(ids) if record.owner == self.owner and not record.archived]
        await self._archive(found)
        return len(found)

    async def erase(self, *ids: str) -> int:
        """Delete memories of this owner permanently, with all they superseded; return how many existed."""
        going: dict[str, None] = {}
        for each in ids:
            going.update(dict.fromkeys(record.id for record in await self.history(each)))
        return await self.store.remove(list(going))

    async def history(self, memory: str) -> list[MemoryRecord]:
        """Return the memory with this id and all it replaced, the latest first; empty if the id is unknown."""
        _check_ids([memory])
        found: dict[str, MemoryRecord] = {}
        waiting = [memory]
        while waiting:
            records = [record for record in await self.store.get(waiting) if record.owner == self.owner]
            found.update({record.id: record for record in records})
            before = [each for record in records for each in _predecessors(record)]
            waiting = [each for each in dict.fromkeys(before) if each not in found]
        return list(found.values())

    def scan(self, *, tags: Iterable[str] = (), newest_first: bool = False) -> AsyncIterator[MemoryRecord]:
        """Iterate over the memories in use, by age."""
        tags = texts("tags", tags)
        return self.store.scan(owner=self.owner, kind=self.kind, tags=tags, newest_first=newest_first)

    async def count(self) -> int:
        """Return how many memories are in use."""
        return await self.store.count(owner=self.owner, kind=self.kind)

    async def _own_record(self, memory: str) -> MemoryRecord:
        _check_ids([memory])
        for record in await self.store.get([memory]):
            if record.owner == self.owner:
                return record
        raise ConfigurationError(f"{self.owner!r} has no memory with the id {memory!r} that could be superseded")

    async def _make_room(self, newcomer: str) -> None:
        if self.capacity is None:
            return
        over = await self.count() - self.capacity
        if over > 0:
            others = [record async for record in self.scan() if record.id != newcomer]
            await self._let_go(self.evict(others, over, self.ctx.clock.now()))

    async def _let_go(self, records: Sequence[MemoryRecord]) -> None:
        if self.keep_evicted:
            await self._archive(records)
        elif records:
            await self.store.remove([record.id for record in records])

    async def _archive(self, records: Sequence[MemoryRecord]) -> None:
        if records:
            await self.store.put([replace(record, archived=True) for record in records])

    async def _search(self, query: str, limit: int, tags: Sequence[str], embedding: bytes | None) -> list[Hit]:
        embedding = embedding or await self._embed(query, "query")
        return await self.store.search(
            Query(owner=self.owner, text=query, embedding=embedding, limit=limit, kind=self.kind, tags=tuple(tags))
        )

    async def _embed(self, text: str, purpose: Literal["document", "query"]) -> bytes | None:
        if self.embedder is None:
            return None
        return (await self.embedder(EmbedRequest((text,), purpose), self.ctx.under("embed"))).vectors[0]

    async def _recall_best(
        self, candidates: Sequence[tuple[MemoryRecord, float]], score: Score, limit: int
    ) -> list[Recalled]:
        """Return the best scored, the first in the list of equals, and record that they were recalled."""
        most = max((record.uses for record, _ in candidates), default=0)
        now = self.ctx.clock.now()
        scored = [
            Recalled(record, score(record, Circumstances(now, similarity, most))) for record, similarity in candidates
        ]
        return await self._touch(nlargest(limit, scored, key=lambda recalled: recalled.score))

    async def _touch(self, recalled: list[Recalled]) -> list[Recalled]:
        if recalled:
            await self.store.touch([each.record.id for each in recalled], self.ctx.clock.now())
        return recalled


def _predecessors(record: MemoryRecord) -> list[str]:
    sources = record.facts.get("sources")
    merged = [each for each in sources if isinstance(each, str)] if isinstance(sources, (list, tuple)) else []
    return merged if record.supersedes is None else [record.supersedes, *merged]


def with_nearness(query: str, hits: Sequence[Hit]) -> list[tuple[MemoryRecord, float]]:
    """Return the memories of hits with how near each is to the query."""
    return [(hit.record, nearness(query, hit)) for hit in hits]


def _check(content: str, importance: float, origin: Origin, embedding: object, facts: object) -> None:
    if not isinstance(content, str) or not content.strip():
        raise ConfigurationError(f"what is remembered is a non-empty string, got {content!r}")
    if isinstance(importance, bool) or not isinstance(importance, (int, float)):
        raise ConfigurationError(f"importance is a number from 0 to 1, got {importance!r}")
    if origin not in get_args(Origin):
        raise ConfigurationError(f"origin, who said it, is one of {', '.join(get_args(Origin))}; got {origin!r}")
    if facts is not None and not (isinstance(facts, Mapping) and all(isinstance(name, str) for name in facts)):
        raise ConfigurationError(f"facts maps names to plain values: facts={{'year': 1999}}; got {facts!r:.200}")
    _check_embedding(embedding)


def _check_embedding(embedding: object) -> None:
    if embedding is not None and not (isinstance(embedding, bytes) and len(embedding) % 4 == 0):
        raise ConfigurationError(f"an embedding is 32-bit floats: write it with pack(); got {embedding!r:.80}")


def _check_ids(ids: Sequence[str]) -> None:
    for each in ids:
        if not isinstance(each, str):
            raise ConfigurationError(f"a memory is named by its id, a string such as record.id; got {each!r:.200}")


def checked_tags(query: str | None, limit: int, tags: Iterable[str], embedding: bytes | None) -> tuple[str, ...]:
    """Check the arguments of a recall and return its tags.

    Raises:
        ConfigurationError: an argument has the wrong type or range.
    """
    if query is not None and not isinstance(query, str):
        raise ConfigurationError(f"what is looked for is text, got {query!r:.200}")
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 0:
        raise ConfigurationError(f"limit, how many at most, is a whole number that is not below 0; got {limit!r}")
    _check_embedding(embedding)
    return texts("tags", tags)


def texts(what: str, given: Iterable[str]) -> tuple[str, ...]:
    """Return words, such as tags, as a tuple.

    Raises:
        ConfigurationError: it is a single string, or not an iterable of strings.
    """
    if isinstance(given, str):
        raise ConfigurationError(f"{what} is a list of words, such as [{given!r}]; got the string {given!r}")
    words = tuple(given) if isinstance(given, Iterable) else (None,)
    if not all(isinstance(word, str) for word in words):
        raise ConfigurationError(f"{what} is a list of words, such as ['travel']; got {given!r:.200}")
    return words
