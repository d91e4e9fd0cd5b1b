"""What the calls around this one hold until it ends: slots, trials, calls that others have joined.

A layer that waits, or refuses, because of what is held must know whether that waits for the very call it holds up. The
context does not tell: a detached run, or a service called with ``root()``, has one of its own.
"""

from collections.abc import Callable
from contextvars import ContextVar

HELD: ContextVar[tuple[object, ...]] = ContextVar("ziggurat_held", default=())

held: Callable[[], tuple[object, ...]] = HELD.get
"""Returns what the calls around this one hold, the outermost first."""


class Holding:
    """Declares that a call holds something, to all calls made within a ``with`` block."""

    __slots__ = ("_around", "_within")

    def __init__(self, what: object) -> None:
        self._around = held()
        self._within = (*self._around, what)

    def __enter__(self) -> None:
        HELD.set(self._within)

    def __exit__(self, *error: object) -> None:
        if held() is self._within:  # not in a collected coroutine, which is closed among other context variables
            HELD.set(self._around)
