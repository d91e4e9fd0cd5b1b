"""Rate limit: bounds requests and tokens in any period of time."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from math import inf
from threading import RLock
from typing import Annotated, Any, TypeVar

from ziggurat.core.clock import Clock
from ziggurat.core.containment import ring
from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError, LimitExceeded, fact_of
from ziggurat.core.event import Queued
from ziggurat.core.failures import call_given
from ziggurat.core.layer import layer
from ziggurat.core.service import Service
from ziggurat.core.settings import (
    SHARED,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Seconds,
    SecondsOrForever,
    checked,
)

Q = TypeVar("Q")
R = TypeVar("R")

_LEAST = 1e-9  # tolerance for the rounding error of a sum


class _Permit:
    """The share of a limiter that one call has taken: one request and its weight, at a time."""

    __slots__ = ("at", "counts", "requests", "weight")

    def __init__(self, at: float, requests: int, weight: float) -> None:
        self.at: float = at
        self.requests: int = requests
        self.weight: float = weight
        self.counts: bool = True  # until its period is over


class _Waiter:
    """A call that waits for its turn; its bell rings when it should look again whether it has it."""

    __slots__ = ("bell", "latest", "permit", "refusal", "weight")

    def __init__(self, weight: float, latest: float) -> None:
        self.bell: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.weight = weight
        self.latest = latest
        self.permit: _Permit | None = None
        self.refusal: LimitExceeded | None = None

    def ring(self) -> None:
        ring(self.bell)


class RateLimiter:
    """A number of requests, and a total weight, in any period of `seconds` (a sliding window).

    The weight of a call is any other limited amount, such as tokens: an estimate is taken before the call, and
    corrected by the actual weight after it. An overestimate is given back at once; what was missing counts from then
    on.

    Make one and pass it to all layers that share the allowance, in any thread or event loop::

        limiter = RateLimiter(requests=500, weight=200_000, seconds=60)

    Args:
        requests: Calls in any period; None for no limit.
        weight: Weight in any period; None for no limit.
        seconds: The length of the period.
        max_wait: The longest wait for a turn, in seconds; a call that would wait longer is refused at once.
        queue: The number of calls that may wait; further ones are refused at once.

    Raises:
        ConfigurationError: a setting has a wrong value, or nothing is limited.
    """

    @checked
    def __init__(
        self,
        *,
        requests: PositiveInt | None = None,
        weight: PositiveFloat | None = None,
        seconds: Seconds = 60.0,
        max_wait: SecondsOrForever = 60.0,
        queue: NonNegativeInt = 1_000,
    ) -> None:
        if requests is None and weight is None:
            raise ConfigurationError("RateLimiter() limits nothing: give requests=..., weight=... or both")
        self.requests = requests
        self.weight = weight
        self.seconds = seconds
        self.max_wait = max_wait
        self.queue = queue
        self._log: deque[_Permit] = deque()  # what counts at present, in chronological order
        self._requests = 0
        self._weight = 0.0
        self._closed_until = -inf
        self._waiting: deque[_Waiter] = deque()
        self._lock = RLock()  # reentrant: a collected coroutine may leave the queue at any point

    @property
    def waiting(self) -> int:
        """The number of calls that wait for their turn."""
        return len(self._waiting)

    def is_full(self) -> bool:
        """Return whether calls wait for their turn, so that a new call would have to wait too."""
        return bool(self._waiting)

    def due(self, weight: float, now: float) -> float:
        """Return when one more call would have its turn, in seconds of `monotonic`, as known at present."""
        with self._lock:
            *_, (_, due) = self._due_times(now, (*self._waiting, _Waiter(weight, inf)))
            return due

    def take(self, weight: float, now: float) -> _Permit | None:
        """Take one request and its weight if there is room and no call waits; else return None."""
        with self._lock:
            self._remove_expired(now)
            if self._waiting or now < self._closed_until or not self._fits(self._requests, self._weight, weight):
                return None
            return self._add(now, 1, weight)

    async def wait(self, weight: float, clock: Clock, deadline: float | None = None) -> _Permit:
        """Wait for a turn, first come, first served, then take; a caller cancelled while it waits takes nothing.

        Raises:
            LimitExceeded: the turn would come too late, the queue is full, or the weight is more than a period has.
        """
        if self.weight is not None and weight > self.weight:
            raise LimitExceeded("rate", self.weight, weight, f"a call of weight {weight:g} never fits into {self!r}")
        now = clock.monotonic()
        latest = now + self.max_wait
        waiter = _Waiter(weight, latest if deadline is None else min(latest, deadline))
        with self._lock:
            due = self.due(weight, now)
            if due > waiter.latest or len(self._waiting) >= self.queue:
                raise self._refusal(due - now)
            self._waiting.append(waiter)
        try:
            while True:
                timer = clock.call_at(due, partial(self._pump, clock, waiter))
                try:
                    await waiter.bell
                finally:
                    timer.cancel()
                with self._lock:
                    if waiter.refusal is not None:
                        raise waiter.refusal
                    if waiter.permit is not None:
                        return waiter.permit
                    dues = self._due_times(clock.monotonic(), tuple(self._waiting))
                    due = next(due for each, due in dues if each is waiter)
                    waiter.bell = asyncio.get_running_loop().create_future()
        except BaseException:
            with self._lock:
                if waiter.permit is not None:
                    self.give_back(waiter.permit, clock)  # the turn came together with the cancellation
                elif waiter in self._waiting:
                    self._waiting.remove(waiter)
                    self._pump(clock)
            raise

    def settle(self, permit: _Permit, weight: float, clock: Clock) -> None:
        """Replace the weight that was taken by the actual weight."""
        with self._lock:
            more = weight - permit.weight
            if more > 0:
                self._add(clock.monotonic(), 0, more)
            elif more < 0 and permit.counts:
                permit.weight += more
                self._weight += more
            if more and self._waiting:
                self._pump(clock)

    def give_back(self, permit: _Permit, clock: Clock) -> None:
        """Give everything back: the call was not made."""
        with self._lock:
            if permit.counts:
                self._requests -= permit.requests
                self._weight -= permit.weight
                permit.requests, permit.weight = 0, 0.0
            self._pump(clock)

    def pause(self, seconds: float, clock: Clock) -> None:
        """Let no call pass for `seconds`, at most `max_wait`; never shortens an earlier pause."""
        with self._lock:
            self._closed_until = max(self._closed_until, clock.monotonic() + min(seconds, self.max_wait))
            self._pump(clock)

    def _fits(self, requests: int, total: float, weight: float) -> bool:
        return (self.requests is None or requests < self.requests) and (
            self.weight is None or total + weight <= self.weight + _LEAST
        )

    def _add(self, now: float, requests: int, weight: float) -> _Permit:
        permit = _Permit(now, requests, weight)
        self._log.append(permit)
        self._requests += requests
        self._weight += weight
        return permit

    def _remove_expired(self, now: float) -> None:
        log = self._log
        while log and log[0].at + self.seconds <= now:
            permit = log.popleft()
            permit.counts = False
            self._requests -= permit.requests
            self._weight -= permit.weight
        if not log:
            self._weight = 0.0  # what rounding has left

    def _pump(self, clock: Clock, timed: _Waiter | None = None) -> None:
        """Let calls pass whose turn has come, refuse those whose turn would be too late, and wake the next in turn."""
        with self._lock:
            self._let_pass(clock.monotonic())
            if timed is not None:
                timed.ring()

    def _let_pass(self, now: float) -> None:
        self._remove_expired(now)
        waiting = self._waiting
        while waiting and now >= self._closed_until:
            waiter = waiting[0]
            if not waiter.bell.get_loop().is_closed():  # else it never continues
                if not self._fits(self._requests, self._weight, waiter.weight):
                    break
                waiter.permit = self._add(now, 1, waiter.weight)
                waiter.ring()
            waiting.popleft()
        if waiting:
            self._refuse_late(now)
        if waiting:
            waiting[0].ring()  # its turn may come at another time than it knows

    def _refuse_late(self, now: float) -> None:
        late = [(waiter, due) for waiter, due in self._due_times(now, tuple(self._waiting)) if due > waiter.latest]
        for waiter, due in late:
            self._waiting.remove(waiter)
            waiter.refusal = self._refusal(due - now)
            waiter.ring()

    def _due_times(self, now: float, waiters: Iterable[_Waiter]) -> Iterator[tuple[_Waiter, float]]:
        """Yield when each waiter will have its turn; those too late are not counted for the waiters after them."""
        planned = [(permit.at, permit.requests, permit.weight) for permit in self._log]
        requests, total, oldest, due = self._requests, self._weight, 0, max(now, self._closed_until)
        for waiter in waiters:
            at = due
            first, count, weight = oldest, requests, total
            while first < len(planned) and not self._fits(count, weight, waiter.weight):
                since, requests_then, weight_then = planned[first]
                at = max(at, since + self.seconds)
                first, count, weight = first + 1, count - requests_then, weight - weight_then
            yield waiter, at
            if at <= waiter.latest:
                planned.append((at, 1, waiter.weight))
                oldest, requests, total, due = first, count + 1, weight + waiter.weight, at

    def _refusal(self, seconds: float) -> LimitExceeded:
        used = self._weight if self.requests is None else self._requests
        text = f"{self!r} has no room for {seconds:.3g} s, and {len(self._waiting)} calls wait: try again then"
        return LimitExceeded(
            "rate", self.requests or self.weight or 0, used, text, transient=True, retry_after=max(seconds, 0.0)
        )

    def __repr__(self) -> str:
        limits = [f"{name}={value:g}" for name in ("requests", "weight") if (value := getattr(self, name)) is not None]
        return f"RateLimiter({', '.join(limits)}, seconds={self.seconds:g})"


def _check(
    *,
    limiter: RateLimiter,
    estimate: Callable[[Any], float] | None,
    measure: Callable[[Any], float | None] | None,
) -> None:
    if limiter.weight is not None and estimate is None:
        raise ConfigurationError(f"{limiter!r} limits weight: give rate_limit(estimate=...), a function of the request")


@layer(check=_check)
async def rate_limit(
    request: Q,
    ctx: Context,
    inner: Service[Q, R],
    *,
    limiter: Annotated[RateLimiter, SHARED],
    estimate: Callable[[Any], float] | None = None,
    measure: Callable[[Any], float | None] | None = None,
) -> R:
    """Limit the calls in any period; others wait for their turn, or are refused at once if it would come too late.

    Make it the innermost layer, so that only calls that are really made count::

        limiter = RateLimiter(requests=500, weight=200_000, seconds=60)
        stack(model, retry(), rate_limit(limiter=limiter, estimate=expected_tokens, measure=used_tokens))

    If an error of the service says `retry_after`, no call passes for that time.

    Args:
        limiter: The counter; share one between all layers that use the same allowance.
        estimate: Returns the expected weight of a request; needed if weight is limited.
        measure: Returns the real weight from the response or the error; None keeps the estimate.

    Raises:
        LimitExceeded: no turn comes in time; it is transient and says in `retry_after` when one would. Or the request
            is heavier than a whole period allows: then it is not transient. Nothing was called.
        ConfigurationError: a setting has a wrong value.
    """
    if ctx.replayed:
        return await inner(request, ctx)
    clock = ctx.clock
    weight = 0.0 if estimate is None else _weight("estimate", call_given(estimate, ctx, request))
    now = clock.monotonic()
    permit = limiter.take(weight, now)
    if permit is None:
        if ctx.listens(Queued):
            due = limiter.due(weight, now) - now
            await ctx.emit(Queued(ctx.path, "rate", limiter.waiting, due))
        permit = await limiter.wait(weight, clock, ctx.deadline)
    try:
        response = await inner(request, ctx)
    except Exception as error:
        _settle(limiter, permit, measure, error, ctx)
        retry_after = fact_of(error, "retry_after", float)
        if retry_after is not None and retry_after > 0 and not isinstance(error, LimitExceeded):
            limiter.pause(retry_after, clock)
        raise
    _settle(limiter, permit, measure, response, ctx)
    return response


def _settle(
    limiter: RateLimiter, permit: _Permit, measure: Callable[[Any], float | None] | None, outcome: object, ctx: Context
) -> None:
    weight = None if measure is None else call_given(measure, ctx, outcome)
    if weight is not None:
        limiter.settle(permit, _weight("measure", weight), ctx.clock)


def _weight(setting: str, value: float) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < inf:
        raise ConfigurationError(
            f"the function of rate_limit({setting}=...) returns a number of at least 0, got {value!r:.200}"
        )
    return value
