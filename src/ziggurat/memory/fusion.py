"""Reciprocal rank fusion: combine several rankings into one by position, whatever their scores mean."""

__all__ = ["fuse"]

from collections.abc import Iterable, Sequence
from typing import TypeVar

K = TypeVar("K")

CONSTANT = 10
"""The constant of the formula: the smaller it is, the more a first place counts over the next ones."""


def fuse(rankings: Iterable[tuple[Sequence[K], float]], *, constant: float = CONSTANT) -> dict[K, float]:
    """Score each ranked key by ``sum(weight / (constant + place))`` over the rankings, places from 1; best first.

    ::

        fuse([(by_words, 1.5), (by_meaning, 1.0)])

    Args:
        rankings: Each best first, with its weight. A key that is in no ranking gets no score.
        constant: The constant of the formula.
    """
    scores: dict[K, float] = {}
    for ranking, weight in rankings:
        for place, key in enumerate(ranking, start=1):
            scores[key] = scores.get(key, 0.0) + weight / (constant + place)
    return dict(sorted(scores.items(), key=lambda each: -each[1]))
