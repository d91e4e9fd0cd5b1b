"""Streams of server-sent events as the server sends them: their beginning, what keeps them alive, and when they end."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

from ziggurat.serve.guard import Receive, Send

HEARTBEAT = 15.0
"""Seconds after which a comment is sent, so that nobody on the way takes the connection for dead."""

KEEP_ALIVE = b": still here\n\n"
"""The comment."""

_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


class Closing:
    """Tells all streams that the server is about to end."""

    def __init__(self) -> None:
        self.closed: bool = False
        self._streams: set[Callable[[], None]] = set()

    def close(self) -> None:
        """End the streams, each with an event ``bye``; may be called again."""
        self.closed = True
        for end in list(self._streams):
            end()

    def add(self, end: Callable[[], None]) -> None:
        self._streams.add(end)

    def discard(self, end: Callable[[], None]) -> None:
        self._streams.discard(end)

    async def wait(self) -> None:
        ended = asyncio.Event()
        self.add(ended.set)
        try:
            if not self.closed:
                await ended.wait()
        finally:
            self.discard(ended.set)


async def begin(send: Send, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [*_HEADERS, *headers]})


async def write(send: Send, body: bytes, *, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": more})


async def attend(
    work: "asyncio.Future[Any]", receive: Receive, closing: Closing, keep_alive: Callable[[], Awaitable[None]]
) -> bool:
    """Wait until work is done, the client has gone or the server is about to end; return whether the client has
    gone."""
    while not (work.done() or closing.closed):
        with suppress(TimeoutError):
            async with asyncio.timeout(HEARTBEAT) as limit:  # one task and one timer, as thousands may be open
                ends = partial(_end, limit)
                work.add_done_callback(ends)
                closing.add(ends)
                try:
                    while (await receive())["type"] != "http.disconnect":
                        pass
                    return True
                finally:
                    work.remove_done_callback(ends)
                    closing.discard(ends)
        if not (work.done() or closing.closed):
            await keep_alive()
    return False


def _end(limit: asyncio.Timeout, work: object = None) -> None:
    with suppress(RuntimeError):  # it has ended already
        limit.reschedule(0)
