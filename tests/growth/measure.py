"""Measure how the time of a function grows with the size of its input, by the processor's clock."""

import gc
import math
from collections.abc import Callable, Iterable
from time import process_time
from typing import Any

from msgspec import Struct

from tests.samples import LONG
from ziggurat import ZigguratError

FACTOR = 5.0 if LONG else 8.0
"""Times as long as at n that a function may take at 4n.

What takes n log n takes up to 4.6 times as long, what takes the square 16 times. Small inputs are allowed more, so that
caches and other work on the machine do not decide.
"""

_ENOUGH = 0.03 if LONG else 0.002  # seconds at which a size is large enough
_UNFELT = 0.0005  # seconds at the limit on size that are no concern
_LONG = 2.0  # seconds of one call after which it is not repeated more often
_PATIENCE = 3.0 if LONG else 0.5  # seconds without a better figure after which a function is not measured again
_ROUNDS = 3  # times that it is measured at least

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


class _Times:
    """The least seconds that a function took at some sizes.

    Other work on the machine, and a cold cache, can only make a call longer.
    """

    def __init__(self, case: Case, size: int, seconds: float) -> None:
        self.case = case
        self.run = {size: seconds}

    def measure(self, sizes: Iterable[int]) -> None:
        for size in sizes:
            seconds = _seconds(self.case.run, self.case.make(size))
            self.run[size] = min(self.run.get(size, math.inf), seconds)

    def factor(self, small: int, large: int) -> float:
        """Return the factor for four times the size."""
        slower = self.run[large] / max(self.run[small], 1e-6)
        return float(max(1.0, slower) ** (math.log(4) / math.log(large / small)))


def _seconds(function: Callable[[Any], object], value: Any) -> float:
    gc.disable()
    begun = process_time()
    try:
        function(value)
    except (ZigguratError, ValueError):
        pass
    finally:
        taken = process_time() - begun
        gc.enable()
    return taken


def growth(case: Case) -> tuple[float, int, float]:
    """Return how many times as long the function takes for four times the size, the larger size, and its seconds.

    It is the mean over the whole range from the smaller size to one that takes long enough, or to the limit on size, or
    over the upper part of it, where it does not matter that small inputs may be read in another way: what takes the
    square does so there as well. What takes no time at the limit is no concern. A figure above the bound is measured
    again for a while: the least time of many is what the function takes when nothing disturbs it.
    """
    size = max(case.least * case.span, case.reach)
    while (seconds := _seconds(case.run, case.make(size))) < _ENOUGH and 4 * size <= case.most:
        size *= 4
    if seconds < _UNFELT:
        return 1.0, size, seconds
    times, sizes = _Times(case, size, seconds), (case.least, size // 4, size)
    # The large size is measured by now. The small ones are called again: a cold first call would hide growth.
    missing: Iterable[int] = sizes[:2]
    least, rounds, since = math.inf, 0, process_time()
    while rounds < _ROUNDS or process_time() - since < _PATIENCE:
        times.measure(missing)
        missing = sizes
        rounds += 1
        factor = min(times.factor(case.least, size), times.factor(size // 4, size))
        if factor < 0.99 * least:
            least, since = factor, process_time()
        if least <= FACTOR or times.run[size] > _LONG:
            break
    return least, size, times.run[size]
