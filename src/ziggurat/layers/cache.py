"""Cache and dedupe: reuse the answers to equal requests, those that are stored and those of calls in progress."""

import asyncio
from collections.abc import Callable, Iterator, MutableMapping
from hashlib import sha256
from threading import RLock
from typing import Any, Literal, TypeVar

from msgspec import Struct

from ziggurat.core.clock import Holding, Stopwatch, held
from ziggurat.core.codec import canonical
from ziggurat.core.context import Context, Key
from ziggurat.core.errors import ConfigurationError, attach
from ziggurat.core.event import CacheHit, Joined
from ziggurat.core.failures import call_given
from ziggurat.core.path import REUSED
from ziggurat.core.service import COMPOSITE, Service, fact, layer, name_of
from ziggurat.core.settings import PositiveInt, Seconds, checked

Q = TypeVar("Q")
R = TypeVar("R")


def _identity(request: Any) -> str:
    """Return what identifies a request: its own `identity()` or `fingerprint()`, else a hash of its canonical JSON."""
    if hasattr(type(request), "identity"):
        return sha256(request.identity()).hexdigest()
    if hasattr(type(request), "fingerprint"):
        return str(request.fingerprint())
    return sha256(canonical(request)).hexdigest()


def is_reusable(answer: Any) -> bool:
    """Return whether others may get an answer, too: its own `is_reusable`, if it has one, says whether it is whole."""
    return bool(answer.is_reusable) if hasattr(type(answer), "is_reusable") else True


def recalled(answer: Any) -> Any:
    """Return an answer prepared for reuse: that of its own `recalled()`, which has cost nothing, if it has one."""
    return answer.recalled() if hasattr(type(answer), "recalled") else answer


def key_of(layer: str, service: object, request: object, key: Callable[[Any], str] | None, ctx: Context) -> str:
    """Return the key under which a layer stores the answer to a request: by default service name and identity."""
    if key is not None:
        name: object = call_given(key, ctx, request)
        if not isinstance(name, str):
            raise ConfigurationError(f"the function of {layer}(key=...) returns text, got {name!r:.200}")
        return name
    try:
        return f"{name_of(service)}:{_identity(request)}"
    except TypeError as error:
        raise ConfigurationError(
            f"{layer}() cannot tell requests apart: {error}; give {layer}(key=...), a function of the request"
        ) from error


async def note_reuse(ctx: Context, service: object) -> None:
    """Record that an agent got the answer of another call, so that a replay looks for no calls."""
    if fact(service, COMPOSITE):
        await ctx.at(REUSED).once(REUSED, None, _noted, returns=bool)


async def _noted(_: None, ctx: Context) -> bool:
    return True


CachePolicy = Literal["use", "refresh", "bypass"]
"""`use`: answer from the store, and store new answers; `refresh`: always call, and store; `bypass`: do neither."""

CACHE_POLICY = Key[CachePolicy]("cache policy")
"""The key of the policy of every cache below: ``run(deps={CACHE_POLICY: "refresh"})``.

``"use"`` is the default; ``"refresh"`` makes the call and stores its answer, ``"bypass"`` leaves the cache out.
"""


class Cached(Struct, frozen=True):
    """A cached answer, and the time until which it is valid, in POSIX seconds; None for no limit."""

    value: Any
    until: float | None = None


class CacheStore(MutableMapping[str, Cached]):
    """A mapping in memory of at most `size` answers; beyond it the least recently used one is dropped."""

    @checked
    def __init__(self, size: PositiveInt = 1024) -> None:
        self.size = size
        self._kept: dict[str, Cached] = {}  # in order of use, the most recent last
        self._lock = RLock()

    def __getitem__(self, key: str) -> Cached:
        with self._lock:
            cached = self._kept.pop(key)
            self._kept[key] = cached
            return cached

    def __setitem__(self, key: str, cached: Cached) -> None:
        with self._lock:
            self._kept.pop(key, None)
            self._kept[key] = cached
            if len(self._kept) > self.size:
                del self._kept[next(iter(self._kept))]

    def __delitem__(self, key: str) -> None:
        with self._lock:
            del self._kept[key]

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._kept))  # reading changes the order of use

    def __len__(self) -> int:
        return len(self._kept)

    def __repr__(self) -> str:
        return f"CacheStore({self.size})"


