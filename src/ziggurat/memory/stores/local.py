"""The memory store in this process, for tests and short-lived use."""

from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import islice

from msgspec.structs import replace

from ziggurat.memory.record import MemoryRecord
from ziggurat.memory.search import COUNTED, Candidate, Entries, Source, best, compared, hits
from ziggurat.memory.store import UNEMBEDDED, Hit, MemoryStore, Query, in_place_of, refuse_known, refuse_unfit
from ziggurat.memory.vectors import VectorIndex, similarities
from ziggurat.memory.words import indexed_words

_Entries = dict[int, float]


class _WordIndex:
    """Index words by numbers; it answers three methods of `search.Source`."""

    def __init__(self) -> None:
        self._words: dict[str, dict[str, _Entries]] = {}
        self._memories: dict[str, int] = {}

    def add(self, number: int, owner: str, words: Mapping[str, float]) -> None:
        """Add a memory; its number is higher than those before."""
        self._memories[owner] = self._memories.get(owner, 0) + 1
        for word, often in words.items():
            self._words.setdefault(word, {}).setdefault(owner, {})[number] = often

    def remove(self, number: int, owner: str, words: Iterable[str]) -> None:
        """Remove a memory; pass the same words."""
        self._memories[owner] -= 1
        for word in words:
            owners = self._words[word]
            del owners[owner][number]
            if not owners[owner]:
                del owners[owner]
            if not owners:
                del self._words[word]

    def spread(self, owner: str | None, words: Sequence[str]) -> tuple[int, dict[str, int]]:
        """Return how many memories there are, and how many have each word."""
        whole = sum(self._memories.values()) if owner is None else self._memories.get(owner, 0)
        spread = {word: min(COUNTED, sum(map(len, self._of(owner, word)))) for word in words}
        return min(COUNTED, whole), spread

    def entries(self, owner: str | None, words: Sequence[str], limit: int) -> Entries:
        return {word: dict(islice(merge(*(each.items() for each in self._of(owner, word))), limit)) for word in words}

    def entries_of(self, owner: str | None, words: Sequence[str], numbers: Sequence[int]) -> Entries:
        by_word: dict[str, _Entries] = {}
        for word in words:
            for entries in self._of(owner, word):
                by_word.setdefault(word, {}).update({each: entries[each] for each in numbers if each in entries})
        return by_word

    def _of(self, owner: str | None, word: str) -> Collection[_Entries]:
        owners = self._words.get(word, {})
        if owner is None:
            return owners.values()
        return [owners[owner]] if owner in owners else []


