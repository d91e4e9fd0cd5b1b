"""Live messages: what the driver of a run sends to readers in other processes while they listen, and never records.

A store may pass such messages; see `SupportsLiveMessages`. They may be lost, but arrive in order.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, runtime_checkable

from ziggurat.core.containment import ring

Send = Callable[[bytes], Awaitable[None]]
"""Sends a message to all that listen; one that cannot be passed is lost."""

_LARGEST = 4 << 20


class LiveReader(Protocol):
    """One that listens to the live messages of a log."""

    def take(self) -> list[bytes]:
        """Return the messages that have arrived since the last call, in order; of a slow reader the oldest are lost."""
        ...

    async def wait(self, seconds: float) -> None:
        """Wait until there may be messages, at most `seconds` seconds."""
        ...


class LiveMessages(Protocol):
    """The live messages of a store's logs, between all processes that use it."""

    def listen(self, log: str) -> AbstractAsyncContextManager[LiveReader]:
        """Listen to the messages of a log; whoever drives it learns of it by `watched`, until the process ends."""
        ...

    async def watched(self, logs: Sequence[str]) -> Collection[str]:
        """Return those of some logs to which anybody listens."""
        ...

    def sending(self, log: str) -> AbstractAsyncContextManager[Send]:
        """Send messages, of JSON without line breaks, to those that listen to a log."""
        ...


@runtime_checkable
class SupportsLiveMessages(Protocol):
    """A store that passes live messages between processes, so that readers get pieces of replies from anywhere."""

    @property
    def live(self) -> LiveMessages:
        """The live messages of its logs."""
        ...


class LiveBuffer:
    """A reader's messages, put by any thread; of more than a few megabytes the oldest are dropped."""

    def __init__(self) -> None:
        self._messages: deque[bytes] = deque()
        self._size = 0
        self._lock = threading.Lock()
        self._waiting: asyncio.Future[None] | None = None

    def put(self, message: bytes) -> None:
        """Add a message, and wake the reader."""
        with self._lock:
            self._messages.append(message)
            self._size += len(message)
            while self._size > _LARGEST:
                self._size -= len(self._messages.popleft())
            waiting, self._waiting = self._waiting, None
        if waiting is not None:
            ring(waiting)

    def take(self) -> list[bytes]:
        """Return the messages; see `LiveReader`."""
        with self._lock:
            messages = list(self._messages)
            self._messages.clear()
            self._size = 0
        return messages

    async def wait(self, seconds: float) -> None:
        """Wait for messages; see `LiveReader`."""
        with self._lock:
            if self._messages:
                return
            waiting = self._waiting = asyncio.get_running_loop().create_future()
        await asyncio.wait([waiting], timeout=seconds)
