"""Events of any call, and listeners."""

__all__ = [
    "SILENCE",
    "CacheHit",
    "CircuitChanged",
    "Diverged",
    "Dropped",
    "Emit",
    "Event",
    "Joined",
    "Listener",
    "PerRun",
    "Queued",
    "Retrying",
    "Silence",
    "UnderPressure",
    "difference",
    "listening_to",
]

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from msgspec import Struct

logger = logging.getLogger("ziggurat")


class Event(Struct, frozen=True, tag=True, tag_field="event"):
    """A record of something that happened at `path`; every event is a subclass."""

    path: str


class Dropped(Event, frozen=True):
    """A call was abandoned: listeners drop what they hold under its path."""

    why: str


class Retrying(Event, frozen=True):
    """A call failed and will be made again."""

    attempt: int
    """The try that failed, counted from 1."""
    error: str
    delay: float
    """Seconds until the next try."""


class CacheHit(Event, frozen=True):
    """A call was answered from a cache."""

    key: str


class CircuitChanged(Event, frozen=True):
    """A circuit breaker went from one state to another by this call."""

    circuit: str
    before: str
    after: str


class Queued(Event, frozen=True):
    """A call waits for its turn at a limit."""

    limit: str
    ahead: int
    """How many wait before it."""
    seconds: float | None = None
    """How long it will wait as things stand; None where nobody knows."""


class UnderPressure(Event, frozen=True):
    """A call was let in while so many are under way that more will soon be refused."""

    depth: int
    """How many are under way, this one included."""
    soft: int
    hard: int


class Joined(Event, frozen=True):
    """A call waits for the answer of one like it that is in progress, and is not made itself."""

    key: str


class Diverged(Event, frozen=True):
    """A resumed run asks something else than its record holds; the record wins."""

    what: str
    recorded: str
    asked: str

    @property
    def diff(self) -> str:
        """Both sides as lines with ``-`` (on record) and ``+`` (asked now)."""
        return difference(self.recorded, self.asked)


_DIFF_LINES = 60


def difference(recorded: str, asked: str) -> str:
    """Return how two texts differ, for people: both, or of longer ones the lines around each difference.

    >>> print(difference("Be brief.", "Be formal."))
    - recorded: Be brief.
    + asked:    Be formal.
    """
    if "\n" not in recorded and "\n" not in asked:
        return f"- recorded: {recorded}\n+ asked:    {asked}"
    from difflib import unified_diff

    lines = list(unified_diff(recorded.splitlines(), asked.splitlines(), "recorded", "asked", n=2, lineterm=""))
    if len(lines) > _DIFF_LINES:
        lines[_DIFF_LINES:] = [f"... and {len(lines) - _DIFF_LINES} lines more"]
    return "\n".join(lines)


class Emit(Protocol):
    """The way out for events of a run."""

    @property
    def blocked(self) -> float:
        """Seconds that emitting has waited for slow readers so far; charged to no timeout."""
        ...

    def __call__(self, event: Event, /) -> Awaitable[None]:
        """Tell the listeners."""
        ...

    def listens(self, kind: type[Event], /) -> bool:
        """Return whether anybody wants events of this kind; if not, none need be built."""
        ...


class Silence:
    """Nobody listens."""

    blocked = 0.0

    async def __call__(self, event: Event, /) -> None:
        """Do nothing."""

    def listens(self, kind: type[Event], /) -> bool:
        """Nobody does."""
        return False


SILENCE = Silence()

Listener = Callable[[Event], object]
"""Whatever is called with each event: a plain function, whose answer is not looked at, or a coroutine function."""


class PerRun:
    """Base of listeners that keep what belongs to a run: each run is heard by one of its own."""

    def for_run(self) -> Listener:
        """Make the listener that hears one run."""
        raise NotImplementedError


class _Listeners:
    """Passes events to an outer way out and to listeners, in the order given."""

    def __init__(self, outer: Emit, listeners: Sequence[Listener]) -> None:
        self.outer = outer
        self.listeners = tuple([each.for_run() if isinstance(each, PerRun) else each for each in listeners])

    @property
    def blocked(self) -> float:
        return self.outer.blocked

    async def __call__(self, event: Event, /) -> None:
        for listener in self.listeners:
            try:
                waiting = listener(event)
                if waiting is not None and isinstance(waiting, Awaitable):
                    await waiting
            except Exception:  # a listener changes nothing, so neither does its failure
                logger.exception("a listener failed on %s at %s", type(event).__name__, event.path)
        await self.outer(event)

    def listens(self, kind: type[Event], /) -> bool:
        return True


def listening_to(outer: Emit, listeners: Sequence[Listener]) -> Emit:
    """Return a way out that calls each of `listeners` and then `outer`.

    A listener that raises is logged and otherwise ignored.
    """
    return _Listeners(outer, listeners) if listeners else outer