class LocalMemoryStore(MemoryStore, Source):
    """Store memories in dictionaries; results are the same as from every other store."""

    def __init__(self) -> None:
        self._records: dict[str, MemoryRecord] = {}
        self._numbers: dict[str, int] = {}
        self._ids: dict[int, str] = {}
        self._last = 0
        self._words = _WordIndex()
        self._tags: dict[tuple[str, str], dict[str, None]] = {}
        self._bare: dict[str, None] = {}
        """Memories in use without a vector."""
        self._lengths: dict[int, float] = {}
        self._vectors: dict[tuple[str, int], VectorIndex] = {}

    def __repr__(self) -> str:
        return f"LocalMemoryStore({len(self._records)} records)"

    async def add(self, records: Sequence[MemoryRecord], /) -> None:
        refuse_unfit(records)
        refuse_known([record.id for record in records], self._records)
        self._keep(records)

    async def put(self, records: Sequence[MemoryRecord], /) -> None:
        refuse_unfit(records)
        for record in records:
            self._forget(record.id)
        self._keep(list({record.id: record for record in records}.values()))

    def _keep(self, records: Sequence[MemoryRecord]) -> None:
        searched: list[tuple[int, MemoryRecord]] = []
        for record in records:
            self._records[record.id] = record
            if not record.archived:
                self._last += 1
                self._numbers[record.id] = self._last
                self._ids[self._last] = record.id
                searched.append((self._last, record))
                words = indexed_words(record)
                self._words.add(self._last, record.owner, words)
                if record.embedding is None and record.kind not in UNEMBEDDED:
                    self._bare[record.id] = None
                for tag in record.tags:
                    self._tags.setdefault((record.owner, tag), {})[record.id] = None
                self._lengths[self._last] = sum(words.values())
        shelves: dict[tuple[str, int], list[tuple[int, bytes]]] = {}
        for number, record in searched:
            if record.embedding:
                shelves.setdefault((record.owner, len(record.embedding)), []).append((number, record.embedding))
        for key, entries in shelves.items():
            index = self._vectors.get(key) or self._vectors.setdefault(key, VectorIndex(key[1]))
            index.add([number for number, _ in entries], [embedding for _, embedding in entries])

    def _forget(self, name: str) -> None:
        """Remove a memory from the indexes; its record stays."""
        number = self._numbers.pop(name, None)
        if number is not None:
            record = self._records[self._ids.pop(number)]
            self._words.remove(number, record.owner, indexed_words(record))
            for tag in set(record.tags):
                del self._tags[record.owner, tag][name]
                if not self._tags[record.owner, tag]:
                    del self._tags[record.owner, tag]
            del self._lengths[number]
            self._bare.pop(name, None)
            if record.embedding:
                self._vectors[record.owner, len(record.embedding)].remove([number])

    async def put_in_place(self, record: MemoryRecord, tag: str, /) -> list[MemoryRecord]:
        refuse_unfit([record])
        refuse_known([record.id], self._records)
        before = [each async for each in self.scan(owner=record.owner, kind=record.kind, tags=[tag])]
        await self.put(in_place_of(record, before))
        return before

    async def trim(self, ids: Sequence[str], capacity: int, *, delete: bool = False) -> int:
        there = [self._records[each] for each in ids if each in self._numbers]
        if not there:
            return 0
        over = await self.count(owner=there[0].owner, kind=there[0].kind) - capacity
        going = there[: max(0, over)]
        if delete:
            await self.remove([record.id for record in going])
        else:
            await self.put([replace(record, archived=True) for record in going])
        return max(0, over - len(going))

    async def stale(self, owner: str | None, embedder: str | None, limit: int, /) -> list[MemoryRecord]:
        if embedder is None:
            bare = (self._records[name] for name in self._bare)
            return list(islice((record for record in bare if owner in (None, record.owner)), limit))
        records = self._matching(owner, None, (), False)
        other = (
            each
            for each in records
            if each.kind not in UNEMBEDDED and (each.embedding is None or each.embedder != embedder)
        )
        return list(islice(other, limit))

    async def set_vectors(self, vectors: Mapping[str, bytes], embedder: str, /) -> int:
        there = [self._records[name] for name in vectors if name in self._numbers]
        await self.put([replace(each, embedding=vectors[each.id], embedder=embedder) for each in there])
        return len(there)

    async def get(self, ids: Sequence[str], /) -> list[MemoryRecord]:
        return [self._records[each] for each in ids if each in self._records]

    async def touch(self, ids: Sequence[str], at: float, /) -> None:
        for each in ids:
            if (record := self._records.get(each)) is not None:
                self._records[each] = replace(record, used=max(at, record.used), uses=record.uses + 1)

    async def remove(self, ids: Sequence[str], /) -> int:
        for each in ids:
            self._forget(each)
        return sum(self._records.pop(each, None) is not None for each in ids)

    async def scan(
        self,
        *,
        owner: str | None,
        kind: str | None = None,
        tags: Sequence[str] = (),
        archived: bool | None = False,
        newest_first: bool = False,
        limit: int | None = None,
    ) -> AsyncIterator[MemoryRecord]:
        records = sorted(self._matching(owner, kind, tags, archived), key=lambda record: record.created)
        if newest_first:
            records.reverse()
        for record in records[:limit]:
            yield record

    async def count(self, *, owner: str | None, kind: str | None = None, archived: bool | None = False) -> int:
        return sum(1 for _ in self._matching(owner, kind, (), archived))

    async def search(self, query: Query, /) -> list[Hit]:
        matches = best(query, self)
        return hits(matches, {each.number: self._records[self._ids[each.number]] for each in matches})

    async def close(self) -> None:
        pass

    def nearest(self, query: Query, count: int) -> Sequence[int]:
        vector = query.embedding or b""
        indexes = [
            index
            for (owner, size), index in self._vectors.items()
            if size == len(vector) and query.owner in (None, owner)
        ]
        near = [number for index in indexes for number in index.nearest(vector, count)]
        if len(indexes) > 1:  # of several owners, as many as a single index would give
            cosines = similarities(vector, [self._records[self._ids[number]].embedding or b"" for number in near])
            ranked = sorted(zip(cosines, near, strict=True), key=lambda each: (-each[0], each[1]))
            near = [number for _, number in ranked[:count]]
        return near

    def spread(self, query: Query, words: Sequence[str]) -> tuple[int, Mapping[str, int]]:
        return self._words.spread(query.owner, words)

    def entries(self, query: Query, words: Sequence[str], limit: int) -> Entries:
        return self._words.entries(query.owner, words, limit)

    def entries_of(self, query: Query, words: Sequence[str], numbers: Sequence[int]) -> Entries:
        return self._words.entries_of(query.owner, words, numbers)

    def chosen(self, query: Query, most: int) -> Sequence[int] | None:
        passing = (
            self._numbers[record.id]
            for record in self._matching(query.owner, query.kind, query.tags, False)
            if record.kind not in query.without
        )
        numbers = list(islice(passing, most + 1))
        return numbers if len(numbers) <= most else None

    def candidates(self, query: Query, numbers: Sequence[int]) -> Sequence[Candidate]:
        rows: list[tuple[int, float, bytes | None, str, float, str]] = []
        for number in numbers:
            record = self._records[self._ids[number]]
            fits = query.kind in (None, record.kind) and record.kind not in query.without
            if fits and all(tag in record.tags for tag in query.tags):
                length = self._lengths[number]
                rows.append((number, length, record.embedding, record.embedder, record.created, record.kind))
        return compared(query, rows)

    def _matching(
        self, owner: str | None, kind: str | None, tags: Sequence[str], archived: bool | None
    ) -> Iterator[MemoryRecord]:
        records: Iterable[MemoryRecord] = self._records.values()
        if owner is not None and tags and archived is False:
            records = [self._records[name] for name in self._tags.get((owner, tags[0]), ())]
        for record in records:
            if (
                (owner is None or record.owner == owner)
                and (kind is None or record.kind == kind)
                and (archived is None or record.archived == archived)
                and all(tag in record.tags for tag in tags)
            ):
                yield record
