"""A store, a manual clock and sequential ids for tests of memory."""

from itertools import count

from ziggurat import Context
from ziggurat.core import CLOCK, root
from ziggurat.core.context import IDS
from ziggurat.testing import HandClock

HOUR, DAY = 3600.0, 86400.0


def context(clock: HandClock) -> Context:
    numbers = count(1)
    return root("test").within(CLOCK, clock).within(IDS, lambda: f"m{next(numbers)}")