@layer
async def cache(
    request: Q,
    ctx: Context,
    inner: Service[Q, R],
    *,
    store: MutableMapping[str, Cached],
    key: Callable[[Any], str] | None = None,
    seconds: Seconds | None = None,
) -> R:
    """Answer an equal request from a cache.

    ::

        stack(model, cache(store=CacheStore(1_000), seconds=3_600))

    Failures are never cached, nor are replies that were cut or refused, error results of tools, and runs that did not
    complete. A cached answer has no usage. `CACHE_POLICY` overrides this for a run or a call. Equal requests at the
    same time are all sent; put `dedupe` inside to send one. Do not put it around anything with side effects.

    Args:
        store: The store of answers; may be shared.
        key: Returns the key of a request; by default the service's name and a SHA-256 of the whole request, for a model
            with conversation, instructions, tools, settings and schema.
        seconds: How long an answer is valid; None for as long as the store keeps it.

    Raises:
        ConfigurationError: a request has no JSON form and no `key` is given.
    """
    policy = ctx.scope.get(CACHE_POLICY) or "use"
    if policy not in ("use", "refresh", "bypass"):
        raise ConfigurationError(f"CACHE_POLICY is 'use', 'refresh' or 'bypass', got {policy!r}")
    if policy == "bypass" or ctx.replayed:
        return await inner(request, ctx)
    name = key_of("cache", inner, request, key, ctx)
    cached = store.get(name) if policy == "use" else None
    if cached is not None and (cached.until is None or ctx.clock.now() < cached.until):
        if ctx.listens(CacheHit):
            await ctx.emit(CacheHit(ctx.path, name))
        await note_reuse(ctx, inner)
        return cached.value  # type: ignore[no-any-return]
    value = await inner(request, ctx)
    if is_reusable(value):
        store[name] = Cached(recalled(value), None if seconds is None else ctx.clock.now() + seconds)
    return value


_Outcome = tuple[Any, Exception | None]  # the answer of a call, or its error


class _Flight(Struct, eq=False):
    """A call in progress; `over` resolves to its outcome, or to None if its caller was cancelled."""

    until: float
    watch: Stopwatch
    over: "asyncio.Future[_Outcome | None]"
    followers: list[tuple[object, ...]] = []


class DedupeStore:
    """The calls in progress that callers of `dedupe` may join, in this process, for some seconds from their start."""

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

    def _end(self, key: str, flight: _Flight, outcome: _Outcome | None) -> None:
        if self._flights.get(key) is flight:  # not a newer one, begun after this one expired
            del self._flights[key]
        if not flight.over.done() and not flight.over.get_loop().is_closed():
            flight.over.set_result(outcome)


@layer
async def dedupe(
    request: Q, ctx: Context, inner: Service[Q, R], *, store: DedupeStore, key: Callable[[Any], str] | None = None
) -> R:
    """Make one call for all equal requests that arrive while it is in progress.

    Inside of a `cache`, one equal to a recently answered request gets that answer, too::

        stack(search, cache(store=CacheStore(), seconds=30), dedupe(store=DedupeStore()))

    If the caller that makes the call is cancelled, reaches its own deadline, is suspended or gets an answer that
    `cache` would not store, one of those waiting makes it instead. A failure is raised for all that wait. A call that
    would wait for itself, directly or over others, is made instead, and each event loop makes its own calls.

    Args:
        store: The calls in progress; share one between all layers that may share calls.
        key: Returns the key of a request; as for `cache`.
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
            value, failure = outcome
            if failure is not None:
                raise _copy_error(failure)
            return value  # type: ignore[no-any-return]
    outcome = None
    watch, over = Stopwatch(clock, ctx.watch, ctx.emit), asyncio.get_running_loop().create_future()
    flight = store._flights[name] = _Flight(clock.monotonic() + store.seconds, watch, over)
    try:
        with Holding(flight):
            value = await inner(request, ctx.timed(flight.watch))
        if is_reusable(value):
            outcome = recalled(value), None
        return value
    except Exception as error:
        left = ctx.remaining()
        if left is None or left > 0:  # else this caller's deadline passed, which need not concern the others
            outcome = None, error
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
