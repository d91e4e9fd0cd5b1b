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
    """The names used so far during one entry into a call, and the state of its middleware."""

    names: dict[str, int] | None = None
    states: dict[int, tuple[object, object]] | None = None  # with the owner, so that its id is not reused


class Context(Struct, frozen=True, eq=False):
    """The context of one call. It is frozen: methods return new contexts.

    Attributes:
        path: The address of this call in the run: names and positions, never a provider's id or a time.
        emit: ``await ctx.emit(event)`` notifies the listeners; call `listens` first, and build no event if it is False.
        deadline: When this call must stop, in seconds of the clock's `monotonic`; None for never.
        scope: What the whole run shares.
        frozen: The checked call, the only one that the tool function at the bottom may run; None inside an agent.
        tries: The number of earlier tries of this same call.
    """

    path: str
    emit: Emit = SILENCE
    deadline: float | None = None
    scope: Scope = Scope()
    frozen: object = None
    _beneath: bool = False  # inside a call that is recorded as a whole, such as a model call
    _counter: _Counter | None = None
    _entered: bool = False
    tries: int = 0

    def under(self, name: str) -> "Context":
        """Return the context of a child call named `name`; a repeated name is numbered: ``x``, ``x#2``, ``x#3``.

        Numbers follow the order of the calls to this method, so call it before starting tasks.
        """
        counter = self._counting()
        names = counter.names
        if names is None:
            names = counter.names = {}
        name = escaped(name)
        number = names[name] = names.get(name, 0) + 1
        return self.at(name if number == 1 else f"{name}#{number}")

    def at(self, name: str) -> "Context":
        """Return the context of a child call whose `name` is known to be unique here, such as ``step-3``."""
        return Context(f"{self.path}/{name}", self.emit, self.deadline, self.scope, self.frozen, self._beneath)

    def beneath(self, name: str) -> "Context":
        """Return a child context as `at` does, for a call that its caller records as a whole, such as a model call."""
        return Context(f"{self.path}/{name}", self.emit, self.deadline, self.scope, self.frozen, True)

    def again(self) -> "Context":
        """Return the context for another try of this same call: same path, numbering starts again."""
        tries = self.tries + 1
        return Context(
            self.path, self.emit, self.deadline, self.scope, self.frozen, self._beneath, None, self._entered, tries
        )

    def within(self, key: Key[T], value: T) -> "Context":
        """Return a context whose scope has `value` under `key`, for this call and all calls below it."""
        return self.scoped(self.scope.with_value(key, value))

    def scoped(self, scope: Scope) -> "Context":
        """Return a context with another scope."""
        return self._with(scope=scope)

    def freezing(self, frozen: object, *, alone: bool = False) -> "Context":
        """Return a context of this call whose tool function may run only the call `frozen`.

        Args:
            frozen: The call as it was checked.
            alone: Whether only the new context will be used from here on, so names and state need not be shared.
        """
        counter = self._counter if alone else self._counting()
        return Context(
            self.path, self.emit, self.deadline, self.scope, frozen, self._beneath, counter, self._entered, self.tries
        )

    def heard_by(self, *listeners: Listener) -> "Context":
        """Return a context whose events also go to `listeners`."""
        return self._with(emit=listening_to(self.emit, listeners))

    def emitting(self, emit: Emit) -> "Context":
        """Return a context whose events go to `emit` instead."""
        return self._with(emit=emit)

    def entered(self, scope: Scope) -> "Context":
        """Return a context marked as having passed the checks and hooks of this call, with `scope` for all below it."""
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
        """Limit the block ``async with ctx.limit(30) as ctx`` to `seconds`.

        Time spent waiting for a slow reader of events does not count.

        Raises:
            Timeout: on leaving the block, if the limit passed and the work was cancelled.
        """
        return Limit(self, seconds)

    def remaining(self) -> float | None:
        """Return the seconds left until the deadline, or None without one."""
        return None if self.deadline is None else self.deadline - self.clock.monotonic()

    def listens(self, kind: type[Event]) -> bool:
        """Return whether any listener wants events of this kind."""
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
        """Answer a call from the run's journal if it was made before; otherwise make it and record it.

        Args:
            name: The service's name, unique per application.
            request: The request; compared by its `fingerprint()` if it has one, else by a digest of its JSON.
            call: Makes the call.
            returns: The type of the response, used to decode it.
            composite: The call consists of other recorded calls, so only its outcome is recorded.
        """
        if self._beneath:
            return call(request, self)
        return self.scope[JOURNAL].once(self, name, request, call, returns, composite)

    def charge(self, usage: object) -> None:
        """Add the usage of a failed or lost try inside a model's `once`; no effect for None, or outside of one."""
        if usage is not None and self._beneath:
            self.scope[JOURNAL].charge(self.path, usage)

    @property
    def replayed(self) -> bool:
        """Whether this call is replayed from the record of its parts.

        Decisions that depended on load are not made again, so limiters and the like must neither wait nor refuse.
        """
        if self._beneath:
            return False
        journal = self.scope.get(JOURNAL)
        return journal is not None and journal.replaying

    def state(self, owner: object, factory: Callable[[], S]) -> S:
        """Return the state of `owner` for this call, made by `factory` on first use and discarded with the call."""
        counter = self._counting()
        states = counter.states
        if states is None:
            states = counter.states = {}
        if id(owner) not in states:
            states[id(owner)] = (owner, factory())
        return states[id(owner)][1]  # type: ignore[return-value]

    @property
    def clock(self) -> Clock:
        """The clock of the run."""
        return self.scope.get(CLOCK) or SYSTEM_CLOCK

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.scope[RUN_ID]

    @property
    def idempotency_key(self) -> str:
        """A key of this call, run id and path: the same when the call is repeated after a crash."""
        run_id = self.scope.get(RUN_ID)
        return f"{run_id or ''}:{self.path}"

    def new_id(self) -> str:
        """Return a new id from the run's id source."""
        return (self.scope.get(IDS) or new_id)()

    def random(self) -> float:
        """Return a number from [0, 1) from the run's random source."""
        source = self.scope.get(RANDOM)
        if source is not None:
            return source()
        from random import random

        return random()  # noqa: S311 - jitter, not secrets


