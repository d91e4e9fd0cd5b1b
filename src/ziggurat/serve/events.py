"""The events of a run as a stream of server-sent events, written directly to the connection."""

import asyncio
from collections.abc import MutableMapping
from contextlib import aclosing, suppress
from typing import Any

from msgspec import Struct

from ziggurat.agents.attached import AttachedRun
from ziggurat.core.errors import ConfigurationError, RunNotFound
from ziggurat.serve.feed import BOOT, END, Feed, Feeds, Place, event_bytes
from ziggurat.serve.guard import Receive, Send
from ziggurat.serve.sse import begin, write


class Position(Struct, frozen=True):
    """Where a reader is in the stream of a run."""

    number: int = 0
    index: int = 0
    ended: bool = False

    @classmethod
    def read(cls, text: str) -> "Position":
        """Return the position that an event id, or ``?after=``, states."""
        number, _, rest = text.partition(".")
        index, _, boot = rest.partition(".")
        if not (_is_number(number) and (rest in ("", END) or _is_number(index))):
            raise ConfigurationError(f"after is the id of an event, such as 12, got {text!r:.100}")
        return cls(int(number[:18]), int(index[:18]) if boot == BOOT else 0, rest == END)


class EventStream:
    """A response, as an ASGI application: items of a run, from a position on, until the run or the server ends."""

    __slots__ = ("_error", "_feed", "_feeds", "_place", "_read", "_resets", "_run", "_send", "_writing")

    def __init__(self, feeds: Feeds, run: AttachedRun[Any], after: Position | None) -> None:
        self._feeds = feeds
        self._run = run
        self._resets = after is None
        self._place: Place = (0, 0) if after is None else (after.number, after.index)
        self._read = -1  # events of the feed that it has; -1 if it reads the record by itself
        self._writing: asyncio.Task[None] | None = None
        self._error: Exception | None = None
        self._feed: Feed
        self._send: Send

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Send the stream."""
        self._send = send
        await begin(send)
        await write(send, b"retry: 500\n\nevent: reset\ndata: {}\n\n" if self._resets else b"retry: 500\n\n")
        self._feed = self._feeds.open(self._run, self._place)
        self._run = self._feed.run  # one for all readers
        self._feed.add(self)
        if self._feeds.closing.closed:
            self.close()
        else:
            self.wake()
        try:
            while (await receive())["type"] != "http.disconnect":  # by the client, or as all was sent
                pass
        finally:
            if self._writing is not None:
                self._writing.cancel()
            await self._feed.remove(self)
        error = self._error or self._feed.error
        if error is not None:
            raise error

    def wake(self) -> None:
        """Write what is new."""
        if not self._feeds.closing.closed:
            self._writing = asyncio.get_running_loop().create_task(self._write())

    def close(self) -> None:
        """Tell the client that the server ends, and end."""
        if self._writing is not None:
            self._writing.cancel()
        self._writing = asyncio.get_running_loop().create_task(write(self._send, _BYE, more=False))

    async def _write(self) -> None:
        """Write until nothing is new."""
        feed = self._feed
        try:
            while (behind := await self._behind()) or feed.ended:
                ends = feed.ended
                data, self._place = feed.latest(behind, self._place)
                self._read = feed.count
                await write(self._send, data, more=not ends)
                if ends:
                    return
            self._writing = None
            feed.wait(self)
        except Exception as error:  # noqa: BLE001  raised again in the task that the server looks at
            self._error = error
            await write(self._send, b"", more=False)

    async def _behind(self) -> int:
        """Return how many events of the feed are to be written, when it has them all."""
        feed = self._feed
        while self._read < 0 or not feed.keeps(feed.count - self._read):
            if self._place < feed.start:
                await self._write_record()
            else:
                behind = feed.behind(self._place)
                self._read = feed.count - behind
                if feed.state and not behind:  # as those were told who were here before
                    await write(self._send, feed.state)
        return feed.count - self._read

    async def _write_record(self) -> None:
        """Write what the feed does not have, from the record."""
        feed, self._read = self._feed, -1
        with suppress(RunNotFound):  # it was removed meanwhile, as the feed tells
            async with aclosing(self._run.events(after=max(0, self._place[0] - 1))) as items:
                async for item in items:
                    if (item.number, item.index) > self._place:
                        self._place = (item.number, item.index)
                        await write(self._send, event_bytes(item))
                    if self._place >= feed.start:
                        return
        self._place = max(self._place, feed.start)


_BYE = b"event: bye\ndata: {}\n\n"


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
