"""A switch that stops calls to what keeps failing, and lets a few through after a while to see."""

__all__ = ["CircuitBreaker", "circuit_breaker", "tells_of_health"]

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ziggurat.core.context import Context
from ziggurat.core.errors import CircuitOpen, ConfigurationError, LimitExceeded, is_transient
from ziggurat.core.event import CircuitChanged
from ziggurat.core.layer import layer
from ziggurat.core.numbers import is_finite
from ziggurat.core.service import Service
from ziggurat.layers.circuit import (
    FAILED,
    SLOW,
    BreakerBackend,
    BreakerRules,
    Change,
    Circuit,
    CircuitState,
    MemoryBackend,
    Verdict,
)

Q = TypeVar("Q")
R = TypeVar("R")


def tells_of_health(error: Exception) -> bool:
    """Tell whether an error says that a service is not well: transient ones do, mistakes and refusals do not."""
    return is_transient(error) and not isinstance(error, LimitExceeded)


class CircuitBreaker:
    """Watches calls that go to one place, and stops them for a while when too many fail.

    Make one and pass it to the layers around everything that goes there::

        breaker = CircuitBreaker(failure_rate=0.5, window_seconds=30, minimum_calls=20)
        model = stack(model, retry(), circuit_breaker(breaker=breaker))

    Closed, all calls pass and are counted. Open, all are refused for `open_seconds`. Then, half open, exactly
    `permits` may pass on trial: when all of them end well it closes, when one fails it opens again. A trial that was
    cancelled, or ended with an error that does not count, gives its permit back. What began before a change of state
    counts for nothing after it.

    Args:
        consecutive: Open after so many failures in a row; 5 where no rate is given.
        failure_rate: Open when this share of the window failed, above 0 up to 1.
        slow_rate: Open when this share of the window was slow, above 0 up to 1; a slow trial fails too.
        slow_seconds: A call that took so long is slow; waiting for slow readers of events is not counted.
        window_calls: The window is the last so many calls; 100 where a rate is given without a window.
        window_seconds: The window is so many seconds, in ten slices.
        minimum_calls: Rates mean nothing before so many calls are in the window.
        open_seconds: How long it stays open.
        permits: How many calls pass on trial.
        counts: Which errors are failures; transient ones by default, but no refusals by limits and budgets, no errors
            of the caller's making and no faults in the program. Others count as neither failure nor success.
        name: What it is called in errors, events and the backend.
        backend: Where its state is kept; in this process where none is given.

    Raises:
        ConfigurationError: a setting makes no sense.
    """

    def __init__(
        self,
        *,
        consecutive: int | None = None,
        failure_rate: float | None = None,
        slow_rate: float | None = None,
        slow_seconds: float = 30.0,
        window_calls: int | None = None,
        window_seconds: float | None = None,
        minimum_calls: int = 10,
        open_seconds: float = 30.0,
        permits: int = 1,
        counts: Callable[[Exception], bool] = tells_of_health,
        name: str = "circuit",
        backend: BreakerBackend | None = None,
    ) -> None:
        has_rate = failure_rate is not None or slow_rate is not None
        if consecutive is None and not has_rate:
            consecutive = 5
        if has_rate and window_calls is None and window_seconds is None:
            window_calls = max(100, minimum_calls) if isinstance(minimum_calls, int) else 100
        _whole(consecutive=consecutive, window_calls=window_calls, minimum_calls=minimum_calls, permits=permits)
        _seconds(slow_seconds=slow_seconds, window_seconds=window_seconds, open_seconds=open_seconds)
        _share(failure_rate=failure_rate, slow_rate=slow_rate)
        _window(has_rate, window_calls, window_seconds, minimum_calls)
        if not callable(counts):
            raise ConfigurationError(f"CircuitBreaker(counts=...) takes a function of the error, got {counts!r}")
        self.rules = BreakerRules(
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
        self.counts = counts
        self.name = name
        self.backend: BreakerBackend = MemoryBackend() if backend is None else backend

    def look(self) -> CircuitState | Awaitable[CircuitState]:
        """Return the state it is in; an open one turns half open when the next call comes after its time."""
        return self.backend.update(self.name, _state_of)

    def reset(self) -> Change | Awaitable[Change]:
        """Close it, forget what was counted, and take back what was forced."""
        return self.backend.update(self.name, Circuit.force, "closed")

    def force_open(self) -> Change | Awaitable[Change]:
        """Refuse every call until `reset` or `force_closed`."""
        return self.backend.update(self.name, Circuit.force, "forced_open")

    def force_closed(self) -> Change | Awaitable[Change]:
        """Let every call pass, whatever comes of it, until `reset` or `force_open`."""
        return self.backend.update(self.name, Circuit.force, "forced_closed")

    def __repr__(self) -> str:
        names = (name for name in BreakerRules.__struct_fields__ if getattr(self.rules, name) is not None)
        rules = ", ".join(f"{name}={getattr(self.rules, name):g}" for name in names)
        return f"CircuitBreaker({self.name!r}, {rules})"


def _state_of(circuit: Circuit) -> CircuitState:
    return circuit.state


def _whole(**settings: object) -> None:
    for name, value in settings.items():
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            raise ConfigurationError(f"CircuitBreaker({name}=...) takes a whole number of at least 1, got {value!r}")


def _seconds(**settings: float | None) -> None:
    for name, value in settings.items():
        if value is not None and (not is_finite(value) or value <= 0):
            raise ConfigurationError(f"CircuitBreaker({name}=...) takes a number of seconds above 0, got {value!r}")


def _share(**settings: float | None) -> None:
    for name, value in settings.items():
        if value is not None and (not is_finite(value) or not 0 < value <= 1):
            raise ConfigurationError(f"CircuitBreaker({name}=...) takes a share above 0 and up to 1, got {value!r}")


def _window(has_rate: bool, calls: int | None, seconds: float | None, minimum: int) -> None:
    if calls is not None and seconds is not None:
        raise ConfigurationError("CircuitBreaker() has one window: give window_calls or window_seconds, not both")
    if not has_rate and (calls is not None or seconds is not None):
        raise ConfigurationError("CircuitBreaker() uses a window for rates only: give failure_rate or slow_rate too")
    if calls is not None and minimum > calls:
        raise ConfigurationError(
            f"CircuitBreaker(minimum_calls={minimum}) is never reached in a window of {calls} calls, so it never opens"
        )


def _check(*, breaker: CircuitBreaker) -> None:
    if not isinstance(breaker, CircuitBreaker):
        raise ConfigurationError(
            f"circuit_breaker(breaker=...) takes a CircuitBreaker, got {type(breaker).__name__}; "
            "make one and pass it to all that should share it"
        )


@layer(check=_check)
async def circuit_breaker(request: Q, ctx: Context, inner: Service[Q, R], *, breaker: CircuitBreaker) -> R:
    """Refuse calls with `CircuitOpen` while what is called keeps failing.

    It belongs inside of a retry, so that every try is counted, and around a timeout, so that late ones are failures::

        stack(model, retry(attempts=3), circuit_breaker(breaker=CircuitBreaker()), timeout(seconds=30))

    The error is the service's own. `CircuitOpen` is transient and says in `retry_after` when to come again.

    Args:
        breaker: Counts, and decides; share one among all that call the same place.

    Raises:
        CircuitOpen: the call was refused, and nothing was called.
        ConfigurationError: a setting makes no sense.
    """
    if ctx.replayed:
        return await inner(request, ctx)
    rules, backend, clock = breaker.rules, breaker.backend, ctx.clock
    began, blocked = backend.time(clock), ctx.emit.blocked
    verdict = backend.update(breaker.name, Circuit.admit, rules, began)
    if not isinstance(verdict, Verdict):
        verdict = await _awaited(verdict, breaker, began)
    if verdict.ticket < 0:
        raise _refusal(breaker, verdict)
    outcome: int | None = None
    try:
        if verdict.change is not None:
            await _tell(breaker, verdict.change, ctx)
        response = await inner(request, ctx)
        outcome = 0
        return response
    except Exception as error:
        if breaker.counts(error):
            outcome = FAILED
        raise
    finally:
        now = backend.time(clock)
        if outcome is not None and now - began - (ctx.emit.blocked - blocked) >= rules.slow_seconds:
            outcome |= SLOW
        change = backend.update(breaker.name, Circuit.settle, rules, verdict.ticket, outcome, now)
        if change is not None:
            if not isinstance(change, tuple):
                change = await asyncio.shield(asyncio.ensure_future(change))
            if change is not None:
                await _tell(breaker, change, ctx)


async def _awaited(asked: Awaitable[Verdict], breaker: CircuitBreaker, now: float) -> Verdict:
    """Wait for a verdict from elsewhere; a permit that was taken for a call that is cancelled meanwhile goes back."""
    task = asyncio.ensure_future(asked)
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
    text = f"{breaker.name} lets no more calls through: it was forced open, or waits for those on trial"
    return CircuitOpen(text)


async def _tell(breaker: CircuitBreaker, change: Change, ctx: Context) -> None:
    if ctx.listens(CircuitChanged):
        await ctx.emit(CircuitChanged(ctx.path, breaker.name, *change))
