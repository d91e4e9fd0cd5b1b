"""Retry and timeout: make a call again after a transient failure, and bound how long each may take."""

from collections import deque
from collections.abc import Awaitable, Callable
from threading import RLock
from typing import Annotated, Literal, TypeVar

from msgspec import Meta

from ziggurat.core.context import Context
from ziggurat.core.errors import described, fact_of, is_transient
from ziggurat.core.event import SILENCE, Event, Passing, Retrying
from ziggurat.core.failures import call_given
from ziggurat.core.service import Service, layer
from ziggurat.core.settings import NonNegativeFloat, NonNegativeSeconds, PositiveInt, Seconds, checked

Q = TypeVar("Q")
R = TypeVar("R")

_SLICES = 10


class RetryBudget:
    """Bounds the retries of many calls together, so that retries do not multiply the load in an outage.

    Every call deposits `ratio` of a retry, every retry withdraws one, and both are forgotten after `seconds`. Make one
    and pass it to the retries that call the same service, as in ``retry(budget=budget)``.

    Args:
        ratio: Retries allowed per call: 0.2 keeps the load at 1.2 times the calls when everything fails.
        minimum_per_second: Retries allowed per second in addition, however few calls there are.
        seconds: How long calls and retries count.
    """

    @checked
    def __init__(
        self, *, ratio: NonNegativeFloat = 0.2, minimum_per_second: NonNegativeFloat = 10, seconds: Seconds = 10
    ) -> None:
        self.ratio = ratio
        self.minimum_per_second = minimum_per_second
        self.seconds = seconds
        self._slices: deque[list[int]] = deque()  # [slice of time, calls, retries]
        self._calls = 0
        self._retries = 0
        self._lock = RLock()

    def balance(self, now: float) -> float:
        """Return how many retries are left at `now`, in seconds of a clock's `monotonic`."""
        with self._lock:
            self._slice(now)
            return self.minimum_per_second * self.seconds + self.ratio * self._calls - self._retries

    def deposit(self, now: float) -> None:
        with self._lock:
            self._slice(now)[1] += 1
            self._calls += 1

    def withdraw(self, now: float) -> bool:
        """Take one retry; False, and nothing is taken, when none is left."""
        with self._lock:
            current = self._slice(now)
            if self.balance(now) < 1 - 1e-9:
                return False
            current[2] += 1
            self._retries += 1
            return True

    def _slice(self, now: float) -> list[int]:
        number = int(now * _SLICES / self.seconds)
        slices = self._slices
        while slices and slices[0][0] <= number - _SLICES:
            _, calls, retries = slices.popleft()
            self._calls -= calls
            self._retries -= retries
        if not slices or slices[-1][0] < number:
            slices.append([number, 0, 0])
        return slices[-1]

    def __repr__(self) -> str:
        return (
            f"RetryBudget(ratio={self.ratio:g}, minimum_per_second={self.minimum_per_second:g}, "
            f"seconds={self.seconds:g})"
        )


class _Watch(Passing):
    emitted: bool = False

    def __call__(self, event: Event, /) -> Awaitable[None]:
        self.emitted = self.emitted or hasattr(event, "delta")
        return self.outer(event)


@layer
async def retry(
    request: Q,
    ctx: Context,
    inner: Service[Q, R],
    *,
    attempts: Annotated[PositiveInt, Meta(description="which counts all tries, the first included")] = 3,
    base: NonNegativeSeconds = 0.5,
    cap: NonNegativeSeconds = 30.0,
    jitter: Literal["full", "none"] = "full",
    budget: RetryBudget | None = None,
    when: Callable[[Exception], bool] = is_transient,
    after_delta: bool = True,
    max_retry_after: NonNegativeSeconds = 60.0,
) -> R:
    """Make a call again, after a delay, when it failed with a transient error; the last error is raised unchanged.

    Args:
        attempts: The number of tries, the first included.
        base: The longest delay before the second try, in seconds; it doubles with each further try.
        cap: The longest delay before any try, in seconds.
        jitter: `"full"` draws the delay uniformly from 0 to the longest; `"none"` takes the longest.
        budget: Bounds the retries of all calls that share it.
        when: Returns whether an error is worth another try; by default transient ones.
        after_delta: Retry even if parts of the reply were already emitted; listeners get an event to discard them.
        max_retry_after: The longest `retry_after` of an error that is waited for, in seconds; with more it is raised.

    The error is raised at once if the delay would pass the deadline. All tries are one call, with one path.
    """
    if budget is not None:
        budget.deposit(ctx.clock.monotonic())
    current = ctx
    while True:
        attempt = 1 + current.tries - ctx.tries
        watch = _Watch(ctx.emit) if not after_delta and ctx.emit is not SILENCE else None
        try:
            return await inner(request, current if watch is None else current.emitting(watch))
        except Exception as error:
            if attempt >= attempts or not call_given(when, ctx, error) or (watch is not None and watch.emitted):
                raise
            longest = min(cap, base * 2.0 ** min(attempt - 1, 100))
            drawn = longest * ctx.random() if jitter == "full" else longest
            delay = _delay(error, drawn, max_retry_after, ctx, budget)
            if delay is None:
                raise
            failure = error
        current = await current.drop(failure)
        if ctx.listens(Retrying):
            await ctx.emit(Retrying(ctx.path, attempt, described(failure), delay))
        if delay > 0:
            await ctx.clock.sleep(delay)


def _delay(
    error: Exception, drawn: float, max_retry_after: float, ctx: Context, budget: RetryBudget | None
) -> float | None:
    """Return the seconds to wait: the drawn delay or the error's `retry_after` if longer; None for no other try."""
    recorded = ctx.is_answer(error)  # the pause and the budget of the retry after it were spent then
    asked = 0.0 if recorded else fact_of(error, "retry_after", float) or 0.0
    delay, left = 0.0 if recorded else max(drawn, asked), ctx.remaining()
    if asked > max(drawn, max_retry_after) or (left is not None and delay >= left):
        return None
    return delay if budget is None or recorded or budget.withdraw(ctx.clock.monotonic()) else None


@layer
async def timeout(request: Q, ctx: Context, inner: Service[Q, R], *, seconds: Seconds) -> R:
    """Cancel a call that takes longer than `seconds`, and raise `Timeout`, which is transient.

    Inside a retry it limits each try, outside a retry all tries together. The service gets the deadline in its context.
    Time spent waiting for a slow reader of events does not count::

        stack(model, retry(attempts=3), timeout(seconds=30))
    """
    async with ctx.limit(seconds) as ctx:
        return await inner(request, ctx)
