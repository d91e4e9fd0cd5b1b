"""Services that fail on purpose."""

from collections.abc import Callable, Collection
from typing import Annotated, Generic, TypeVar

from msgspec import Meta

from ziggurat.core.context import Context
from ziggurat.core.service import Service
from ziggurat.core.settings import PositiveInt, checked

Q = TypeVar("Q")
R = TypeVar("R")


class FailingOn(Generic[Q, R]):
    """The service that `fail_on` returns; `calls` counts how often it was called."""

    def __init__(self, inner: Service[Q, R], numbers: Collection[int], error: Callable[[], BaseException]) -> None:
        self.inner = inner
        self.calls: int = 0
        self._numbers = numbers
        self._error = error

    async def __call__(self, request: Q, ctx: Context, /) -> R:
        """Fail or call the service, depending on the number of this call."""
        self.calls += 1
        if self.calls in self._numbers:
            raise self._error()
        return await self.inner(request, ctx)


@checked
def fail_on(
    service: Service[Q, R],
    *numbers: PositiveInt,
    error: Annotated[Callable[[], BaseException], Meta(description="as lambda: ConnectionError('lost')")] = lambda: (
        ConnectionError("failed on purpose")
    ),
) -> FailingOn[Q, R]:
    """Wrap a service to fail on the calls with these numbers, counted from 1; all others pass through.

    ::

        for k in range(1, calls + 1):
            await check(fail_on(store_write, k))     # fail each call in turn

    Args:
        service: The wrapped service; its facts stay reachable.
        numbers: The calls that fail.
        error: Creates the error; a transient one by default.

    Raises:
        ConfigurationError: a number is not a whole number of at least 1, or `error` is not callable.
    """
    return FailingOn(service, frozenset(numbers), error)
