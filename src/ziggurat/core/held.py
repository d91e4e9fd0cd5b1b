"""What the calls around this one hold until it ends: slots, trials, calls that others have joined.

A layer that waits, or refuses, because of what is held must know whether that waits for the very call it holds up. The
context does not tell: a detached run, or a service called with ``root()``, has one of its own.
"""

__all__ = ["Holding", "held"]

from contextlib import suppress
from contextvars import ContextVar

_HELD: ContextVar[tuple[object, ...]] = ContextVar("ziggurat_held", default=())


def held() -> tuple[object, ...]:
    """Return what the calls around this one hold, the outermost first."""
    return _HELD.get()


class Holding:
    """Declares that a call holds something, to all calls made within a ``with`` block."""

    __slots__ = ("_before", "_what")

    def __init__(self, what: object) -> None:
        self._what = what

    def __enter__(self) -> None:
        self._before = _HELD.set((*_HELD.get(), self._what))

    def __exit__(self, *error: object) -> None:
        with suppress(ValueError):  # a collected coroutine is closed among other context variables
            _HELD.reset(self._before)
