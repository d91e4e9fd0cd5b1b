"""Backpressure and rate limit: bound how many calls are in progress, and how many are made in a period."""

from collections.abc import Callable
from math import inf
from threading import RLock
from typing import Annotated, Any, TypeVar

from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError, LimitExceeded, fact_of
from ziggurat.core.event import UnderPressure
from ziggurat.core.failures import call_given
from ziggurat.core.service import Service, layer
from ziggurat.core.settings import SHARED, PositiveInt, checked
from ziggurat.layers.rate_limiter import RateLimiter

Q = TypeVar("Q")
R = TypeVar("R")


class Gate:
    """Counts the calls in progress: warns from `soft` on, refuses at `hard`.

    Make one and pass it to all layers whose calls should be counted together, in any thread or event loop.

    Args:
        hard: The number of calls in progress at which further ones are refused.
        soft: The number from which callers are warned by an event; None never warns.
    """

    @checked
    def __init__(self, hard: PositiveInt, *, soft: PositiveInt | None = None) -> None:
        if soft is not None and soft >= hard:
            raise ConfigurationError(f"Gate(soft={soft}) warns before hard={hard} refuses, so it must be below it")
        self.hard = hard
        self.soft = soft
        self.depth: int = 0
        self._lock = RLock()  # reentrant: a collected coroutine may leave at any point

    def refusal(self, depth: int) -> LimitExceeded:
        text = f"{depth} calls are in progress, and at most {self.hard} may be: try again later"
        return LimitExceeded("backpressure", self.hard, depth, text, transient=True)

    def enter(self) -> int:
        """Count a call unless too many are in progress, and return how many there were; give it back with `leave`."""
        with self._lock:
            depth = self.depth
            if depth < self.hard:
                self.depth = depth + 1
            return depth

    def leave(self) -> None:
        with self._lock:
            self.depth -= 1

    def __repr__(self) -> str:
        return f"Gate({self.hard})" if self.soft is None else f"Gate({self.hard}, soft={self.soft})"


@layer
async def backpressure(request: Q, ctx: Context, inner: Service[Q, R], *, gate: Annotated[Gate, SHARED]) -> R:
    """Refuse a call at once when too many are in progress, and warn before that; no call waits.

    Make it the outermost layer, so that a refused call costs nothing::

        stack(agent, backpressure(gate=Gate(100, soft=80)))

    Args:
        gate: The counter; share one between all layers whose calls should be counted together.

    Raises:
        LimitExceeded: `hard` calls are in progress. It is transient, and nothing was called.
    """
    if ctx.replayed:
        return await inner(request, ctx)
    depth = gate.enter()
    if depth >= gate.hard:
        raise gate.refusal(depth)
    try:
        if gate.soft is not None and depth >= gate.soft and ctx.listens(UnderPressure):
            await ctx.emit(UnderPressure(ctx.path, depth + 1, gate.soft, gate.hard))
        return await inner(request, ctx)
    finally:
        gate.leave()


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
        retry_after = None if isinstance(error, LimitExceeded) else fact_of(error, "retry_after", float)
        await limiter.settle(permit, _measured(measure, error, ctx), ctx.clock, pause=retry_after or 0.0)
        raise
    await limiter.settle(permit, _measured(measure, response, ctx), ctx.clock)
    return response


def _measured(measure: Callable[[Any], float | None] | None, outcome: object, ctx: Context) -> float | None:
    weight = None if measure is None else call_given(measure, ctx, outcome)
    return None if weight is None else _weight("measure", weight)


def _weight(setting: str, value: float) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < inf:
        raise ConfigurationError(
            f"the function of rate_limit({setting}=...) returns a number of at least 0, got {value!r:.200}"
        )
    return value
