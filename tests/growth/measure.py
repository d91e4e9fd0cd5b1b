"""Measure how the time of a function grows with the size of its input, by the processor's clock."""

import gc
import json
import math
import os
from collections.abc import Callable, Sequence
from time import process_time
from typing import Any

from msgspec import Struct
from msgspec.json import encode

from ziggurat.core.errors import ZigguratError

FACTOR = 5.0
"""Times as long as at n that a function may take at 4n: n log n, with some slack."""

_ENOUGH = float(os.environ.get("ZIGGURAT_GROWTH_SECONDS", "0.002"))
"""Seconds at which a size is large enough; ``make growth`` measures larger ones."""

_UNFELT = 0.0005  # seconds at the limit on size that are no concern
_LONG = 2.0  # seconds of one call after which it is not repeated more often
_PATIENCE = 3.0  # seconds without a better figure after which a function that seems slow is not measured again
_PASSES = 16.0  # passes over its input, as long as those of the functions beside it, for which caches are made up
_ROUNDS = 3  # times that it is measured at least

Make = Callable[[int], Any]
"""Makes hostile input of about n characters or items."""


def visit(value: Any) -> None:
    """Read the whole of a value once, in linear time, with little work for each part of it."""
    if isinstance(value, (str, bytes)):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            value = list(value)
    try:
        encode(value, enc_hook=repr)
    except (TypeError, ValueError, RecursionError):  # such as half of a surrogate pair
        repr(value)


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
        beside: Functions that are known to take linear time on the same input, or n log n: the seconds that they lose
            because less of a large input fits into the caches of the processor are taken from those of `run`.
    """

    name: str
    shape: str
    make: Make
    run: Callable[[Any], object]
    least: int = 1_000
    reach: int = 0
    most: int = 1_000_000
    span: int = 16
    beside: tuple[Callable[[Any], object], ...] = (visit,)

    def __str__(self) -> str:
        return f"{self.name} ({self.shape})"


class _Times:
    """The least seconds that a function, and those beside it, took at some sizes.

    Other work on the machine, and a cold cache, can only make a call longer; the sizes are measured in turn.
    """

    def __init__(self, case: Case, sizes: Sequence[int]) -> None:
        self.case = case
        self.run = dict.fromkeys(sizes, math.inf)
        self.beside = {size: [math.inf] * len(case.beside) for size in sizes}

    def measure(self) -> None:
        for size in self.run:
            value = self.case.make(size)
            for number, beside in enumerate(self.case.beside):  # first: they bring the value into the caches for all
                self.beside[size][number] = min(self.beside[size][number], _seconds(beside, value))
            self.run[size] = min(self.run[size], _seconds(self.case.run, value))

    def factor(self, small: int, large: int) -> float:
        """Return the factor for four times the size, without what the caches cost the functions beside it."""
        span = large / small
        lost = 0.0
        for at_small, at_large in zip(self.beside[small], self.beside[large], strict=True):
            passes = min(max(self.run[small] / at_small, 1.0), _PASSES)
            lost += passes * max(0.0, at_large - span * at_small)
        slower = (self.run[large] - lost) / max(self.run[small], 1e-6)
        return float(max(1.0, slower) ** (math.log(4) / math.log(span)))


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
    times = _Times(case, (case.least, size // 4, size))
    least, rounds, since = math.inf, 0, process_time()
    while rounds < _ROUNDS or process_time() - since < _PATIENCE:
        times.measure()
        rounds += 1
        factor = min(times.factor(case.least, size), times.factor(size // 4, size))
        if factor < 0.99 * least:
            least, since = factor, process_time()
        if least <= FACTOR or times.run[size] > _LONG:
            break
    return least, size, times.run[size]
