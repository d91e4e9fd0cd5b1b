"""Load shedding: refuses calls at once under overload."""

from collections.abc import Callable
from typing import Annotated, TypeVar

from msgspec import Meta

from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError, LimitExceeded, Timeout
from ziggurat.core.failures import call_given
from ziggurat.core.layer import layer
from ziggurat.core.service import Service
from ziggurat.core.settings import NonNegativeSeconds, PositiveInt, checked
from ziggurat.core.stopwatch import Stopwatch

Q = TypeVar("Q")
R = TypeVar("R")

_RECENT, _USUAL = 10, 500


class LatencyGradient:
    """A detector of overload: compares the recent latency of calls with their usual latency.

    Make one for each service that may be overloaded, and share it between all layers that call it.

    Args:
        tolerance: How many times longer than usual calls may take before some are refused.
        minimum_calls: The number of calls before the usual latency is considered known.
        floor: Latencies up to this many seconds are never slow; their differences are mostly noise.

    Raises:
        ConfigurationError: `tolerance` is not above 1, `minimum_calls` is not a whole number of at least 1, or `floor`
            is negative or not finite.
    """

    @checked
    def __init__(
        self,
        *,
        tolerance: Annotated[float, Meta(gt=1)] = 2.0,
        minimum_calls: PositiveInt = 50,
        floor: NonNegativeSeconds = 0.01,
    ) -> None:
        self.tolerance = tolerance
        self.minimum_calls = minimum_calls
        self.floor = floor
        self.calls: int = 0
        self.recent: float = 0.0
        self.usual: float = 0.0

    def observe(self, seconds: float) -> None:
        """Add the latency of a call, in seconds."""
        self.calls += 1
        self.recent += (seconds - self.recent) / min(self.calls, _RECENT)
        self.usual += (seconds - self.usual) / min(self.calls, _USUAL)

    def share(self) -> float:
        """Return the share of calls that may pass: 1 normally, less the slower the service is, and never 0.

        Some calls must pass, or a recovery would not be noticed.
        """
        bound = max(self.tolerance * self.usual, self.floor)
        if self.calls < self.minimum_calls or self.recent <= bound:
            return 1.0
        return max(bound / self.recent, 0.01)

    def __repr__(self) -> str:
        return (
            f"LatencyGradient(tolerance={self.tolerance:g}, minimum_calls={self.minimum_calls}, floor={self.floor:g})"
        )


def _check(*, when: Callable[[], bool] | None, gradient: LatencyGradient | None) -> None:
    if when is None and gradient is None:
        raise ConfigurationError("load_shed() never sheds: give when=bulkhead.is_full, or gradient=LatencyGradient()")


@layer(check=_check)
async def load_shed(
    request: Q,
    ctx: Context,
    inner: Service[Q, R],
    *,
    when: Callable[[], bool] | None = None,
    gradient: LatencyGradient | None = None,
) -> R:
    """Refuse calls at once that would only wait, or would slow down a service that is already slow.

    Put it outside a retry: a refused call should go to another service, not be retried here::

        slots = Bulkhead(8)
        stack(model, load_shed(when=slots.is_full), retry(), concurrency_limit(bulkhead=slots))

    Args:
        when: Refuse while this returns true; the limits have such a method, `is_full`.
        gradient: Refuse a share of the calls while they take longer than usual.

    Raises:
        LimitExceeded: the call was refused. It is transient, and nothing was called.
        ConfigurationError: a setting has a wrong value.
    """
    if ctx.replayed:
        return await inner(request, ctx)
    if when is not None and call_given(when, ctx):
        raise LimitExceeded(
            "load", 1, 1, "what would be called is busy, so the call was refused: try again later", transient=True
        )
    if gradient is None:
        return await inner(request, ctx)
    share = gradient.share()
    if share < 1 and ctx.random() >= share:
        raise LimitExceeded(
            "load",
            max(gradient.tolerance * gradient.usual, gradient.floor),
            gradient.recent,
            f"calls take {gradient.recent:.3g} s recently and {gradient.usual:.3g} s usually, so the call was refused: "
            "try again later",
            transient=True,
        )
    watch = Stopwatch(ctx.clock, ctx.watch, ctx.emit)
    try:
        response = await inner(request, ctx.timed(watch))
    except Timeout:
        gradient.observe(watch.elapsed)
        raise
    gradient.observe(watch.elapsed)
    return response
