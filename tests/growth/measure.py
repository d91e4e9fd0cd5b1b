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

_ENOUGH = float(os.environ.get("ZIGGURAT_GROWTH_SECONDS", "0.002"))
"""Seconds at which a size is large enough; ``make growth`` measures larger ones."""

_REPEATED = 0.03  # seconds for which a call is repeated when it is measured again
_LONG = 2.0  # seconds of one call after which larger sizes are not tried
_TRIES = 6

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
        span: The least factor between the two sizes.
    """

    name: str
    shape: str
    make: Make
    run: Callable[[Any], object]
    least: int = 1_000
    reach: int = 0
    most: int = 1_000_000
    span: int = 16

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
    no concern. A figure above the bound is measured again, with more repeats, over the upper part of the range (where
    it does not matter that small inputs may be read in another way), over a wider one, and over narrower ones that fit
    into the caches: other work on the machine can only make it larger, so the least one counts. What takes the square
    does so in every part.
    """
    small = _seconds(case, case.least, 3)
    size = max(case.least * case.span, case.reach)
    large = _seconds(case, size, 1)
    while large < _ENOUGH and 4 * size <= case.most:
        size *= 4
        large = _seconds(case, size, 1)
    if large < _ENOUGH:
        return 1.0, size, large
    least = _factor(small, large, size / case.least)
    for number in range(1, _TRIES):
        if least <= FACTOR or large > _LONG or (number > 1 and least > 2 * FACTOR):
            break
        if number == 2 and 4 * size <= case.most and large < _LONG / 16:
            size *= 4
        elif number > 2:  # what fits into the caches
            size = max(size // 4, case.reach, case.least * case.span)
        times = max(1 + number, min(20, int(_REPEATED / large)))
        small = min(small, _seconds(case, case.least, 10))
        large = _seconds(case, size, times)
        upper = _factor(_seconds(case, size // 4, times + 1), large, 4)
        least = min(least, upper, _factor(small, large, size / case.least))
    return least, size, large


def _factor(small: float, large: float, span: float) -> float:
    return float((large / max(small, 1e-6)) ** (math.log(4) / math.log(span)))
