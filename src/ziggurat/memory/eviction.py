"""Eviction: which memories go when there are too many."""

__all__ = ["Eviction", "lowest", "oldest"]

from collections.abc import Callable, Sequence
from heapq import nsmallest

from ziggurat.memory.record import MemoryRecord
from ziggurat.memory.scoring import Circumstances, Score, importance

Eviction = Callable[[Sequence[MemoryRecord], int, float], list[MemoryRecord]]
"""Chooses so many of these memories, listed oldest first, to go at this moment."""


def oldest(records: Sequence[MemoryRecord], count: int, now: float) -> list[MemoryRecord]:
    """Choose those that were made first."""
    return nsmallest(count, records, key=lambda record: record.created)


def lowest(score: Score = importance) -> Eviction:
    """Choose those that score lowest; of equals, the oldest go first.

    Args:
        score: What they are worth, such as ``decayed(half_life(hours=24))``.
    """

    def lowest(records: Sequence[MemoryRecord], count: int, now: float) -> list[MemoryRecord]:
        at = Circumstances(now, most_uses=max((record.uses for record in records), default=0))
        return nsmallest(count, records, key=lambda record: score(record, at))

    return lowest
