"""Streaming: an async iterator over the events of a call. The call itself runs as without streaming."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Generic, NoReturn, TypeVar

from ziggurat.core.clock import SYSTEM_CLOCK, Clock
from ziggurat.core.context import Context, root
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.event import Event
from ziggurat.core.log import logger
from ziggurat.core.service import Service, as_service
from ziggurat.core.settings import PositiveInt, checked
from ziggurat.core.tasks import end_all, in_task, ring

Q = TypeVar("Q")
R = TypeVar("R")


class EventStream(Generic[R]):
    """The events of a call as they happen, for one reader; a full buffer makes the producer wait, in any event loop.

    Iterate to the end, then read `response`. An error of the service is raised by the iteration.
    """

    def __init__(self, buffer: int, clock: Clock = SYSTEM_CLOCK) -> None:
        self._buffer = buffer
        self._events: deque[Event] = deque()
        self._reader: asyncio.Future[None] | None = None
        self._writers: deque[asyncio.Future[None]] = deque()
        self._closed = False
        self._blocked = 0.0
        self._blocking = 0
        self._since = 0.0
        self._monotonic = clock.monotonic
        self._task: asyncio.Task[R] | None = None

    # -- the way in: an Emit -------------------------------------------------------------------------------------

    @property
    def blocked(self) -> float:
        """Seconds that emitting has waited for the reader; waits at the same time count once."""
        return self._blocked + (self._monotonic() - self._since if self._blocking else 0.0)

    def listens(self, kind: type[Event], /) -> bool:
        return not self._closed

    async def __call__(self, event: Event, /) -> None:
        """Pass an event to the reader: wait while the buffer is full, return at once if the reader has left."""
        while len(self._events) >= self._buffer and not self._closed:
            await self._wait_for_room()
        if self._closed:
            return
        self._events.append(event)
        self._wake_reader()

    async def _wait_for_room(self) -> None:
        room = asyncio.get_running_loop().create_future()
        self._writers.append(room)
        if len(self._events) < self._buffer or self._closed:  # another thread has read, or left, meanwhile
            self._wake_writer()
        if not self._blocking:
            self._since = self._monotonic()
        self._blocking += 1
        try:
            await room
        except asyncio.CancelledError:
            try:
                self._writers.remove(room)
            except ValueError:
                self._wake_writer()  # pass the free place on to the next writer
            raise
        finally:
            self._blocking -= 1
            if not self._blocking:
                self._blocked += self._monotonic() - self._since

    def _wake_writer(self) -> None:
        while self._writers:
            room = self._writers.popleft()
            if not room.done():
                ring(room)
                return

    def _wake_reader(self) -> None:
        if (reader := self._reader) is not None:
            ring(reader)

    # -- the way out ---------------------------------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    def __iter__(self) -> NoReturn:
        raise ConfigurationError("a stream is read with async for: async for event in events: ...")

    async def __anext__(self) -> Event:
        assert self._task is not None
        if self._reader is not None:
            raise ConfigurationError("a stream has one reader; open it again, or pass listeners, for more")
        while not self._events:
            if self._closed:
                raise StopAsyncIteration
            if self._task.done():
                self._task.result()
                raise StopAsyncIteration
            self._reader = asyncio.get_running_loop().create_future()
            try:
                if not self._events and not self._closed:  # else another thread has emitted, or left, meanwhile
                    await self._reader
            finally:
                self._reader = None
        event = self._events.popleft()
        self._wake_writer()
        return event

    @property
    def response(self) -> R:
        """The response of the service."""
        if self._task is None or not self._task.done() or (self._closed and self._task.cancelled()):
            raise ConfigurationError("the stream is not at its end: iterate over it first, then read the response")
        return self._task.result()

    def close(self) -> None:
        self._closed = True
        self._events.clear()
        while self._writers:
            self._wake_writer()
        self._wake_reader()

    def _start(self, call: Callable[[], Awaitable[R]]) -> None:
        if self._task is not None:
            raise ConfigurationError(_MISUSED)  # its block is entered twice
        self._task = asyncio.get_running_loop().create_task(in_task(call))
        self._task.add_done_callback(lambda _: self._wake_reader())

    async def _leave(self) -> None:
        """Cancel the call if it still runs, and wait for it; from now on emitting returns at once."""
        task = self._task
        if task is None:
            raise ConfigurationError(_MISUSED)  # its block was never entered
        self.close()
        runs = not task.done()
        try:
            await end_all([task])
        finally:
            if runs and not task.cancelled() and (failed := task.exception()) is not None:
                logger.warning("the run failed while its reader left: %r", failed)


_MISUSED = (
    "a stream is read within its block, which ends the call when it is left: "
    "async with agent.stream('...') as events: async for event in events: ..."
)


class _StreamBlock(AbstractAsyncContextManager[EventStream[R]]):
    """The context manager of a stream, ``async with ... as events``; any other use raises ConfigurationError."""

    __slots__ = ("_begin", "_stream")

    def __init__(self, service: Service[Q, R], request: Q, ctx: Context, buffer: int) -> None:
        stream: EventStream[R] = EventStream(buffer, ctx.clock)
        self._stream = stream
        self._begin: Callable[[], Awaitable[R]] = lambda: service(request, ctx.emitting(stream))

    async def __aenter__(self) -> EventStream[R]:
        self._stream._start(self._begin)
        return self._stream

    async def __aexit__(self, *error: object) -> None:
        await self._stream._leave()

    def _raise_misused(self, *_: object) -> NoReturn:
        raise ConfigurationError(_MISUSED)

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"there is no {name} here: {_MISUSED}")

    __aiter__: Callable[..., NoReturn] = _raise_misused
    __iter__: Callable[..., NoReturn] = _raise_misused
    __await__: Callable[..., NoReturn] = _raise_misused
    __enter__: Callable[..., NoReturn] = _raise_misused
    __exit__: Callable[..., NoReturn] = _raise_misused


@checked
def open_stream(
    service: Service[Q, R], request: Q, ctx: Context | None = None, *, buffer: PositiveInt = 64
) -> AbstractAsyncContextManager[EventStream[R]]:
    """Call `service` and iterate over the events that it emits.

    ::

        async with open_stream(agent, request) as events:
            async for event in events:
                ...
        print(events.response)

    Args:
        ctx: The context to call it in; a new one by default. Its own listeners get no events of this call.
        buffer: The number of unread events at which the producer starts to wait.

    Leaving the block early cancels the call and waits for it to clean up.

    Raises:
        ConfigurationError: `service` or `buffer` is not valid, or the stream is read outside of its block.
    """
    return _StreamBlock(as_service(service), request, ctx or root(), buffer)
