"""The amount that a test tries: a sample drawn by a seed, or everything where ZIGGURAT_LONG is set (`make nightly`).

The seed is printed at the start of a run; ``ZIGGURAT_SEED`` sets another one.
"""

import os
import random
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any, TypeVar

from allpairspy import AllPairs

T = TypeVar("T")

LONG = "ZIGGURAT_LONG" in os.environ
SEED = int(os.environ.get("ZIGGURAT_SEED") or 1)


def amount(short: int, long: int) -> int:
    """Return how many examples a test tries."""
    return long if LONG else short


def sample(items: Iterable[T], count: int) -> list[T]:
    """Return so many of the items, in their order, or all of them."""
    every = list(items)
    if LONG or len(every) <= count:
        return every
    chosen = sorted(random.Random(SEED).sample(range(len(every)), count))
    return [every[index] for index in chosen]


def rows(*columns: Sequence[Any] | Mapping[Any, Any]) -> list[tuple[Any, ...]]:
    """Return rows in which every value of a column stands at least once, or the full product."""
    values = [list(column) for column in columns]
    if LONG:
        return list(product(*values))
    return [tuple(column[row % len(column)] for column in values) for row in range(max(map(len, values)))]


def pairs(*columns: Sequence[Any] | Mapping[Any, Any]) -> list[tuple[Any, ...]]:
    """Return rows in which every value of a column meets every value of every other, or the full product."""
    values = [list(column) for column in columns]
    if LONG:
        return list(product(*values))
    rows = AllPairs([range(len(column)) for column in values])
    return [tuple(column[index] for column, index in zip(values, row, strict=True)) for row in rows]
