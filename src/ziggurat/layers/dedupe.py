"""Dedupe: makes one call for several equal requests at the same time."""

import asyncio
from collections.abc import Callable
from threading import RLock
from typing import Any, Generic, TypeVar

from ziggurat.core.clock import Holding, Stopwatch, held
from ziggurat.core.context import Context
from ziggurat.core.errors import attach
from ziggurat.core.event import Joined
from ziggurat.core.service import Service, layer
from ziggurat.core.settings import Seconds, checked
from ziggurat.layers.cache import is_reusable, key_of, note_reuse, recalled

Q = TypeVar("Q")
R = TypeVar("R")


class _Outcome(Generic[R]):
    __slots__ = ("error", "value")

    def __init__(self, value: R | None, error: Exception | None = None) -> None:
        self.value = value
        self.error = error

    def result(self) -> R:
        if self.error is not None:
            raise _copy_error(self.error)
        return self.value  # type: ignore[return-value]


class _Flight:
    """A call in progress; `over` resolves to its outcome, or to None if its caller was cancelled."""

    __slots__ = ("followers", "over", "until", "watch")

    def __init__(self, ctx: Context, until: float) -> None:
        self.until = until
        self.watch = Stopwatch(ctx.clock, ctx.watch, ctx.emit)
        self.followers: list[tuple[object, ...]] = []
        self.over: asyncio.Future[_Outcome[Any] | None] = asyncio.get_running_loop().create_future()


class DedupeStore:
    """The calls in progress.

    Args:
        seconds: How long a call in progress can be joined.
    """

    @checked
    def __init__(self, *, seconds: Seconds = 60.0) -> None:
        self.seconds = seconds
        self._flights: dict[str, _Flight] = {}
        self._lock = RLock()

    @property
    def in_progress(self) -> int:
        """The number of calls in progress."""
        return len(self._flights)

    def __repr__(self) -> str:
        return f"DedupeStore(seconds={self.seconds:g})"

    def _may_join(self, flight: _Flight, above: tuple[object, ...]) -> bool:
        """Return False for another event loop, and for a call that would wait for itself."""
        # It would if it is inside the call in progress, or inside one that this waits for, whatever calls are between.
        if flight.over.get_loop() is not asyncio.get_running_loop():
            return False
        with self._lock:
            waited_for = [each for each in self._flights.values() if each.followers]
        reached, left = {flight}, [flight]
        while left:
            reason = left.pop()
            if reason in above:
                return False
            more = {each for each in waited_for if any(reason in around for around in each.followers)} - reached
            reached |= more
            left += more
        return True

    def _end(self, key: str, flight: _Flight, outcome: _Outcome[Any] | None) -> None:
        if self._flights.get(key) is flight:  # not a newer one, begun after this one expired
            del self._flights[key]
        if not flight.over.done() and not flight.over.get_loop().is_closed():
            flight.over.set_result(outcome)


@layer
async def dedupe(
    request: Q, ctx: Context, inner: Service[Q, R], *, store: DedupeStore, key: Callable[[Any], str] | None = None
) -> R:
    """Make one call for all equal requests that arrive while it is in progress.

    A new request is sent; a request equal to one in progress waits for that answer, at no cost. Inside of a `cache`,
    one equal to a recently answered request gets that answer, too::

        stack(search, cache(store=CacheStore(), seconds=30), dedupe(store=DedupeStore()))

    A waiting caller may be cancelled; the call continues for the others. If the caller that makes the call is
    cancelled, reaches its own deadline, is suspended or gets an answer that `cache` would not store, one of those
    waiting makes it instead. A failure is raised for all that wait. A call that would wait for itself, directly or over
    others, is made instead, and each event loop makes its own calls.

    Args:
        store: The calls in progress; share one between all layers that may share calls.
        key: Returns the key of a request; as for `cache`.

    Raises:
        ConfigurationError: a setting has a wrong value, or a request has no JSON form and no `key` is given.
    """
    if ctx.replayed:
        return await inner(request, ctx)
    name = key_of("dedupe", inner, request, key, ctx)
    clock = ctx.clock
    while True:
        flight = store._flights.get(name)
        if flight is None or clock.monotonic() >= flight.until or not store._may_join(flight, around := held()):
            break
        flight.followers.append(around)
        try:
            if ctx.listens(Joined):
                await ctx.emit(Joined(ctx.path, name))
            with flight.watch.followed_by(ctx.watch or Stopwatch(clock)):
                outcome = await asyncio.shield(flight.over)
        finally:
            flight.followers.remove(around)
        if outcome is not None:
            await note_reuse(ctx, inner)
            return outcome.result()  # type: ignore[no-any-return]
    return await _ask(request, ctx, inner, store, name)


async def _ask(request: Q, ctx: Context, inner: Service[Q, R], store: DedupeStore, name: str) -> R:
    outcome: _Outcome[R] | None = None
    flight = store._flights[name] = _Flight(ctx, ctx.clock.monotonic() + store.seconds)
    try:
        with Holding(flight):
            value = await inner(request, ctx.timed(flight.watch))
        if is_reusable(value):
            outcome = _Outcome(recalled(value))
        return value
    except Exception as error:
        left = ctx.remaining()
        if left is None or left > 0:  # else this caller's deadline passed, which need not concern the others
            outcome = _Outcome(None, error)
        raise
    finally:
        store._end(name, flight, outcome)


def _copy_error(error: Exception) -> Exception:
    """Return a copy of an error for another caller, with the original as cause; it has cost that caller nothing."""
    twin = type(error).__new__(type(error), *error.args)
    twin.args = error.args
    vars(twin).update((name, value) for name, value in vars(error).items() if name != "usage" and name[0] != "_")
    twin.__cause__ = error
    attach(twin, "sent", False)
    return twin
