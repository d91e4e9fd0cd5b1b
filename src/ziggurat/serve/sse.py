"""Streams of server-sent events as the server sends them: their beginning, what keeps them alive, and when they end."""

__all__ = ["KEEP_ALIVE", "Closing", "attend", "begin", "write"]

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from ziggurat.serve.guard import Receive, Send

_HEARTBEAT = 15.0
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
        self._event = asyncio.Event()

    def close(self) -> None:
        """End the streams, each with an event ``bye``; may be called again."""
        self._event.set()

    @property
    def closed(self) -> bool:
        """Whether the server is about to end."""
        return self._event.is_set()

    async def wait(self) -> None:
        """Wait until the server is about to end."""
        await self._event.wait()


async def begin(send: Send, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
    """Begin a stream."""
    await send({"type": "http.response.start", "status": 200, "headers": [*_HEADERS, *headers]})


async def write(send: Send, body: bytes, *, more: bool = True) -> None:
    """Send a part of a stream."""
    await send({"type": "http.response.body", "body": body, "more_body": more})


async def attend(
    work: "asyncio.Future[Any]", receive: Receive, closing: Closing, keep_alive: Callable[[], Awaitable[None]]
) -> bool:
    """Wait until work is done, the client has gone or the server is about to end; return whether the client has gone.

    Args:
        work: What is waited for.
        receive: Tells when the client has gone.
        closing: Tells when the server ends.
        keep_alive: Called every 15 seconds.
    """
    left = asyncio.ensure_future(_left(receive))
    ends = asyncio.ensure_future(closing.wait())
    try:
        while not (work.done() or left.done() or ends.done()):
            done, _ = await asyncio.wait({work, left, ends}, timeout=_HEARTBEAT, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                await keep_alive()
        return left.done()
    finally:
        for task in (left, ends):
            task.cancel()
        await asyncio.gather(left, ends, return_exceptions=True)


async def _left(receive: Receive) -> None:
    """Wait until the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
