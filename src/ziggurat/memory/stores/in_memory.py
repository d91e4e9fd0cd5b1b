"""Memories kept in this process, for tests and for what need not outlive it."""

__all__ = ["InMemoryStore"]

import math
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence

from msgspec.structs import replace

from ziggurat.core.errors import ConfigurationError
from ziggurat.memory.record import MemoryRecord, unpack
from ziggurat.memory.store import Hit, Query

_WORD = re.compile(r"\w+")
_K1, _B = 1.2, 0.75
_FUSION = 60


class InMemoryStore:
    """Keeps memories in dictionaries; what it answers is what every other store answers."""

    def __init__(self) -> None:
        self._records: dict[str, MemoryRecord] = {}

    def __repr__(self) -> str:
        return f"InMemoryStore({len(self._records)} records)"

    async def add(self, records: Sequence[MemoryRecord], /) -> None:
        """Keep new memories; see `MemoryStore.add`."""
        fresh = {record.id: record for record in records}
        taken = [record.id for record in records if record.id in self._records]
        if taken or len(fresh) < len(records):
            raise ConfigurationError(
                f"a memory with the id {(taken or list(fresh))[0]!r} is there already; put() replaces one"
            )
        self._records.update(fresh)

    async def put(self, records: Sequence[MemoryRecord], /) -> None:
        """Keep memories in the place of what was there; see `MemoryStore.put`."""
        self._records.update({record.id: record for record in records})

    async def get(self, ids: Sequence[str], /) -> list[MemoryRecord]:
        """Return memories by their ids; see `MemoryStore.get`."""
        return [self._records[each] for each in ids if each in self._records]

    async def touch(self, ids: Sequence[str], at: float, /) -> None:
        """Note that memories were recalled; see `MemoryStore.touch`."""
        for each in ids:
            if (record := self._records.get(each)) is not None:
                self._records[each] = replace(record, used=max(at, record.used), uses=record.uses + 1)

    async def remove(self, ids: Sequence[str], /) -> int:
        """Delete memories; see `MemoryStore.remove`."""
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
        """Go through memories by age; see `MemoryStore.scan`."""
        found = sorted(self._matching(owner, kind, tags, archived), key=lambda record: record.created)
        if newest_first:
            found.reverse()
        for record in found[:limit]:
            yield record

    async def count(self, *, owner: str | None, kind: str | None = None, archived: bool | None = False) -> int:
        """Return how many memories there are; see `MemoryStore.count`."""
        return sum(1 for _ in self._matching(owner, kind, (), archived))

    async def search(self, query: Query, /) -> list[Hit]:
        """Return the memories that come nearest; see `MemoryStore.search`."""
        records = list(self._matching(query.owner, query.kind, query.tags, False))
        similar = {} if query.embedding is None else _similarities(records, query.embedding)
        worded = {} if query.text is None else _bm25(records, query.text)
        fused: dict[int, float] = {}
        for scores in (similar, worded):
            for rank, place in enumerate(sorted(scores, key=lambda place: -scores[place]), start=1):
                fused[place] = fused.get(place, 0.0) + 1 / (_FUSION + rank)
        best = sorted(fused, key=lambda place: (-fused[place], place))[: query.limit]
        return [
            Hit(records[place], similar.get(place), worded.get(place), rank) for rank, place in enumerate(best, start=1)
        ]

    async def close(self) -> None:
        """Do nothing: all is in memory."""

    def _matching(
        self, owner: str | None, kind: str | None, tags: Sequence[str], archived: bool | None
    ) -> Iterator[MemoryRecord]:
        for record in self._records.values():
            if (
                (owner is None or record.owner == owner)
                and (kind is None or record.kind == kind)
                and (archived is None or record.archived == archived)
                and all(tag in record.tags for tag in tags)
            ):
                yield record


def _similarities(records: Sequence[MemoryRecord], embedding: bytes) -> dict[int, float]:
    wanted = unpack(embedding)
    length = math.hypot(*wanted)
    found: dict[int, float] = {}
    for place, record in enumerate(records):
        if record.embedding is not None and len(record.embedding) == len(embedding):
            vector = unpack(record.embedding)
            product = length * math.hypot(*vector)
            found[place] = sum(a * b for a, b in zip(wanted, vector, strict=True)) / product if product else 0.0
    return found


def _bm25(records: Sequence[MemoryRecord], text: str) -> dict[int, float]:
    """Score records by ``sum(idf * f * (k1 + 1) / (f + k1 * (1 - b + b * length / average)))``."""
    counts = [Counter(_WORD.findall(record.content.lower())) for record in records]
    average = sum(count.total() for count in counts) / len(counts) if counts else 0.0
    scores: dict[int, float] = {}
    for word in dict.fromkeys(_WORD.findall(text.lower())):
        having = [place for place, count in enumerate(counts) if word in count]
        weight = math.log(1 + (len(counts) - len(having) + 0.5) / (len(having) + 0.5))
        for place in having:
            often = counts[place][word]
            norm = often + _K1 * (1 - _B + _B * counts[place].total() / average)
            scores[place] = scores.get(place, 0.0) + weight * often * (_K1 + 1) / norm
    return scores
