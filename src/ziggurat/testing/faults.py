"""Services that fail on purpose."""

__all__ = ["FailingOn", "fail_on"]

from collections.abc import Callable, Collection
from typing import Generic, TypeVar

from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.service import Service

Q = TypeVar("Q")
R = TypeVar("R")


class FailingOn(Generic[Q, R]):
    """The service that `fail_on` makes; `calls` counts how often it was called."""

    def __init__(self, inner: Service[Q, R], numbers: Collection[int], error: Callable[[], BaseException]) -> None:
        self.inner = inner
        self.calls = 0
        self._numbers = numbers
        self._error = error

    async def __call__(self, request: Q, ctx: Context, /) -> R:
        """Fail or ask the service, as the number of this call has it."""
        self.calls += 1
        if self.calls in self._numbers:
            raise self._error()
        return await self.inner(request, ctx)


def fail_on(
    service: Service[Q, R],
    *numbers: int,
    error: Callable[[], BaseException] = lambda: ConnectionError("failed on purpose"),
) -> FailingOn[Q, R]:
    """Make a service fail on the calls with these numbers, counted from 1, and answer as usual on all others.

    ::

        for k in range(1, calls + 1):
            await check(fail_on(store_write, k))     # fail each call in turn

    Args:
        service: What answers otherwise; facts stay reachable.
        numbers: Which calls fail.
        error: Makes the error, a transient one by default.

    Raises:
        ConfigurationError: a number is not a whole one of at least 1, or `error` is an error and does not make one.
    """
    if not all(isinstance(number, int) and number >= 1 for number in numbers):
        raise ConfigurationError(f"fail_on() counts calls from 1, got {numbers}")
    if not callable(error):
        raise ConfigurationError(f"fail_on(error=...) takes what makes an error: error=lambda: {error!r:.60}")
    return FailingOn(service, frozenset(numbers), error)
