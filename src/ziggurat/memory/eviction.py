"""Eviction: choose which memories to drop when there are too many."""

from collections.abc import Callable, Sequence
from heapq import nsmallest

from ziggurat.core.settings import checked
from ziggurat.memory.record import MemoryRecord
from ziggurat.memory.scoring import Score, ScoringInputs, importance

Eviction = Callable[[Sequence[MemoryRecord], int, float], list[MemoryRecord]]
"""Chooses the given number of memories to evict at the given time; the memories are listed oldest first."""


def oldest(records: Sequence[MemoryRecord], count: int, now: float) -> list[MemoryRecord]:
    """Choose the memories that were created first."""
    return nsmallest(count, records, key=lambda record: record.created)


@checked
def lowest(score: Score = importance) -> Eviction:
    """Return an eviction that chooses the lowest scores; of equals, the oldest.

    Args:
        score: What a memory is worth, such as ``decayed(half_life(hours=24))``.
    """

    def lowest(records: Sequence[MemoryRecord], count: int, now: float) -> list[MemoryRecord]:
        at = ScoringInputs(now, most_uses=max((record.uses for record in records), default=0))
        return nsmallest(count, records, key=lambda record: score(record, at))

    return lowest
