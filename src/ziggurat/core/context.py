"""The context that travels with a call: its path, its listeners, its deadline, and what the run shares."""

__all__ = ["AMBIENT", "JOURNAL", "METER", "RUN_ID", "Context", "Journal", "Limit", "Meter", "root"]

import asyncio
from collections.abc import Awaitable, Callable, Container, Iterable, Sequence
from contextvars import ContextVar
from types import TracebackType
from typing import Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import force_setattr

from ziggurat.core.clock import CLOCK, IDS, RANDOM, SYSTEM_CLOCK, Clock, Timer, new_id
from ziggurat.core.entries import Entry, Outcome, Record, Screen
from ziggurat.core.errors import Timeout
from ziggurat.core.event import SILENCE, Diverged, Emit, Event, Listener, listening_to
from ziggurat.core.path import escaped
from ziggurat.core.scope import Key, Scope

Q = TypeVar("Q")
R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")


class _Counter(Struct):
    """The names used so far under one entry into a call, and the state that its middleware keeps."""

    names: dict[str, int] | None = None
    states: dict[int, tuple[object, object]] | None = None  # each with its owner, which keeps its id taken


class Context(Struct, frozen=True, eq=False):
    """Where a call stands. Frozen: children are made, never mutated.

    Attributes:
        path: The address of this call in the run: names and positions, never an id of a provider or a time.
        emit: ``await ctx.emit(event)`` tells the listeners; ask `listens` first and build nothing for nobody.
        deadline: When this call must stop, in seconds of the clock's `monotonic`; None for never.
        scope: What the whole run shares.
        frozen: What the function at the bottom of this call is held to; an agent that is entered holds nothing.
        tries: How many tries of this very call were made before this one.
    """

    path: str
    emit: Emit = SILENCE
    deadline: float | None = None
    scope: Scope = Scope()
    frozen: object = None
    _beneath: bool = False  # below a call that is recorded whole, such as a model's
    _counter: _Counter | None = None
    _entered: bool = False
    tries: int = 0

    def under(self, name: str) -> "Context":
        """Make the context of a call named `name`; a name used again is numbered: ``x``, ``x#2``, ``x#3``.

        Numbers follow the order of the calls to this method, so take them before tasks start.
        """
        counter = self._counting()
        names = counter.names
        if names is None:
            names = counter.names = {}
        name = escaped(name)
        number = names[name] = names.get(name, 0) + 1
        return self.at(name if number == 1 else f"{name}#{number}")

    def at(self, name: str) -> "Context":
        """Make the context of a call whose `name` is unique here by construction, such as ``step-3``."""
        return Context(f"{self.path}/{name}", self.emit, self.deadline, self.scope, self.frozen, self._beneath)

    def beneath(self, name: str) -> "Context":
        """Make the context of a call as `at` does, that is recorded whole by who makes it, as a model's is."""
        return Context(f"{self.path}/{name}", self.emit, self.deadline, self.scope, self.frozen, True)

    def again(self) -> "Context":
        """Make the context of another try of this same call: same path, numbering starts again."""
        tries = self.tries + 1
        return Context(
            self.path, self.emit, self.deadline, self.scope, self.frozen, self._beneath, None, self._entered, tries
        )

    def within(self, key: Key[T], value: T) -> "Context":
        """Make a context whose scope has `value` under `key`, for this call and all below it."""
        return self.scoped(self.scope.with_value(key, value))

    def scoped(self, scope: Scope) -> "Context":
        """Make a context with another scope."""
        return self._with(scope=scope)

    def freezing(self, frozen: object, *, alone: bool = False) -> "Context":
        """Make the context of this call with its function held to `frozen`.

        Args:
            frozen: What it is held to.
            alone: Nobody continues with this context beside the new one, so names and state need not be shared.
        """
        counter = self._counter if alone else self._counting()
        return Context(
            self.path, self.emit, self.deadline, self.scope, frozen, self._beneath, counter, self._entered, self.tries
        )

    def heard_by(self, *listeners: Listener) -> "Context":
        """Make a context whose events also go to `listeners`."""
        return self._with(emit=listening_to(self.emit, listeners))

    def emitting(self, emit: Emit) -> "Context":
        """Make a context whose events go out through `emit`."""
        return self._with(emit=emit)

    def entered(self, scope: Scope) -> "Context":
        """Make a context that says the station of this call has been passed; all below it has `scope`."""
        return Context(self.path, self.emit, self.deadline, scope, None, self._beneath, self._counter, True)

    def _with(self, emit: Emit | None = None, deadline: float | None = None, scope: Scope | None = None) -> "Context":
        return Context(
            self.path,
            self.emit if emit is None else emit,
            self.deadline if deadline is None else deadline,
            self.scope if scope is None else scope,
            self.frozen,
            self._beneath,
            self._counting(),
            self._entered,
            self.tries,
        )

    def _counting(self) -> _Counter:
        counter = self._counter
        if counter is None:
            counter = _Counter()
            force_setattr(self, "_counter", counter)
        return counter

    def limit(self, seconds: float) -> "Limit":
        """Bound what is awaited inside ``async with ctx.limit(30) as ctx`` to `seconds`.

        Time that emitting waits for a slow reader is not charged.

        Raises:
            Timeout: on leaving the block, when the limit passed and its work was cancelled.
        """
        return Limit(self, seconds)

    def remaining(self) -> float | None:
        """Return the seconds left until the deadline, or None without one."""
        return None if self.deadline is None else self.deadline - self.clock.monotonic()

    def listens(self, kind: type[Event]) -> bool:
        """Return whether anybody wants events of this kind."""
        return self.emit is not SILENCE and self.emit.listens(kind)

    def once(
        self,
        name: str,
        request: Q,
        call: "Callable[[Q, Context], Awaitable[R]]",
        *,
        returns: type[R],
        composite: bool = False,
    ) -> Awaitable[R]:
        """Make a call that the run's journal answers for if it was made before.

        Args:
            name: The service's name, unique per application.
            request: What is asked; compared by its `fingerprint()` where it has one.
            call: Makes the call.
            returns: The type of the response, by which it is coded.
            composite: The call is made of others that are on record themselves: only how it ended is recorded.
        """
        if self._beneath:
            return call(request, self)
        return self.scope[JOURNAL].once(self, name, request, call, returns, composite)

    def charge(self, usage: object) -> None:
        """Add what a failed or lost try below a model's `once` has cost; nothing for None, or elsewhere."""
        if usage is not None and self._beneath:
            self.scope[JOURNAL].charge(self.path, usage)

    @property
    def replayed(self) -> bool:
        """Whether this call is run again on the record of its parts.

        What load decided about it stands then, so nothing that depends on load may wait or refuse.
        """
        if self._beneath:
            return False
        journal = self.scope.get(JOURNAL)
        return journal is not None and journal.replaying

    def state(self, owner: object, factory: Callable[[], S]) -> S:
        """Return what `owner` keeps for this call, made by `factory` at first; it dies with the call."""
        counter = self._counting()
        states = counter.states
        if states is None:
            states = counter.states = {}
        if id(owner) not in states:
            states[id(owner)] = (owner, factory())
        return states[id(owner)][1]  # type: ignore[return-value]

    @property
    def clock(self) -> Clock:
        """The run's clock."""
        return self.scope.get(CLOCK) or SYSTEM_CLOCK

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.scope[RUN_ID]

    @property
    def idempotency_key(self) -> str:
        """A key for this very call, the same when it is made again after a crash: run id and path."""
        run_id = self.scope.get(RUN_ID)
        return f"{run_id or ''}:{self.path}"

    def new_id(self) -> str:
        """Draw an id from the run's source of ids."""
        return (self.scope.get(IDS) or new_id)()

    def random(self) -> float:
        """Draw a number from [0, 1) from the run's source of randomness."""
        source = self.scope.get(RANDOM)
        if source is not None:
            return source()
        from random import random

        return random()  # noqa: S311 - jitter, not secrets


