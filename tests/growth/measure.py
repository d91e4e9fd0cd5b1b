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

_UNFELT = 0.0005  # seconds at the limit on size that are no concern
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
        beside: A function that is known to take linear time on the same input: as far as it takes longer, because less
            of the input fits into the caches of the processor, so may `run`.
    """

    name: str
    shape: str
    make: Make
    run: Callable[[Any], object]
    least: int = 1_000
    reach: int = 0
    most: int = 1_000_000
    span: int = 16
    beside: Callable[[Any], object] | None = None

    def __str__(self) -> str:
        return f"{self.name} ({self.shape})"


class _Time(Struct, frozen=True):
    """Seconds that a function takes at a size, and that the one beside it takes."""

    size: int
    run: float
    beside: float


def _time(case: Case, size: int, times: int) -> _Time:
    """Return the least of several times, taken in turn."""
    run = beside = math.inf
    for _ in range(times):
        given = case.make(size)
        run = min(run, _seconds(case.run, given))
        if case.beside is not None:
            beside = min(beside, _seconds(case.beside, given))
    return _Time(size, run, beside)


def _seconds(function: Callable[[Any], object], given: Any) -> float:
    gc.disable()
    begun = process_time()
    try:
        function(given)
    except (ZigguratError, ValueError):
        pass
    finally:
        taken = process_time() - begun
        gc.enable()
    return taken


def growth(case: Case) -> tuple[float, int, float]:
    """Return how many times as long the function takes for four times the size, the larger size, and its seconds.

    It is the mean over the whole range from the smaller size to one that takes long enough, or to the limit on size: on
    a wide range, the memory caches of a processor matter less than on a narrow one. What takes no time at the limit is
    no concern. A figure above the bound is measured again, with more repeats, over the upper part of the range (where
    it does not matter that small inputs may be read in another way), over a wider one, and over narrower ones that fit
    into the caches: other work on the machine can only make it larger, so the least one counts. What takes the square
    does so in every part.
    """
    small = _time(case, case.least, 3)
    size = max(case.least * case.span, case.reach)
    large = _time(case, size, 1)
    while large.run < _ENOUGH and 4 * size <= case.most:
        size *= 4
        large = _time(case, size, 1)
    if large.run < _UNFELT:
        return 1.0, size, large.run
    least = _factor(small, large)
    for number in range(1, _TRIES):
        if least <= FACTOR or large.run > _LONG or (number > 1 and least > 2 * FACTOR):
            break
        if number == 2 and 4 * size <= case.most and large.run < _LONG / 16:
            size *= 4
        elif number > 2:  # what fits into the caches
            size = max(size // 4, case.reach, case.least * case.span)
        times = max(1 + number, min(20, int(_REPEATED / large.run)))
        small = _least(small, _time(case, case.least, 10))
        large = _time(case, size, times)
        upper = _factor(_time(case, size // 4, times + 1), large)
        least = min(least, upper, _factor(small, large))
    return least, size, large.run


def _least(one: _Time, other: _Time) -> _Time:
    return _Time(one.size, min(one.run, other.run), min(one.beside, other.beside))


def _factor(small: _Time, large: _Time) -> float:
    """Return the factor for four times the size, without what the caches cost the function beside it."""
    span = large.size / small.size
    slower = large.run / max(small.run, 1e-6)
    if large.beside < math.inf:
        slower /= max(1.0, large.beside / max(small.beside, 1e-6) / span)
    return float(slower ** (math.log(4) / math.log(span)))
