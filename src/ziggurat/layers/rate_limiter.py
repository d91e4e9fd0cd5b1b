"""Rate limit: bounds the requests and tokens of a period, also for several processes; calls wait for their turn."""

import asyncio
import itertools
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from threading import RLock
from typing import Annotated, Any, Protocol, TypeVar, TypeVarTuple

from msgspec import Struct

from ziggurat.core import errors
from ziggurat.core.clock import Clock
from ziggurat.core.context import Context
from ziggurat.core.event import Queued
from ziggurat.core.failures import call_given
from ziggurat.core.service import Service, layer
from ziggurat.core.settings import (
    SHARED,
    NonEmptyText,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Seconds,
    SecondsOrForever,
    checked,
)
from ziggurat.core.tasks import ring

T = TypeVar("T")
Q = TypeVar("Q")
R = TypeVar("R")
A = TypeVarTuple("A")

_LEAST = 1e-9  # tolerance for the rounding error of a sum
_SLICES = 100


class RateWindow(Struct):
    """The calls of all processes in the last period: data that a backend stores; each method is one atomic step."""

    slices: list[tuple[int, int, float]] = []  # (slice of time, requests, weight), the oldest first
    closed_until: float = 0.0

    def take(self, limits: "RateLimiter", weight: float, now: float) -> tuple[int, float]:
        """Take one request and its weight; return the slice and 0, or the seconds until there is room."""
        grain = limits.seconds / _SLICES
        self.slices = [each for each in self.slices if each[0] * grain + limits.seconds > now]
        requests = sum(count for _, count, _ in self.slices)
        total = sum(amount for _, _, amount in self.slices)
        at = max(now, self.closed_until)
        for number, calls, amount in self.slices:
            if limits.fits(requests, total, weight):
                break
            at = max(at, number * grain + limits.seconds)
            requests, total = requests - calls, total - amount
        return (self.add(limits, 1, weight, now), 0.0) if at <= now else (0, at - now)

    def add(self, limits: "RateLimiter", requests: int, weight: float, now: float) -> int:
        """Take without regard to the limits; return the slice."""
        number = math.ceil(now * _SLICES / limits.seconds)  # it counts until the last of its calls is a period old
        if self.slices and self.slices[-1][0] >= number:
            number, count, amount = self.slices.pop()
            requests, weight = count + requests, amount + weight
        self.slices.append((number, requests, weight))
        return number

    def give_back(self, slice_number: int, requests: int, weight: float) -> None:
        self.slices = [
            (number, count - requests, amount - weight) if number == slice_number else (number, count, amount)
            for number, count, amount in self.slices
        ]

    def close(self, until: float) -> None:
        self.closed_until = max(self.closed_until, until)


class RateBackend(Protocol):
    """The protocol of backends that store windows by name, shared between processes."""

    def time(self, clock: Clock) -> float:
        """Return the time in seconds, the same for all that share the windows."""
        ...

    @property
    def lets_all_pass(self) -> bool:
        """Whether nothing is limited at present, because the backend is away and that is its setting."""
        ...

    async def update_window(self, name: str, change: Callable[[RateWindow, *A], T], /, *args: *A) -> T:
        """Apply `change` atomically to the window called `name`, which is created on first use."""
        ...


class Permit(Struct, eq=False):
    at: float
    requests: int
    weight: float
    slice: int = 0  # in the window that processes share
    counts: bool = True  # until its period is over


class _Waiter(Struct, eq=False):
    """A call that waits for its turn; its bell rings when it should look again whether it has it."""

    bell: "asyncio.Future[None]"
    weight: float
    latest: float
    arrival: tuple[float, int] = (math.inf, 0)
    permit: Permit | None = None
    refusal: errors.LimitExceeded | None = None


def _bell() -> "asyncio.Future[None]":
    return asyncio.get_running_loop().create_future()