class Journal(Protocol):
    """The protocol of a journal, the record of a run, as used by calls."""

    @property
    def durable(self) -> bool:
        """Whether entries outlive the process, so that intents must be written before effects."""
        ...

    @property
    def replaying(self) -> bool:
        """Whether this is a replay: no live calls, and composites are run again from the record of their parts."""
        ...

    @property
    def refusing(self) -> bool:
        """Whether live calls are refused: in a replay, and when nothing can be recorded any more."""
        ...

    @property
    def known(self) -> Container[str] | None:
        """The paths of calls that have entries; None until the entries were first searched."""
        ...

    @property
    def reopened(self) -> bool:
        """Whether it holds entries from before the run was continued."""
        ...

    def spent(self, path: str, /) -> Iterable[tuple[Outcome, Iterable[object]]]:
        """Return every recorded try of every call at or below `path`, each with its usage."""
        ...

    @property
    def entries(self) -> Sequence[Entry]:
        """All entries, in order."""
        ...

    @property
    def elapsed(self) -> float:
        """Seconds of the run's time allowance used so far, in all processes; waiting for people does not count."""
        ...

    def find(self, path: str, /) -> Record | None:
        """Return the record of the call at `path`, or None."""
        ...

    def append(self, entry: Entry, /) -> Awaitable[None] | None:
        """Record an entry; if an awaitable is returned, await it before acting on the entry."""
        ...

    def screen(self, path: str, screen: Screen, /) -> None:
        """Apply `screen` from now on to each entry at or below `path`, before the entry is stored anywhere."""
        ...

    def screened(self, entry: Entry, /) -> Entry:
        """Return an entry after all screens for its path were applied."""
        ...

    def settled(self) -> Awaitable[None] | None:
        """Return an awaitable for when all appended entries are durable; None if they are already."""
        ...

    def failed(self, path: str, name: str, request: object, error: Exception, /) -> None:
        """Record a failure of the call at `path`, unless the error is recorded already."""
        ...

    def pass_over(self, outcome: Outcome, /) -> list[object]:
        """Mark what is recorded below an answered call as answered; return the usage not counted yet."""
        ...

    def charge(self, path: str, usage: object, /) -> None:
        """Keep the usage of a failed or lost try at `path`, for the record of the call it is a part of."""
        ...

    def missing(self, path: str, what: str, /) -> None:
        """Announce a live call at `path`; raise if no live calls are allowed."""
        ...

    def diverged(self, path: str, what: str, recorded: str, asked: str, /) -> Diverged | None:
        """Report that a request differs from the recorded one: return the event to emit, or raise if strict."""
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
        """Answer the call from the record, or make it and record it."""
        ...

    def plain(self, ctx: Context, /) -> bool:
        """Return whether calls at and below `ctx` may skip `once`: no admission, no wait for durability, no replay."""
        ...

    def made(self, ctx: Context, name: str, request: object, value: object, /) -> None:
        """Record the answer of a call that was made without `once` because `plain` allowed it."""
        ...

    def lost(self, ctx: Context, name: str, request: object, error: BaseException, /) -> None:
        """Record the failure of a call that was made without `once`."""
        ...


class Meter(Protocol):
    """A sum of the usage of calls."""

    def add(self, usage: object, /) -> None:
        """Add the usage of one call."""
        ...


JOURNAL = Key[Journal]("journal")
RUN_ID = Key[str]("run id")
METER = Key[Meter]("meter")

AMBIENT: ContextVar[Context | None] = ContextVar("ziggurat", default=None)
"""The context of the user function that is running; read only by an agent's `run`, `stream` and `run_sync`."""


def root(name: str = "run", scope: Scope | None = None, emit: Emit = SILENCE) -> Context:
    """Return the first context of a run, mostly for tests and for services called directly."""
    return Context(escaped(name), emit, None, scope or Scope())


_WHILE = 0.01


class Limit:
    """The context manager of `Context.limit`; it uses one timer and no task."""

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
        if when > self._when and now < when:  # wait at least _WHILE: blocked time may grow as fast as the clock
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
