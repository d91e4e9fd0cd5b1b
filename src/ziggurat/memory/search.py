"""The search that all stores share: candidates by words and by vectors, compared exactly, rankings fused."""

__all__ = ["Candidate", "Found", "Source", "best", "compared", "hits"]

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from ziggurat.memory.fusion import fuse
from ziggurat.memory.record import MemoryRecord
from ziggurat.memory.store import Hit, Query
from ziggurat.memory.vectors import similarities

WORDS, MEANING = 1.5, 1.0
"""What the ranking by words and the one by meaning count in both together."""

_POOL, _FACTOR, _WIDER = 200, 20, 8


class Candidate(Struct, frozen=True):
    """What must be known of a memory to rank it.

    Attributes:
        number: What the store calls it.
        similarity: The cosine of its vector and the one looked for; None where one is missing.
    """

    number: int
    similarity: float | None = None


class Found(Struct, frozen=True):
    """A memory by its number, with its cosine and its BM25; see `Hit`."""

    number: int
    similarity: float | None
    text_score: float | None


class Source(Protocol):
    """What a store brings to a search. Each method may return what is gone by now; `candidates` leaves it out."""

    def nearest(self, query: Query, count: int) -> Sequence[int]:
        """Return the numbers whose vectors are about nearest, nearest first, at most `count`; fewer are all."""
        ...

    def worded(self, query: Query, count: int) -> Mapping[int, float]:
        """Return the numbers whose words fit best with their BM25, best first, at most `count`; fewer are all."""
        ...

    def candidates(self, query: Query, numbers: Sequence[int]) -> Sequence[Candidate]:
        """Return those of the numbers that are in use and are what the query asks for (owner, kind, tags)."""
        ...


def best(query: Query, source: Source) -> list[Found]:
    """Return the best of a store, best first.

    More candidates are looked at than are asked for, and ever more while what the query leaves out leaves too few.
    """
    pool = max(_POOL, query.limit * _FACTOR)
    if query.limit <= 0:
        return []
    while True:
        near = [] if query.embedding is None else source.nearest(query, pool)
        worded = {} if query.text is None else source.worded(query, pool)
        kept = source.candidates(query, list(dict.fromkeys((*near, *worded))))
        if len(kept) >= query.limit or (len(near) < pool and len(worded) < pool):
            return _ranked(query, kept, worded)
        pool *= _WIDER


def hits(found: Sequence[Found], records: Mapping[int, MemoryRecord]) -> list[Hit]:
    """Return what was found, with its records by their numbers; what another process has removed meanwhile is not."""
    there = [each for each in found if each.number in records]
    return [
        Hit(records[each.number], each.similarity, each.text_score, rank) for rank, each in enumerate(there, start=1)
    ]


def compared(query: Query, entries: Sequence[tuple[int, bytes | None]]) -> list[Candidate]:
    """Return candidates for numbers and their vectors."""
    if query.embedding is None:
        return [Candidate(number) for number, _ in entries]
    size = len(query.embedding)
    alike = [(number, vector) for number, vector in entries if vector is not None and len(vector) == size]
    cosines = similarities(query.embedding, [vector for _, vector in alike])
    similar = {number: cosine for (number, _), cosine in zip(alike, cosines, strict=True)}
    return [Candidate(number, similar.get(number)) for number, _ in entries]


def _ranked(query: Query, kept: Sequence[Candidate], worded: Mapping[int, float]) -> list[Found]:
    similar = {each.number: each.similarity for each in kept if each.similarity is not None}
    there = {each.number for each in kept}
    by_words = [number for number in worded if number in there]
    by_meaning = sorted(similar, key=lambda number: (-similar[number], number))
    order = list(fuse([(by_words, WORDS), (by_meaning, MEANING)])) if by_words else by_meaning
    return [Found(number, similar.get(number), worded.get(number)) for number in order[: query.limit]]
