"""Services that stand in for others in tests: one that the test answers by hand, and one that fails on purpose."""

import asyncio
from collections.abc import Callable, Collection
from typing import Annotated, Any, Generic, TypeVar, overload

from msgspec import Meta

from ziggurat.core.context import Context
from ziggurat.core.service import Service
from ziggurat.core.settings import PositiveInt, checked

Q = TypeVar("Q")
R = TypeVar("R")


class Responder(Generic[R]):
    """Answers one request; `ctx` is the context of the request."""

    def __init__(self, ctx: Context, answer: "asyncio.Future[R]") -> None:
        self.ctx = ctx
        self._answer = answer

    @property
    def abandoned(self) -> bool:
        """Whether the caller was cancelled and no longer waits."""
        return self._answer.cancelled()

    def send(self, value: R) -> None:
        """Answer with a value; ignored if the caller no longer waits.

        Raises:
            AssertionError: it was answered already.
        """
        if self._open():
            self._answer.set_result(value)

    def fail(self, error: BaseException) -> None:
        """Answer with an error; ignored if the caller no longer waits.

        Raises:
            AssertionError: it was answered already.
        """
        if self._open():
            self._answer.set_exception(error)

    def _open(self) -> bool:
        assert not self._answer.done() or self._answer.cancelled(), "this request was answered already"
        return not self._answer.cancelled()


class Handle(Generic[Q, R]):
    """Gives the test the requests that the service receives."""

    def __init__(self) -> None:
        self._requests: asyncio.Queue[tuple[Q, Responder[R]]] = asyncio.Queue()

    async def next(self, *, seconds: float = 5.0) -> tuple[Q, Responder[R]]:
        """Return the next request, in the order of arrival, and a reply object to answer it.

        Raises:
            AssertionError: none arrived within `seconds` of real time.
        """
        try:
            async with asyncio.timeout(seconds):
                return await self._requests.get()
        except TimeoutError:
            raise AssertionError(f"no request came within {seconds:g} s") from None

    def none_waiting(self) -> bool:
        """Return whether the test has taken every request that has arrived."""
        return self._requests.empty()


@overload
def expect() -> tuple[Service[Any, Any], Handle[Any, Any]]: ...


@overload
def expect(request: type[Q], response: type[R]) -> tuple[Service[Q, R], Handle[Q, R]]: ...


def expect(request: Any = object, response: Any = object) -> tuple[Service[Any, Any], Handle[Any, Any]]:
    """Return a service and the handle with which a test answers for it.

    ::

        service, handle = expect()
        task = asyncio.create_task(stack(service, retry())("hello", root()))
        request, reply = await handle.next()
        reply.fail(ConnectionError("gone"))

    Args:
        request: The type of its requests, for the type checker.
        response: The type of its responses, for the type checker.
    """
    handle: Handle[Any, Any] = Handle()

    async def expected(request: Any, ctx: Context, /) -> Any:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        handle._requests.put_nowait((request, Responder(ctx, answer)))
        return await answer

    return expected, handle


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
    """
    return FailingOn(service, frozenset(numbers), error)
