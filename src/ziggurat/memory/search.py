"""The search of all stores: find candidates by words and by vectors, compare them exactly, fuse the rankings."""

__all__ = ["Candidate", "Found", "Source", "best", "compared", "hits"]

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from ziggurat.memory.fusion import fuse
from ziggurat.memory.record import MemoryRecord
from ziggurat.memory.store import Hit, Query
from ziggurat.memory.vectors import similarities

WORDS, MEANING = 1.5, 1.0
"""The weights of the ranking by words and of the ranking by meaning."""

_POOL, _FACTOR, _WIDER = 200, 20, 8


class Candidate(Struct, frozen=True):
    """What is needed of a memory to rank it.

    Attributes:
        number: The store's number for it.
        similarity: The cosine of its vector and the query's; None if either is missing.
    """

    number: int
    similarity: float | None = None


class Found(Struct, frozen=True):
    """A memory by its number, with its cosine and its BM25; see `Hit`."""

    number: int
    similarity: float | None
    text_score: float | None


class Source(Protocol):
    """What a store provides to a search. Each method may return memories since removed; `candidates` drops them."""

    def nearest(self, query: Query, count: int) -> Sequence[int]:
        """Return the numbers of about the nearest vectors, nearest first; fewer than `count` if there are no more."""
        ...

    def worded(self, query: Query, count: int) -> Mapping[int, float]:
        """Return the best matching numbers with their BM25, best first; fewer than `count` if there are no more."""
        ...

    def candidates(self, query: Query, numbers: Sequence[int]) -> Sequence[Candidate]:
        """Return the candidates among the numbers that are in use and pass the query's owner, kind and tags."""
        ...


def best(query: Query, source: Source) -> list[Found]:
    """Return the best matches of a store, best first.

    More candidates are read than are asked for, and the pool is widened as long as the query's filters leave too few.
    """
    pool = max(_POOL, query.limit * _FACTOR)
    if query.limit <= 0:
        return []
    while True:
        near = [] if query.embedding is None else source.nearest(query, pool)
        worded = {} if query.text is None else source.worded(query, pool)
        kept = source.candidates(query, list(dict.fromkeys((*near, *worded))))
        if len(kept) >= query.limit or (len(near) < pool and len(worded) < pool):
            return _rank(query, kept, worded)
        pool *= _WIDER


def hits(found: Sequence[Found], records: Mapping[int, MemoryRecord]) -> list[Hit]:
    """Return the hits for the numbers found, with their records; those removed meanwhile are left out."""
    there = [each for each in found if each.number in records]
    return [
        Hit(records[each.number], each.similarity, each.text_score, rank) for rank, each in enumerate(there, start=1)
    ]


def compared(query: Query, entries: Sequence[tuple[int, bytes | None]]) -> list[Candidate]:
    """Return a candidate for each number, with the exact cosine of its vector."""
    if query.embedding is None:
        return [Candidate(number) for number, _ in entries]
    size = len(query.embedding)
    alike = [(number, vector) for number, vector in entries if vector is not None and len(vector) == size]
    cosines = similarities(query.embedding, [vector for _, vector in alike])
    similar = {number: cosine for (number, _), cosine in zip(alike, cosines, strict=True)}
    return [Candidate(number, similar.get(number)) for number, _ in entries]


def _rank(query: Query, kept: Sequence[Candidate], worded: Mapping[int, float]) -> list[Found]:
    similar = {each.number: each.similarity for each in kept if each.similarity is not None}
    there = {each.number for each in kept}
    by_words = [number for number in worded if number in there]
    by_meaning = sorted(similar, key=lambda number: (-similar[number], number))
    order = list(fuse([(by_words, WORDS), (by_meaning, MEANING)])) if by_words else by_meaning
    return [Found(number, similar.get(number), worded.get(number)) for number in order[: query.limit]]