class RateLimiter:
    """A number of requests, and a total weight, in any period of `seconds` (a sliding window).

    The weight of a call is any other limited amount, such as tokens: an estimate is taken before the call, and
    corrected after it; what was missing counts from then on.

    Make one and pass it to all layers that share the allowance, in any thread or event loop::

        limiter = RateLimiter(requests=500, weight=200_000, seconds=60)

    With a `backend`, all processes whose limiters have the same name share one allowance, counted in hundredths of a
    period. In each of them calls wait in their order; between processes there is no order.

    Args:
        requests: Calls in any period; None for no limit.
        weight: Weight in any period; None for no limit.
        seconds: The length of the period.
        max_wait: The longest wait for a turn, in seconds; a call that would wait longer is refused at once.
        queue: The number of calls that may wait; further ones are refused at once.
        name: Its name in the backend.
        backend: The window that processes share, such as `fleet.RedisBackend`; by default each has its own.
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
        name: NonEmptyText = "rate",
        backend: RateBackend | None = None,
    ) -> None:
        if requests is None and weight is None:
            raise errors.ConfigurationError("RateLimiter() limits nothing: give requests=..., weight=... or both")
        self.name = name
        self.backend = backend
        self.requests = requests
        self.weight = weight
        self.seconds = seconds
        self.max_wait = max_wait
        self.queue = queue
        self._arrivals = itertools.count()
        self._log: deque[Permit] = deque()  # what counts at present, in chronological order
        self._requests = 0
        self._weight = 0.0
        self._closed_until = -math.inf
        self._waiting: deque[_Waiter] = deque()
        self._lock = RLock()  # reentrant: a collected coroutine may leave the queue at any point

    def fits(self, requests: int, total: float, weight: float) -> bool:
        """Return whether one more request of a weight fits beside others in a period."""
        return (self.requests is None or requests < self.requests) and (
            self.weight is None or total + weight <= self.weight + _LEAST
        )

    @property
    def waiting(self) -> int:
        """The number of calls that wait for their turn."""
        return len(self._waiting)

    async def take(self, weight: float, ctx: Context) -> Permit:
        """Take one request and its weight, for all processes that share the window, when there is room for it."""
        clock = ctx.clock
        arrival = clock.monotonic(), next(self._arrivals)  # calls wait in this order
        permit = self._take_now(weight, arrival[0])
        while True:
            if permit is None:
                if ctx.listens(Queued):
                    await ctx.emit(Queued(ctx.path, "rate", self.waiting, self._seconds_until(weight, clock)))
                permit = await self._wait(weight, clock, ctx.deadline, arrival)
            seconds = 0.0 if self.backend is None else await self._take_shared(self.backend, permit, weight, clock)
            if not seconds:
                return permit
            with self._lock:
                if seconds < math.inf:
                    self._closed_until = max(self._closed_until, clock.monotonic() + seconds)
                self._give_back(permit, clock)
            if seconds == math.inf:
                raise errors.LimitExceeded("rate", 0, 0, f"{self!r} is not known: its backend is away", transient=True)
            permit = None

    def _seconds_until(self, weight: float, clock: Clock) -> float:
        with self._lock:
            now = clock.monotonic()
            *_, (_, due) = self._due_times(now, (*self._waiting, _Waiter(_bell(), weight, math.inf)))
            return due - now

    def _take_now(self, weight: float, now: float) -> Permit | None:
        with self._lock:
            self._remove_expired(now)
            if (
                self._waiting or now < self._closed_until or not self.fits(self._requests, self._weight, weight)
            ) and not (self.backend is not None and self.backend.lets_all_pass):
                return None
            return self._add(now, 1, weight)

    async def _wait(self, weight: float, clock: Clock, deadline: float | None, arrival: tuple[float, int]) -> Permit:
        """Wait for a turn, first come, first served, then take; a caller cancelled while it waits takes nothing."""
        if self.weight is not None and weight > self.weight:
            text = f"a call of weight {weight:g} never fits into {self!r}"
            raise errors.LimitExceeded("rate", self.weight, weight, text)
        now = clock.monotonic()
        latest = arrival[0] + self.max_wait
        waiter = _Waiter(_bell(), weight, latest if deadline is None else min(latest, deadline), arrival)
        with self._lock:
            place = len(self._waiting)
            while place and self._waiting[place - 1].arrival > arrival:
                place -= 1
            *_, (_, due) = self._due_times(now, (*itertools.islice(self._waiting, place), waiter))
            if due > waiter.latest or len(self._waiting) >= self.queue:
                raise self._refusal(due - now)
            self._waiting.insert(place, waiter)
        try:
            while True:
                timer = clock.call_at(due, lambda: self._pump(clock, waiter))
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
                    waiter.bell = _bell()
        except BaseException:
            with self._lock:
                if waiter.permit is not None:
                    self._give_back(waiter.permit, clock)  # the turn came together with the cancellation
                elif waiter in self._waiting:
                    self._waiting.remove(waiter)
                    self._pump(clock)
            raise

    async def settle(self, permit: Permit, weight: float | None, clock: Clock, *, pause: float = 0.0) -> None:
        """Replace the weight that was taken by the actual one, if known; let no call pass for `pause` seconds."""
        with self._lock:
            more = 0.0 if weight is None else weight - permit.weight
            if more > 0:
                self._add(clock.monotonic(), 0, more)
            elif more < 0 and permit.counts:
                permit.weight += more
                self._weight += more
            if more and self._waiting:
                self._pump(clock)
        if pause > 0:
            self.pause(pause, clock)
        if self.backend is None:
            return
        update, now = self.backend.update_window, self.backend.time(clock)
        if more > 0:
            await update(self.name, RateWindow.add, self, 0, more, now)
        elif more < 0:
            await update(self.name, RateWindow.give_back, permit.slice, 0, -more)
        if pause > 0:
            await update(self.name, RateWindow.close, now + min(pause, self.max_wait))

    def _give_back(self, permit: Permit, clock: Clock) -> None:
        with self._lock:
            if permit.counts:
                self._requests -= permit.requests
                self._weight -= permit.weight
                permit.requests, permit.weight = 0, 0.0
            self._pump(clock)

    async def _take_shared(self, backend: RateBackend, permit: Permit, weight: float, clock: Clock) -> float:
        take = backend.update_window(self.name, RateWindow.take, self, weight, backend.time(clock))
        task = asyncio.ensure_future(take)
        try:
            permit.slice, seconds = await asyncio.shield(task)
        except BaseException as error:
            self._give_back(permit, clock)
            if isinstance(error, asyncio.CancelledError):  # the backend has taken, or will
                number, seconds = await task
                if not seconds:
                    await backend.update_window(self.name, RateWindow.give_back, number, 1, weight)
            raise
        return seconds

    def pause(self, seconds: float, clock: Clock) -> None:
        """Let no call pass for `seconds`, at most `max_wait`; never shortens an earlier pause."""
        with self._lock:
            self._closed_until = max(self._closed_until, clock.monotonic() + min(seconds, self.max_wait))
            self._pump(clock)

    def _add(self, now: float, requests: int, weight: float) -> Permit:
        permit = Permit(now, requests, weight)
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
                ring(timed.bell)

    def _let_pass(self, now: float) -> None:
        self._remove_expired(now)
        waiting = self._waiting
        while waiting and now >= self._closed_until:
            waiter = waiting[0]
            if not waiter.bell.get_loop().is_closed():  # else it never continues
                if not self.fits(self._requests, self._weight, waiter.weight):
                    break
                waiter.permit = self._add(now, 1, waiter.weight)
                ring(waiter.bell)
            waiting.popleft()
        late = [(waiter, due) for waiter, due in self._due_times(now, tuple(waiting)) if due > waiter.latest]
        for waiter, due in late:
            waiting.remove(waiter)
            waiter.refusal = self._refusal(due - now)
            ring(waiter.bell)
        if waiting:
            ring(waiting[0].bell)  # its turn may come at another time than it knows

    def _due_times(self, now: float, waiters: Iterable[_Waiter]) -> Iterator[tuple[_Waiter, float]]:
        """Yield when each waiter will have its turn; those too late are not counted for the waiters after them."""
        planned = [(permit.at, permit.requests, permit.weight) for permit in self._log]
        requests, total, oldest, due = self._requests, self._weight, 0, max(now, self._closed_until)
        for waiter in waiters:
            at = due
            first, count, weight = oldest, requests, total
            while first < len(planned) and not self.fits(count, weight, waiter.weight):
                since, requests_then, weight_then = planned[first]
                at = max(at, since + self.seconds)
                first, count, weight = first + 1, count - requests_then, weight - weight_then
            yield waiter, at
            if at <= waiter.latest:
                planned.append((at, 1, waiter.weight))
                oldest, requests, total, due = first, count + 1, weight + waiter.weight, at

    def _refusal(self, seconds: float) -> errors.LimitExceeded:
        used = self._weight if self.requests is None else self._requests
        text = f"{self!r} has no room for {seconds:.3g} s, and {len(self._waiting)} calls wait: try again then"
        return errors.LimitExceeded(
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
        text = f"{limiter!r} limits weight: give rate_limit(estimate=...), a function of the request"
        raise errors.ConfigurationError(text)


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
        LimitExceeded: no turn comes in time; it is transient and has `retry_after`, unless the request is heavier than
            a whole period allows. Nothing was called.
    """
    if ctx.replayed:
        return await inner(request, ctx)
    weight = 0.0 if estimate is None else _weight("estimate", call_given(estimate, ctx, request))
    permit = await limiter.take(weight, ctx)
    try:
        response = await inner(request, ctx)
    except Exception as error:
        retry_after = None if isinstance(error, errors.LimitExceeded) else errors.fact_of(error, "retry_after", float)
        await limiter.settle(permit, _measured(measure, error, ctx), ctx.clock, pause=retry_after or 0.0)
        raise
    await limiter.settle(permit, _measured(measure, response, ctx), ctx.clock)
    return response


def _measured(measure: Callable[[Any], float | None] | None, outcome: object, ctx: Context) -> float | None:
    weight = None if measure is None else call_given(measure, ctx, outcome)
    return None if weight is None else _weight("measure", weight)


def _weight(setting: str, value: float) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < math.inf:
        raise errors.ConfigurationError(
            f"the function of rate_limit({setting}=...) returns a number of at least 0, got {value!r:.200}"
        )
    return value
