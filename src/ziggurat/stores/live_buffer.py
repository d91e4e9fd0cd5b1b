"""The live messages of one reader, which any thread may put."""

import asyncio
import threading
from collections import deque

from ziggurat.core.tasks import ring

_LARGEST = 4 << 20


class LiveBuffer:
    """A reader's messages, put by any thread; of more than a few megabytes the oldest are dropped."""

    def __init__(self) -> None:
        self._messages: deque[bytes] = deque()
        self._size = 0
        self._lock = threading.Lock()
        self._waiting: asyncio.Future[None] | None = None

    def put(self, message: bytes) -> None:
        with self._lock:
            self._messages.append(message)
            self._size += len(message)
            while self._size > _LARGEST:
                self._size -= len(self._messages.popleft())
            waiting, self._waiting = self._waiting, None
        if waiting is not None:
            ring(waiting)

    def take(self) -> list[bytes]:
        with self._lock:
            messages = list(self._messages)
            self._messages.clear()
            self._size = 0
        return messages

    async def wait(self, seconds: float) -> None:
        with self._lock:
            if self._messages:
                return
            waiting = self._waiting = asyncio.get_running_loop().create_future()
        await asyncio.wait([waiting], timeout=seconds)
