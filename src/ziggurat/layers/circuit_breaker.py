"""Circuit breaker: stops calls to a service that keeps failing, and lets a few through later to test it."""

import asyncio
from collections.abc import Awaitable, Callable
from inspect import iscoroutine
from typing import Annotated, Generic, TypeVar

from ziggurat.core.context import Context
from ziggurat.core.errors import CircuitOpen, ConfigurationError, LimitExceeded, is_transient
from ziggurat.core.event import CircuitChanged
from ziggurat.core.failures import call_given
from ziggurat.core.held import Holding, held
from ziggurat.core.layer import layer
from ziggurat.core.service import Service
from ziggurat.core.settings import SHARED, PositiveInt, Seconds, Share, checked
from ziggurat.core.stopwatch import Stopwatch
from ziggurat.layers.circuit import (
    FAILED,
    SLOW,
    BreakerBackend,
    BreakerRules,
    Change,
    Circuit,
    CircuitState,
    LocalBackend,
    Verdict,
)

Q = TypeVar("Q")
R = TypeVar("R")


def tells_of_health(error: Exception) -> bool:
    """Return whether an error shows that a service is unhealthy: transient errors do, mistakes and refusals do not."""
    return is_transient(error) and not isinstance(error, LimitExceeded)


class CircuitBreaker:
    """A circuit breaker: counts the calls to one service, and refuses them for a while when too many fail.

    Make one and pass it to the layers around everything that calls this service::

        breaker = CircuitBreaker(failure_rate=0.5, window_seconds=30, minimum_calls=20)
        model = stack(model, retry(), circuit_breaker(breaker=breaker))

    Closed: all calls pass and are counted. Open: all are refused for `open_seconds`. Half open: `permits` trial calls
    may pass; if all of them succeed it closes, if one fails it opens again. A trial that was cancelled, or ended with
    an error that does not count, gives its permit back. A trial that has not ended after `open_seconds` loses its
    permit to the next call; if it ends after all while the circuit is still half open, its outcome counts. Calls below
    a trial are parts of it. Calls that began before a change of state do not count after it.

    Args:
        consecutive: Open after this number of failures in a row; 5 if no rate is given.
        failure_rate: Open when this share of the window failed, above 0 up to 1.
        slow_rate: Open when this share of the window was slow, above 0 up to 1; a slow trial fails too.
        slow_seconds: A call that took this long is slow; waiting for slow readers of events does not count.
        window_calls: The window is this number of most recent calls; 100 if a rate is given without a window.
        window_seconds: The window is this number of seconds, in ten slices.
        minimum_calls: Rates are ignored until the window has this number of calls.
        open_seconds: How long it stays open.
        permits: How many trial calls pass when it is half open.
        when: Returns whether an error is a failure; by default transient errors, but not refusals by limits and
            budgets, errors caused by the caller, or bugs. Other errors count as neither failure nor success.
        name: Its name in errors, events and the backend.
        backend: The store of its state; by default in this process.

    Raises:
        ConfigurationError: a setting has a wrong value.
    """

    @checked
    def __init__(
        self,
        *,
        consecutive: PositiveInt | None = None,
        failure_rate: Share | None = None,
        slow_rate: Share | None = None,
        slow_seconds: Seconds = 30.0,
        window_calls: PositiveInt | None = None,
        window_seconds: Seconds | None = None,
        minimum_calls: PositiveInt = 10,
        open_seconds: Seconds = 30.0,
        permits: PositiveInt = 1,
        when: Callable[[Exception], bool] = tells_of_health,
        name: str = "circuit",
        backend: BreakerBackend | None = None,
    ) -> None:
        has_rate = failure_rate is not None or slow_rate is not None
        if consecutive is None and not has_rate:
            consecutive = 5
        if has_rate and window_calls is None and window_seconds is None:
            window_calls = max(100, minimum_calls)
        _check_window(has_rate, window_calls, window_seconds, minimum_calls)
        self.rules: BreakerRules = BreakerRules(
            consecutive,
            failure_rate,
            slow_rate,
            slow_seconds,
            window_calls,
            window_seconds,
            minimum_calls,
            open_seconds,
            permits,
        )
        self.when = when
        self.name = name
        self.backend: BreakerBackend = LocalBackend() if backend is None else backend

    def state(self) -> CircuitState | Awaitable[CircuitState]:
        """Return its state; an open circuit becomes half open with the first call after `open_seconds`."""
        return self.backend.update(self.name, _state_of)

    def reset(self) -> Change | Awaitable[Change]:
        """Close the circuit, and clear all counts and forced states."""
        return self.backend.update(self.name, Circuit.force, "closed")

    def force_open(self) -> Change | Awaitable[Change]:
        """Refuse every call until `reset` or `force_closed`."""
        return self.backend.update(self.name, Circuit.force, "forced_open")

    def force_closed(self) -> Change | Awaitable[Change]:
        """Let every call pass, whether calls fail or not, until `reset` or `force_open`."""
        return self.backend.update(self.name, Circuit.force, "forced_closed")

    def __repr__(self) -> str:
        names = (name for name in BreakerRules.__struct_fields__ if getattr(self.rules, name) is not None)
        rules = ", ".join(f"{name}={getattr(self.rules, name):g}" for name in names)
        return f"CircuitBreaker({self.name!r}, {rules})"


