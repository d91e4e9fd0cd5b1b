"""Streams of server-sent events as the server sends them: their beginning, what keeps them alive, and when they end."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from ziggurat.core.tasks import end_all
from ziggurat.serve.guard import Receive, Send

HEARTBEAT = 15.0  # seconds after which a comment is sent, so that nobody on the way takes the connection for dead
KEEP_ALIVE = b": still here\n\n"  # the comment
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


class Closing:
    def __init__(self) -> None:
        self.closed: bool = False
        self.streams: set[Callable[[], None]] = set()

    def close(self) -> None:
        """End the streams, each with an event ``bye``; may be called again."""
        self.closed = True
        for end in list(self.streams):
            end()

    async def wait(self) -> None:
        ended = asyncio.Event()
        self.streams.add(ended.set)
        try:
            if not self.closed:
                await ended.wait()
        finally:
            self.streams.discard(ended.set)


async def begin(send: Send, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [*_HEADERS, *headers]})


async def write(send: Send, body: bytes, *, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": more})


async def attend(
    work: "asyncio.Future[Any]", receive: Receive, closing: Closing, keep_alive: Callable[[], Awaitable[None]]
) -> bool:
    """Wait until work is done, the client has gone or the server ends; return whether the client has gone."""

    async def gone() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    going, ending = asyncio.ensure_future(gone()), asyncio.ensure_future(closing.wait())
    ends = [work, going, ending]
    try:
        while not (await asyncio.wait(ends, timeout=HEARTBEAT, return_when=asyncio.FIRST_COMPLETED))[0]:
            await keep_alive()
        return going.done()
    finally:
        await end_all([going, ending])
