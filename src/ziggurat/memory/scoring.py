"""Scores: functions that compute what a memory is worth at a given time; and which memories are evicted by them.

A score never changes a memory: the effect of time is computed from when it was created and last used.
"""

import math
from collections.abc import Callable, Sequence
from heapq import nsmallest

from msgspec import Struct

from ziggurat.core.settings import NonNegativeFloat, PositiveFloat, checked
from ziggurat.memory.record import MemoryRecord

_HOUR, _DAY = 3600.0, 86400.0


class ScoringInputs(Struct, frozen=True, gc=False):
    """What a score depends on besides the memory itself.

    Attributes:
        now: The time, in POSIX seconds.
        similarity: How relevant the memory is to the query, by meaning and words, at most 1; 0 without a query.
        most_uses: The highest number of uses among the memories that are compared.
    """

    now: float
    similarity: float = 0.0
    most_uses: int = 0


Score = Callable[[MemoryRecord, ScoringInputs], float]  # returns what a memory is worth; more is better


def importance(record: MemoryRecord, at: ScoringInputs) -> float:
    """Score by the importance judged when the memory was created, from 0 to 1."""
    return record.importance


def similarity(record: MemoryRecord, at: ScoringInputs) -> float:
    """Score by relevance to the query, by meaning and words, from 0 to 1; 0 without a query."""
    return max(0.0, at.similarity)


def frequency(record: MemoryRecord, at: ScoringInputs) -> float:
    """Score by how often it was recalled, relative to the others: ``uses / (most_uses + 1)``, from 0 to below 1."""
    return record.uses / (max(at.most_uses, record.uses) + 1)


@checked
def half_life(hours: PositiveFloat) -> Score:
    """Score by age with a half-life: ``exp(-age_in_hours * ln 2 / hours)``, from 1 down to 0."""
    return _fading("half_life", hours * _HOUR / math.log(2))


@checked
def recency(hours: PositiveFloat = 24.0) -> Score:
    """Score by age: ``exp(-age_in_hours / hours)``, from 1 down to 0; after so many hours 1/e, about 0.37, is left."""
    return _fading("recency", hours * _HOUR)


@checked
def retention(stability_days: PositiveFloat = 30.0) -> Score:
    """Score by Ebbinghaus' forgetting curve: ``exp(-days_since_last_use / stability_days)``, from 1 down to 0."""
    stability = stability_days * _DAY

    def retention(record: MemoryRecord, at: ScoringInputs) -> float:
        return math.exp(-max(0.0, at.now - max(record.used, record.created)) / stability)

    return retention


@checked
def product(*scores: Score) -> Score:
    """Multiply scores: ``s1 * s2 * ...``; ``product(importance, half_life(24))`` is the importance that is left."""

    def product(record: MemoryRecord, at: ScoringInputs) -> float:
        return math.prod(score(record, at) for score in scores)

    return product


@checked
def weighted(*parts: tuple[float, Score]) -> Score:
    """Add scores by their weights: ``w1 * s1 + w2 * s2 + ...``."""

    def weighted(record: MemoryRecord, at: ScoringInputs) -> float:
        return math.fsum(weight * score(record, at) for weight, score in parts)

    return weighted


@checked
def hybrid(*, recency_weight: NonNegativeFloat, frequency_weight: NonNegativeFloat, worth: Score = importance) -> Score:
    """Score by worth, recency and frequency of use together.

    ``worth + recency_weight * exp(-age_in_hours / 24) + frequency_weight * uses / (most_uses + 1)``

    Args:
        recency_weight: The most that a new memory gains.
        frequency_weight: The most that a frequently recalled memory gains.
        worth: The base score; use ``product(importance, half_life(...))`` to let it fade too.
    """
    return weighted((1.0, worth), (recency_weight, recency()), (frequency_weight, frequency))


def _fading(name: str, seconds: float) -> Score:
    def fading(record: MemoryRecord, at: ScoringInputs) -> float:
        return math.exp(-max(0.0, at.now - record.created) / seconds)

    fading.__name__ = name
    return fading


Eviction = Callable[[Sequence[MemoryRecord], int, float], list[MemoryRecord]]
"""Chooses the given number of memories to evict at the given time; the memories are listed oldest first."""


def oldest(records: Sequence[MemoryRecord], count: int, now: float) -> list[MemoryRecord]:
    """Choose the memories that were created first."""
    return nsmallest(count, records, key=lambda record: record.created)


@checked
def lowest(score: Score = importance) -> Eviction:
    """Return an eviction that chooses the lowest scores; of equals, the oldest."""

    def lowest(records: Sequence[MemoryRecord], count: int, now: float) -> list[MemoryRecord]:
        at = ScoringInputs(now, most_uses=max((record.uses for record in records), default=0))
        return nsmallest(count, records, key=lambda record: score(record, at))

    return lowest
