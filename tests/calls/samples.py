"""The stores in which calls are tried, and rows of tables whose columns do not depend on each other."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from tests.samples import LONG

STORES = ("memory", "sqlite", "file")


def rows(*columns: Sequence[Any] | Mapping[Any, Any]) -> list[tuple[Any, ...]]:
    """Return rows in which every value of a column stands at least once, or the full product."""
    values = [list(column) for column in columns]
    if LONG:
        return list(product(*values))
    return [tuple(column[row % len(column)] for column in values) for row in range(max(map(len, values)))]