class Journal(Protocol):
    """The record of a run, as a call meets it."""

    @property
    def durable(self) -> bool:
        """Whether entries outlive the process, so that intents must be written before effects."""
        ...

    @property
    def replaying(self) -> bool:
        """Whether nothing may be called, so that composites are run again on the record of their parts."""
        ...

    @property
    def refusing(self) -> bool:
        """Whether no call may be made live: in a replay, and when nothing can be recorded any more."""
        ...

    @property
    def known(self) -> Container[str] | None:
        """The paths of calls of which something is on record, None until somebody asks what is."""
        ...

    @property
    def reopened(self) -> bool:
        """Whether it holds what was done before the run went on."""
        ...

    def spent(self, path: str, /) -> Iterable[tuple[Outcome, Iterable[object]]]:
        """Return every try of every call on record below `path`, each with its usage."""
        ...

    @property
    def entries(self) -> Sequence[Entry]:
        """All that happened, in order."""
        ...

    @property
    def elapsed(self) -> float:
        """Seconds of the run's allowance used up so far, in this process and before; waiting for people is free."""
        ...

    def find(self, path: str, /) -> Record | None:
        """Return what is known of the call at `path`."""
        ...

    def append(self, entry: Entry, /) -> Awaitable[None] | None:
        """Record what happened; await what is returned, if anything, before acting on it."""
        ...

    def screen(self, path: str, screen: Screen, /) -> None:
        """Have `screen` go over each entry at or below `path`, from now on, before it is kept anywhere."""
        ...

    def screened(self, entry: Entry, /) -> Entry:
        """Return an entry as it may be kept."""
        ...

    def settled(self) -> Awaitable[None] | None:
        """Return what is done when all that was appended is durable, None when it is already."""
        ...

    def failed(self, path: str, name: str, request: object, error: Exception, /) -> None:
        """Record a verdict on the call at `path`, unless the error is on record below it already."""
        ...

    def pass_over(self, outcome: Outcome, /) -> list[object]:
        """Count what stands on record below an answered call as answered; returns the usage found there."""
        ...

    def charge(self, path: str, usage: object, /) -> None:
        """Keep what a failed or lost try at `path` has cost for the call that it is a part of."""
        ...

    def missing(self, path: str, what: str, /) -> None:
        """Say that a call at `path` is about to be made live; raises where nothing may be called."""
        ...

    def diverged(self, path: str, what: str, recorded: str, asked: str, /) -> Diverged | None:
        """Say that a recorded call is asked differently; returns the event to emit, or raises where strict."""
        ...

    def once(
        self,
        ctx: Context,
        name: str,
        request: Q,
        call: Callable[[Q, Context], Awaitable[R]],
        returns: type[R],
        composite: bool = False,
        /,
    ) -> Awaitable[R]:
        """Answer from the record, or call and record."""
        ...

    def plain(self, ctx: Context, /) -> bool:
        """Return whether calls here and below are made and recorded at once."""
        ...

    def made(self, ctx: Context, name: str, request: object, value: object, /) -> None:
        """Record what a plain call made without `once`, below its context, was answered with."""
        ...

    def lost(self, ctx: Context, name: str, request: object, error: BaseException, /) -> None:
        """Record how such a call has failed."""
        ...


