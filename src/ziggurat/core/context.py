"""The context that travels with a call: its path, its listeners, its deadline, and the scope, what the run shares.

The scope has typed keys, so that core needs no names from other packages.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, get_args

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.core import errors
from ziggurat.core.clock import SYSTEM_CLOCK, Clock, Stopwatch, new_id
from ziggurat.core.event import SILENCE, Dropped, Emit, Event, Listener, Listeners
from ziggurat.core.path import escaped
from ziggurat.core.settings import outer_rule
from ziggurat.core.tasks import Interruption

T = TypeVar("T")
Q = TypeVar("Q")
R = TypeVar("R")
S = TypeVar("S")


class Key(Generic[T]):
    """The typed key of one value in a scope: pass the value with ``run(deps={KEY: value})``, read ``ctx.scope[KEY]``.

    Keys are compared by identity, so keys of different modules never clash: make one once, and import it.

    >>> DATABASE = Key[str]("database")
    >>> root().within(DATABASE, "x.db").scope[DATABASE]
    'x.db'

    A key that is made as ``Key[Database]("database")`` also checks the dependencies of a run when they are passed.

    Raises:
        ConfigurationError: the name is empty; of ``ctx.scope[KEY]``, that the run was not given the value.
    """

    # Python's typing sets __orig_class__ on what a subscribed class makes; nothing else knows T at run time
    __slots__ = ("__orig_class__", "_rule", "name")

    __orig_class__: Any
    _rule: Any

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise errors.ConfigurationError(f"a key has a name, such as in Key[Database]('database'); got {name!r}")
        self.name: str = name

    def bind(self, value: T) -> "dict[Key[Any], Any]":
        """Return a mapping with `value` under this key, to pass as `deps` with a type that is checked statically.

        >>> DATABASE, LIMIT = Key[str]("database"), Key[int]("limit")
        >>> DATABASE.bind("x.db") | LIMIT.bind(3)
        {Key('database'): 'x.db', Key('limit'): 3}
        """
        return {self: value}

    def check(self, value: object) -> None:
        """Check a value by the type of this key: its class, but not what a collection contains.

        Raises:
            ConfigurationError: it has another type; the message names the key and both types.
        """
        try:
            rule = self._rule
        except AttributeError:
            (kind,) = get_args(getattr(self, "__orig_class__", None)) or (Any,)
            rule = self._rule = outer_rule(kind)
        if not rule.allows(value):
            actual = "a class" if isinstance(value, type) else f"of type {type(value).__qualname__}"
            raise errors.ConfigurationError(
                f"deps: the value of {self!r} is {rule.words}; got {value!r:.100}, {actual}"
            )

    def __repr__(self) -> str:
        return f"Key({self.name!r})"


class Scope(dict[Key[Any], Any]):
    """An immutable map from keys to values; `with_value` makes a changed copy."""

    # It is a dict, because every call reads it several times and nothing is faster.
    __slots__ = ()

    if TYPE_CHECKING:

        def get(self, key: Key[T], default: None = None, /) -> T | None:  # type: ignore[override]
            """Return the value of `key`, or None."""

        def __getitem__(self, key: Key[T], /) -> T: ...

    def __missing__(self, key: Key[Any]) -> Any:
        name = getattr(key, "name", key)
        alike = any(known.name == name for known in self)
        other = ", but another key of this name was: make a key once, and import it where it is used" if alike else ""
        raise errors.ConfigurationError(
            f"this run was not given {name!r}; pass it with run(..., deps={{KEY: value}}){other}"
        )

    def with_value(self, key: Key[T], value: T) -> "Scope":
        """Return a copy with `key` set to `value`."""
        copy = Scope(self)
        dict.__setitem__(copy, key, value)
        return copy

    def with_values(self, values: Mapping[Key[Any], Any]) -> "Scope":
        """Return a copy with all of `values`."""
        copy = Scope(self)
        dict.update(copy, values)
        return copy

    def _immutable(self, *_: object) -> NoReturn:
        raise TypeError("a scope cannot be changed; make a copy with with_value(KEY, value)")

    # where a map is changed; the type says that a call never returns
    __setitem__: Any = _immutable
    __delitem__: Any = _immutable
    __ior__: Any = _immutable
    update: Any = _immutable
    pop: Any = _immutable
    popitem: Any = _immutable
    clear: Any = _immutable
    setdefault: Any = _immutable

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)

    def __repr__(self) -> str:
        return f"Scope({', '.join(sorted(key.name for key in self))})"


class Context(Struct, frozen=True, eq=False):
    """The context of one call, with its path, its listeners and what the run shares; methods return new contexts.

    Attributes:
        path: The address of this call in the run: names and positions, never a provider's id or a time.
        emit: ``await ctx.emit(event)`` notifies the listeners; call `listens` first, and build no event if it is False.
        watch: Measures the time of this call, less the waits for people; None if nothing around it has one.
        scope: What the whole run shares.
        frozen: The checked call, the only one that the tool function at the bottom may run; None inside an agent.
        charges: What the parts of a call have cost that is recorded as a whole, as a model's is; None in calls whose
            parts are recorded one by one.
        is_entered: Whether the checks and hooks of this call are passed, so that only the service itself is called.
        tries: The number of earlier tries of this same call.
    """

    path: str
    emit: Emit = SILENCE
    watch: Stopwatch | None = None
    scope: Scope = Scope()
    frozen: object = None
    charges: "Charges | None" = None
    _used: dict[str | int, Any] = {}  # in this entry: counts by name, states by id of owner
    is_entered: bool = False
    tries: int = 0

    def under(self, name: str) -> "Context":
        """Return the context of a child call named `name`; a repeated name is numbered: ``x``, ``x#2``, ``x#3``.

        Numbers follow the order of the calls to this method, so call it before starting tasks.
        """
        if not name.isidentifier():  # which needs no escapes, as nearly all names
            name = escaped(name)
        number = self._used[name] = self._used.get(name, 0) + 1
        path = f"{self.path}/{name}" if number == 1 else f"{self.path}/{name}#{number}"
        return Context(path, self.emit, self.watch, self.scope, self.frozen, self.charges)

    def at(self, name: str) -> "Context":
        """Return the context of a child call whose `name` is known to be unique here, such as ``step-3``."""
        return Context(f"{self.path}/{name}", self.emit, self.watch, self.scope, self.frozen, self.charges)

    def charging(self, charges: "Charges | None" = None) -> "Context":
        """Return a context for the parts of this call, which is recorded as a whole.

        `charges` collects what they cost; by default it is forgotten.
        """
        return replace(self, charges=charges or Charges())

    def again(self) -> "Context":
        """Return the context for another try of this same call: same path, numbering starts again."""
        return replace(self, _used={}, tries=self.tries + 1)

    async def drop(self, error: BaseException) -> "Context":
        """Give up a failed try of this call, and return the context for another one, as `again` does.

        What the try has cost counts, the budgets are asked for one more, and listeners get `Dropped`.

        Raises:
            LimitExceeded: no budget is left for another try, here or elsewhere.
        """
        self.lose(error)
        self.admit()
        if self.listens(Dropped):
            await self.emit(Dropped(self.path, errors.described(error)))
        return self.again()

    def within(self, key: Key[T], value: T) -> "Context":
        """Return a context whose scope has `value` under `key`, for this call and all calls below it."""
        return replace(self, scope=self.scope.with_value(key, value))

    def scoped(self, scope: Scope) -> "Context":
        """Return a context with another scope."""
        return replace(self, scope=scope)

    def freezing(self, frozen: object) -> "Context":
        """Return a context of this call whose tool function may run only the call `frozen`, as it was checked."""
        return replace(self, frozen=frozen)

    def heard_by(self, *listeners: Listener) -> "Context":
        """Return a context whose events also go to `listeners`."""
        return replace(self, emit=Listeners(self.emit, listeners)) if listeners else self

    def emitting(self, emit: Emit) -> "Context":
        """Return a context whose events go to `emit` instead."""
        return replace(self, emit=emit)

    def entered(self, scope: Scope) -> "Context":
        """Return a context marked as having passed the checks and hooks of this call, with `scope` for all below it."""
        return Context(self.path, self.emit, self.watch, scope, None, None, self._used, True)

    def limit(self, seconds: float) -> "Limit":
        """Limit the block ``async with ctx.limit(30) as ctx`` to `seconds`.

        Time in which calls in the block only wait for a person, or for a slow reader of events, does not count.

        Raises:
            Timeout: on leaving the block, if the limit passed and the work was cancelled.
        """
        return Limit(self, seconds)

    def timed(self, watch: Stopwatch | None = None) -> "Context":
        """Return a context of this call with a stopwatch of its own, `watch` or a new one."""
        if watch is None:
            watch = Stopwatch(self.clock, self.watch, self.emit)
        return replace(self, watch=watch)

    @contextmanager
    def branch(self) -> "Iterator[Context]":
        """Return a context for one of several calls that are made at the same time, within a ``with`` block.

        While it waits for a person, the time of the calls around it goes on if another of them works.
        """
        outer = self.watch or Stopwatch(self.clock)
        watch = outer.begin_branch()
        try:
            yield self.timed(watch)
        finally:
            outer.end_branch()

    @property
    def deadline(self) -> float | None:
        """When this call must stop, in seconds of the clock's `monotonic`; None for never.

        It moves while people are waited for.
        """
        return None if self.watch is None else self.watch.deadline

    def remaining(self) -> float | None:
        """Return the seconds left until the deadline, or None without one."""
        deadline = self.deadline
        return None if deadline is None else deadline - self.clock.monotonic()

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

        Outside of a run, and within a call that is recorded as a whole, it is only made.

        Args:
            name: The service's name, unique per application.
            request: The request; compared by its `fingerprint()` if it has one, else by a digest of its JSON.
            call: Makes the call.
            returns: The type of the response, used to decode it.
            composite: The call consists of other recorded calls, so only its outcome is recorded.
        """
        if self.charges is not None or (journal := self.scope.get(JOURNAL)) is None:
            return call(request, self)
        answer: Awaitable[R] = journal.once(self, name, request, call, returns, composite)
        return answer

    def note(self, name: str, value: R) -> Awaitable[R]:
        """Record a value here; return the recorded one if there is one already."""
        return self.once(name, value, _itself, returns=type(value))

    def charge(self, cost: object) -> None:
        """Add usage, or an error, inside a model call, or another that is recorded as a whole; else no effect."""
        if self.charges is not None:
            self.charges.charge(cost)

    def lose(self, cost: object) -> None:
        """End a try inside a model call that gives no answer to it, and add what it has cost, as `charge` does.

        An error that passes several layers ends its try once.
        """
        if self.charges is not None:
            self.charges.lose(cost)

    def admit(self) -> None:
        """Ask the budgets for another try inside a model call, beside those that have not ended; else no effect.

        Raises:
            LimitExceeded: no budget is left for another try.
        """
        if self.charges is not None:
            self.charges.admit()

    def is_answer(self, error: BaseException) -> bool:
        """Return whether an error came from the record: the pause and the budget of the retry after it were spent."""
        journal = self.scope.get(JOURNAL)
        return journal is not None and bool(journal.is_answer(error))

    @property
    def replayed(self) -> bool:
        """Whether this call is replayed from the record of its parts.

        Decisions that depended on load are not made again, so limiters and the like must neither wait nor refuse.
        """
        if self.charges is not None:
            return False
        journal = self.scope.get(JOURNAL)
        return journal is not None and bool(journal.replaying)

    def state(self, owner: object, factory: Callable[[], S]) -> S:
        """Return the state of `owner` for this call, made by `factory` on first use and discarded with the call."""
        known: tuple[object, S] | None = self._used.get(id(owner))
        if known is None:
            known = self._used[id(owner)] = (owner, factory())  # with the owner, so that its id is not reused
        return known[1]

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


