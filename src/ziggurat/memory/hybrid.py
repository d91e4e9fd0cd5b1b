"""The one way in which stores search: candidates by words and by meaning, compared exactly, their rankings fused."""

__all__ = ["Candidate", "Source", "Found", "best"]

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from ziggurat.memory.fusion import fuse
from ziggurat.memory.store import Query
from ziggurat.memory.vectors import similarities

WORDS, MEANING = 1.5, 1.0
"""What the ranking by words and the one by meaning count in both together."""

_POOL, _FACTOR, _WIDER = 200, 20, 8


class Candidate(Struct, frozen=True):
    """What must be known of a memory to rank it.

    Attributes:
        number: What the store calls it.
        embedding: Its vector.
    """

    number: int
    embedding: bytes | None


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


def _ranked(query: Query, kept: Sequence[Candidate], worded: Mapping[int, float]) -> list[Found]:
    similar: dict[int, float] = {}
    if query.embedding is not None:
        alike = [each for each in kept if each.embedding is not None and len(each.embedding) == len(query.embedding)]
        cosines = similarities(query.embedding, [each.embedding or b"" for each in alike])
        similar = dict(zip([each.number for each in alike], cosines, strict=True))
    there = {each.number for each in kept}
    by_words = [number for number in worded if number in there]
    by_meaning = sorted(similar, key=lambda number: (-similar[number], number))
    order = list(fuse([(by_words, WORDS), (by_meaning, MEANING)])) if by_words else by_meaning
    return [Found(number, similar.get(number), worded.get(number)) for number in order[: query.limit]]