class Meter(Protocol):
    """Adds up what calls have cost."""

    def add(self, usage: object, /) -> None:
        """Add what one call has cost."""
        ...


JOURNAL = Key[Journal]("journal")
RUN_ID = Key[str]("run id")
METER = Key[Meter]("meter")

AMBIENT: ContextVar[Context | None] = ContextVar("ziggurat", default=None)
"""The context of the user's function that is running; read by an agent's `run`, `stream` and `run_sync` only."""


def root(name: str = "run", scope: Scope | None = None, emit: Emit = SILENCE) -> Context:
    """Make the first context of a run, mostly for tests and services called by hand."""
    return Context(escaped(name), emit, None, scope or Scope())


_WHILE = 0.01


class Limit:
    """The block of `Context.limit`: one timer, no task."""

    __slots__ = ("_before", "_blocked", "_ctx", "_expired", "_task", "_timer", "_when", "seconds")

    def __init__(self, ctx: Context, seconds: float) -> None:
        self._ctx = ctx
        self.seconds = seconds

    async def __aenter__(self) -> Context:
        ctx = self._ctx
        task = asyncio.current_task()
        assert task is not None
        self._task, self._before, self._expired = task, task.cancelling(), False
        self._when = ctx.clock.monotonic() + self.seconds
        self._blocked = ctx.emit.blocked
        self._timer: Timer = ctx.clock.call_at(self._when, self._fire)
        deadline = self._when if ctx.deadline is None else min(self._when, ctx.deadline)
        return ctx._with(deadline=deadline)

    def _fire(self) -> None:
        clock = self._ctx.clock
        when = self._when + self._ctx.emit.blocked - self._blocked
        now = clock.monotonic()
        if when > self._when and now < when:  # never sooner than in a while: blocked time may grow as fast as time
            self._timer = clock.call_at(max(when, now + _WHILE), self._fire)
            return
        self._expired = True
        self._task.cancel()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        if self._expired and self._task.uncancel() <= self._before and kind is asyncio.CancelledError:
            raise Timeout(f"{self._ctx.path} timed out after {self.seconds:g} s", seconds=self.seconds) from error