class Charges:
    """What the parts of a call have cost that is recorded as a whole; this class forgets it."""

    __slots__ = ()

    def charge(self, cost: object, /) -> None: ...

    def lose(self, cost: object, /) -> None:
        """End a try, and add what it has cost; the error of one that has ended already costs nothing more."""

    def admit(self) -> None: ...


JOURNAL = Key[Any]("journal")  # the `LocalJournal` of the run, which core cannot name
RUN_ID = Key[str]("run id")  # the id of the run
METER = Key[Any]("agent call")  # the entry into an agent that is running, which counts what is used in it
BUDGETS = Key[tuple[Any, ...]]("admission")
"""What was spent of all budgets in effect, those of the outermost agent first."""
METERS = Key[tuple[Any, ...]]("meters")  # sums over many runs, such as those of metrics

AMBIENT: ContextVar[Context | None] = ContextVar("ziggurat", default=None)
"""The context of the user function that is running; read only by an agent's `run`, `stream` and `run_sync`."""


def count(
    ctx: Context, name: str, spent: tuple[object, ...] | list[object], *, new: bool = True, admitted: bool = False
) -> None:
    """Add what a call has used to the sum of the run and, unless it is on record already, to all others in effect."""
    meter = ctx.scope.get(METER)
    meters: tuple[Any, ...] = () if meter is None else (meter,)
    if new:
        meters += ctx.scope.get(METERS) or ()
        meters += () if admitted else ctx.scope.get(BUDGETS) or ()
    for each in meters:
        for usage in spent:
            each.add(usage, name)