def _state_of(circuit: Circuit) -> CircuitState:
    return circuit.state


def _check_window(has_rate: bool, calls: int | None, seconds: float | None, minimum: int) -> None:
    if calls is not None and seconds is not None:
        raise ConfigurationError("CircuitBreaker() has one window: give window_calls or window_seconds, not both")
    if not has_rate and (calls is not None or seconds is not None):
        raise ConfigurationError("CircuitBreaker() uses a window for rates only: give failure_rate or slow_rate too")
    if calls is not None and minimum > calls:
        raise ConfigurationError(
            f"CircuitBreaker(minimum_calls={minimum}) is never reached in a window of {calls} calls, so it never opens"
        )


@layer
async def circuit_breaker(
    request: Q, ctx: Context, inner: Service[Q, R], *, breaker: Annotated[CircuitBreaker, SHARED]
) -> R:
    """Refuse calls with `CircuitOpen` while the service keeps failing.

    Put it inside a retry, so that every try is counted, and around a timeout, so that late calls are failures::

        stack(model, retry(attempts=3), circuit_breaker(breaker=CircuitBreaker()), timeout(seconds=30))

    Errors of the service are raised unchanged. `CircuitOpen` is transient and says in `retry_after` when to try again.

    Args:
        breaker: The breaker; share one between all layers that call the same service.

    Raises:
        CircuitOpen: the call was refused, and nothing was called.
        ConfigurationError: a setting has a wrong value.
    """
    if ctx.replayed:
        return await inner(request, ctx)
    rules, backend, clock = breaker.rules, breaker.backend, ctx.clock
    began = backend.time(clock)
    watch = None if rules.slow_rate is None else Stopwatch(clock, ctx.watch, ctx.emit)
    above = _trials_in(around, breaker) if (around := held()) else ()
    verdict = backend.update(breaker.name, Circuit.admit, rules, began, *above)
    if not isinstance(verdict, Verdict):
        verdict = await _wait_for_verdict(verdict, breaker, began)
    if verdict.ticket < 0:
        raise _refusal(breaker, verdict)
    passed = _Trial(breaker, verdict.ticket, inner) if verdict.trial else inner
    outcome: int | None = None
    closing = False
    try:
        if verdict.change is not None:
            await _tell(breaker, verdict.change, ctx)
        response = await passed(request, ctx if watch is None else ctx.timed(watch))
        outcome = 0
        return response
    except Exception as error:
        if call_given(breaker.when, ctx, error):
            outcome = FAILED
        raise
    except GeneratorExit:
        closing = True
        raise
    finally:
        now = backend.time(clock)
        if outcome is not None and watch is not None and watch.elapsed >= rules.slow_seconds:
            outcome |= SLOW
        change = backend.update(breaker.name, Circuit.settle, rules, verdict.ticket, outcome, now)
        if change is not None:
            if not closing:
                await _tell_settled(breaker, change, ctx)
            elif iscoroutine(change):
                change.close()  # a coroutine that is being closed can await nothing: a permit elsewhere lapses


class _Trial(Generic[Q, R]):
    """A service for a trial call; the calls below it know that they are parts of the trial."""

    __slots__ = ("breaker", "inner", "ticket")

    def __init__(self, breaker: CircuitBreaker, ticket: int, inner: Service[Q, R]) -> None:
        self.breaker = breaker
        self.ticket = ticket
        self.inner = inner

    async def __call__(self, request: Q, ctx: Context, /) -> R:
        with Holding(self):
            return await self.inner(request, ctx)


def _trials_in(around: tuple[object, ...], breaker: CircuitBreaker) -> list[int]:
    """Return the tickets of the trials of the same circuit among what the calls around this one hold."""
    trials = [each for each in around if isinstance(each, _Trial)]
    backend, name = breaker.backend, breaker.name
    return [each.ticket for each in trials if (each.breaker.backend, each.breaker.name) == (backend, name)]


async def _tell_settled(breaker: CircuitBreaker, settled: Change | Awaitable[Change | None], ctx: Context) -> None:
    change = settled if isinstance(settled, tuple) else await asyncio.shield(asyncio.ensure_future(settled))
    if change is not None:
        await _tell(breaker, change, ctx)


async def _wait_for_verdict(answer: Awaitable[Verdict], breaker: CircuitBreaker, now: float) -> Verdict:
    """Wait for the verdict of an async backend; if the call is cancelled meanwhile, give its permit back."""
    task = asyncio.ensure_future(answer)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        verdict = await task
        if verdict.ticket >= 0:
            back = breaker.backend.update(breaker.name, Circuit.settle, breaker.rules, verdict.ticket, None, now)
            if back is not None and not isinstance(back, tuple):
                await back
        raise


def _refusal(breaker: CircuitBreaker, verdict: Verdict) -> CircuitOpen:
    if verdict.retry_after is not None:
        text = f"{breaker.name} is open: what it guards keeps failing; try again in {verdict.retry_after:.3g} s"
        return CircuitOpen(text, retry_after=verdict.retry_after)
    text = f"{breaker.name} lets no more calls through: it was forced open, or its trial calls are still running"
    return CircuitOpen(text)


async def _tell(breaker: CircuitBreaker, change: Change, ctx: Context) -> None:
    if ctx.listens(CircuitChanged):
        await ctx.emit(CircuitChanged(ctx.path, breaker.name, *change))
