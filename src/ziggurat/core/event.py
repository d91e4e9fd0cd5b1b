"""Event types that any call can emit, and listeners."""

from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from logging import DEBUG, WARNING
from typing import ClassVar, Protocol

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.core.errors import JournalMismatch
from ziggurat.core.log import logger
from ziggurat.core.tasks import as_failure


@lru_cache(1000)
def warn_once(text: str) -> None:
    logger.warning("%s", text)


class Event(Struct, frozen=True, tag=True, tag_field="event"):
    """A record of something that happened at `path`; every event is a subclass."""

    piece: ClassVar[bool] = False
    """Whether it is a piece of something longer, such as of a reply."""

    path: str


class Dropped(Event, frozen=True):
    """A call was abandoned: listeners discard what they hold for its path."""

    why: str
    """The error, or the reason, in words."""


class Skipped(Event, frozen=True):
    """Events are missing here: the reader was too slow for them, or they were lost on the way from another process."""

    count: int


class Retrying(Event, frozen=True):
    """A call failed and will be retried."""

    attempt: int
    """The number of the failed try, from 1."""
    error: str
    """The error of the failed try, in words."""
    delay: float
    """Seconds until the next try."""


class CacheHit(Event, frozen=True):
    """A call was answered from a cache."""

    key: str
    """The key of the request in the store of the cache."""


class CircuitChanged(Event, frozen=True):
    """This call changed the state of a circuit breaker."""

    circuit: str
    """The name of the breaker."""
    before: str
    """Its state: ``closed``, ``open``, ``half_open``, ``forced_open`` or ``forced_closed``; `after` likewise."""
    after: str


class ChildStarted(Event, frozen=True):
    """A supervisor started a child."""

    child: str
    restarts: int
    """How often it was restarted before; 0 for the first start."""


class ChildEnded(Event, frozen=True):
    """A child of a supervisor ended, or did not start."""

    child: str
    error: str
    """The error; empty if it ended without one."""
    stopped: bool = False
    """Whether the supervisor stopped it, rather than that it ended by itself."""


class Queued(Event, frozen=True):
    """A call waits for its turn at a limit."""

    limit: str
    """What is limited: ``rate`` or ``concurrency``."""
    ahead: int
    """The number of calls that wait before it."""
    seconds: float | None = None
    """The expected wait at present; None if unknown."""


class UnderPressure(Event, frozen=True):
    """A call was accepted while so many are in progress that more will soon be refused."""

    depth: int
    """The number of calls in progress, this one included."""
    soft: int
    hard: int


class Joined(Event, frozen=True):
    """A call waits for the answer of an identical call in progress, and is not made itself."""

    key: str
    """The key of the request in the store of the layer `dedupe`."""


class Diverged(Event, frozen=True):
    """A resumed run makes a request that differs from its record; the recorded answer is used."""

    what: str
    """What differs, such as ``request`` or ``tools``."""
    recorded: str
    """It as recorded, as text."""
    asked: str
    """It as the code has it now."""

    @property
    def diff(self) -> str:
        """Both sides as lines with ``-`` (recorded) and ``+`` (asked now)."""
        return difference(self.recorded, self.asked)


class NotRecorded(JournalMismatch):
    """A replay came to a call that is not in the record, although its run had gone on or ended well."""


_DIFF_LINES = 60
_COMPARED = 400  # lines of each text that are compared, because comparing takes the square of their number


def difference(recorded: str, current: str) -> str:
    """Return the difference of two texts for people to read: both lines, or a unified diff of longer texts."""
    if "\n" not in recorded and "\n" not in current:
        return f"- recorded: {recorded}\n+ asked:    {current}"
    from difflib import unified_diff

    before, after = recorded.splitlines(), current.splitlines()
    if max(len(before), len(after)) > _COMPARED:
        same = next((at for at, (one, other) in enumerate(zip(before, after, strict=False)) if one != other), None)
        start = max(0, (min(len(before), len(after)) if same is None else same) - 2)
        before, after = before[start : start + _COMPARED], after[start : start + _COMPARED]
    lines = list(unified_diff(before, after, "recorded", "asked", n=2, lineterm=""))
    if len(lines) > _DIFF_LINES:
        lines[_DIFF_LINES:] = [f"... and {len(lines) - _DIFF_LINES} lines more"]
    return "\n".join(lines)


class Emit(Protocol):
    """The protocol of objects that pass events of a run to listeners."""

    @property
    def blocked(self) -> float:
        """Seconds that emitting has waited for slow readers so far; not counted against any timeout."""
        ...

    def __call__(self, event: Event, /) -> Awaitable[None]: ...

    def listens(self, kind: type[Event], /) -> bool: ...


class _NoListeners:
    blocked: float = 0.0

    async def __call__(self, event: Event, /) -> None: ...

    def listens(self, kind: type[Event], /) -> bool:
        return False


SILENCE = _NoListeners()

Listener = Callable[[Event], object]
"""A function called with each event: a plain one, whose return value is ignored, or a coroutine function."""


class PerRun:
    """The base of listeners with state per run: each run gets a listener of its own."""

    def for_run(self) -> Listener:
        raise NotImplementedError


class Passing:
    """The base of an `Emit` that passes events on to an outer one; it listens for what the outer one listens for."""

    __slots__ = ("outer",)

    def __init__(self, outer: Emit) -> None:
        self.outer: Emit = outer

    @property
    def blocked(self) -> float:
        return self.outer.blocked

    def listens(self, kind: type[Event], /) -> bool:
        return self.outer.listens(kind)


class NestedEvents(Passing):
    """Passes the events of a run on, with paths beneath that of the call which opened the run."""

    __slots__ = ("_path",)

    def __init__(self, path: str, outer: Emit) -> None:
        super().__init__(outer)
        self._path = path

    async def __call__(self, event: Event, /) -> None:
        if self.outer.listens(type(event)):
            await self.outer(replace(event, path=f"{self._path}/{event.path}"))


class Listeners(Passing):
    """An `Emit` that calls its listeners in the order given, then an outer `Emit`; it logs the first error of each."""

    def __init__(self, outer: Emit, listeners: Sequence[Listener]) -> None:
        super().__init__(outer)
        self.listeners: tuple[Listener, ...] = tuple(
            [each.for_run() if isinstance(each, PerRun) else each for each in listeners]
        )
        self._failed: set[int] = set()

    async def __call__(self, event: Event, /) -> None:
        for number, listener in enumerate(self.listeners):
            try:
                waiting = listener(event)
                if waiting is not None and isinstance(waiting, Awaitable):
                    await waiting
            except BaseException as error:  # a failing listener must not affect the run
                as_failure(error)
                level = DEBUG if number in self._failed else WARNING
                self._failed.add(number)
                logger.log(level, "a listener failed on %s at %s", type(event).__name__, event.path, exc_info=True)
        await self.outer(event)

    def listens(self, kind: type[Event], /) -> bool:
        return True
