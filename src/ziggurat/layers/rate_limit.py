"""Rate limit: bounds requests and tokens in any period of time."""

from collections.abc import Callable
from math import inf
from typing import Annotated, Any, TypeVar

from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError, LimitExceeded, fact_of
from ziggurat.core.event import Queued
from ziggurat.core.failures import call_given
from ziggurat.core.service import Service, layer
from ziggurat.core.settings import SHARED
from ziggurat.layers.rate_limiter import Permit, RateLimiter

Q = TypeVar("Q")
R = TypeVar("R")


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
    """
    if ctx.replayed:
        return await inner(request, ctx)
    clock = ctx.clock
    weight = 0.0 if estimate is None else _weight("estimate", call_given(estimate, ctx, request))
    now = clock.monotonic()
    arrival = None if limiter.backend is None else limiter.arrival(now)
    permit = limiter.take(weight, now)
    if permit is None:
        if ctx.listens(Queued):
            due = limiter.due(weight, now) - now
            await ctx.emit(Queued(ctx.path, "rate", limiter.waiting, due))
        permit = await limiter.wait(weight, clock, ctx.deadline, arrival)
    if arrival is not None:
        permit = await limiter.share(permit, weight, ctx, arrival)
    try:
        response = await inner(request, ctx)
    except Exception as error:
        more = _settle(limiter, permit, measure, error, ctx)
        retry_after = fact_of(error, "retry_after", float)
        pause = retry_after if retry_after is not None and not isinstance(error, LimitExceeded) else 0.0
        if pause > 0:
            limiter.pause(pause, clock)
        if arrival is not None:
            await limiter.settle_shared(permit, more, pause, clock)
        raise
    more = _settle(limiter, permit, measure, response, ctx)
    if arrival is not None:
        await limiter.settle_shared(permit, more, 0.0, clock)
    return response


def _settle(
    limiter: RateLimiter, permit: Permit, measure: Callable[[Any], float | None] | None, outcome: object, ctx: Context
) -> float:
    """Correct the weight of a call; return how much more it was than estimated."""
    weight = None if measure is None else call_given(measure, ctx, outcome)
    if weight is None:
        return 0.0
    more = _weight("measure", weight) - permit.weight
    limiter.settle(permit, weight, ctx.clock)
    return more


def _weight(setting: str, value: float) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < inf:
        raise ConfigurationError(
            f"the function of rate_limit({setting}=...) returns a number of at least 0, got {value!r:.200}"
        )
    return value
