"""Measure how the time of a function grows with the size of its input, by the processor's clock."""

import gc
import math
import os
from collections.abc import Callable
from time import process_time
from typing import Any

from msgspec import Struct

from ziggurat.core.errors import ZigguratError

FACTOR = 5.0
"""Times as long as at n that a function may take at 4n: n log n, with some slack."""

_ENOUGH = float(os.environ.get("ZIGGURAT_GROWTH_SECONDS", "0.004"))
"""Seconds at which a size is large enough; ``make growth`` measures larger ones."""

_LONG = 2.0  # seconds of one call after which larger sizes are not tried
_SPAN = 16  # the least factor between the sizes that are compared
_TRIES = 4

Make = Callable[[int], Any]
"""Makes hostile input of about n characters or items."""


class Case(Struct, frozen=True):
    """A function with one shape of hostile input.

    Attributes:
        name: The function, as room.module.name.
        shape: The shape of the input.
        make: Makes the input; its time is not measured.
        run: Reads the input; errors of Ziggurat and ValueErrors are answers too.
        least: The smaller size that is measured.
        reach: The size that is measured at least, however long it takes.
        most: The limit on size.
    """

    name: str
    shape: str
    make: Make
    run: Callable[[Any], object]
    least: int = 1_000
    reach: int = 0
    most: int = 1_000_000

    def __str__(self) -> str:
        return f"{self.name} ({self.shape})"


def _seconds(case: Case, size: int, times: int) -> float:
    best = math.inf
    for _ in range(times):
        given = case.make(size)
        gc.disable()
        begun = process_time()
        try:
            case.run(given)
        except (ZigguratError, ValueError):
            pass
        finally:
            best = min(best, process_time() - begun)
            gc.enable()
    return best


def growth(case: Case) -> tuple[float, int, float]:
    """Return how many times as long the function takes for four times the size, the larger size, and its seconds.

    It is the mean over the whole range from the smaller size to one that takes long enough, or to the limit on size: on
    a wide range, the memory caches of a processor matter less than on a narrow one. What takes no time at the limit is
    no concern. A figure above the bound is measured again, with more repeats and a wider range: other work on the
    machine can only make it larger, so the least one counts.
    """
    small = _seconds(case, case.least, 3)
    size = max(case.least * _SPAN, case.reach)
    large = _seconds(case, size, 1)
    while large < _ENOUGH and 4 * size <= case.most:
        size *= 4
        large = _seconds(case, size, 1)
    if large < _ENOUGH / 4:
        return 1.0, size, large
    least = _factor(small, large, size / case.least)
    for number in range(1, _TRIES):
        if least <= FACTOR or large > _LONG:
            break
        if number == 2 and 4 * size <= case.most and large < _LONG / 16:
            size *= 4
        small = min(small, _seconds(case, case.least, 10))
        large = _seconds(case, size, 1 + number)
        least = min(least, _factor(small, large, size / case.least))
    return least, size, large


def _factor(small: float, large: float, span: float) -> float:
    return float((large / max(small, 1e-6)) ** (math.log(4) / math.log(span)))