def root(name: str = "run", scope: Scope | None = None, emit: Emit = SILENCE) -> Context:
    """Return a first context, for tests and for services that are called outside of a run.

    ::

        ctx = root().within(CLOCK, clock)
        await tool(tool_call("weather", city="Paris"), ctx)

    Args:
        name: The first part of the path.
        scope: What the calls below share; `Context.within` adds a value.
        emit: Gets the events; by default nobody does.
    """
    return Context(escaped(name), emit, None, scope or Scope())


class running:  # noqa: N801 - used like a function
    """A block that runs the user's code at a context: an agent that the code calls becomes a part of that run."""

    __slots__ = ("_ctx", "_token")

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    def __enter__(self) -> Context:
        self._token = AMBIENT.set(self._ctx)
        return self._ctx

    def __exit__(self, *error: object) -> None:
        AMBIENT.reset(self._token)


class Limit:
    __slots__ = ("_alarm", "_ctx", "_interruption", "seconds")

    def __init__(self, ctx: Context, seconds: float) -> None:
        self._ctx = ctx
        self.seconds: float = seconds

    async def __aenter__(self) -> Context:
        self._interruption = Interruption()
        ctx = self._ctx.timed()
        assert ctx.watch is not None
        self._alarm = ctx.watch.limit(self.seconds, self._interruption.interrupt)
        return ctx

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._alarm.cancel()
        if self._interruption.end() and kind is asyncio.CancelledError:
            late = errors.Timeout(f"{self._ctx.path} timed out after {self.seconds:g} s", seconds=self.seconds)
            late._limited = self._ctx.path
            raise late from error


CLOCK = Key[Clock]("clock")
"""The key of the clock in a scope: ``root().within(CLOCK, HandClock())``. Runs get theirs from `Environment`."""


IDS = Key[Callable[[], str]]("ids")  # generates the ids of a run


RANDOM = Key[Callable[[], float]]("random")  # returns a random number from [0, 1), for jitter and the like


async def _itself(value: R, ctx: Context) -> R:
    return value
