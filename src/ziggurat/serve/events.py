"""The events of a run as a stream of server-sent events, written directly to the connection."""

__all__ = ["EventStream", "Position"]

import asyncio
import secrets
from collections.abc import MutableMapping
from contextlib import aclosing
from functools import partial
from typing import Any

from msgspec import Struct

from ziggurat.agents.attached import AttachedRun
from ziggurat.core.broadcast import SubscribedItem
from ziggurat.core.entries import Ended, JournalEntry
from ziggurat.core.errors import ConfigurationError, RunNotFound
from ziggurat.core.json_lines import write_entry
from ziggurat.observe.jsonl import event_line
from ziggurat.serve.guard import Receive, Send
from ziggurat.serve.sse import KEEP_ALIVE, Closing, attend, begin, write

_BOOT = secrets.token_hex(4)
"""Names this process: the events between two entries are numbered by the process that sends them."""

_END = "end"
"""Stands in the id of the last event of a run in place of its number."""


class Position(Struct, frozen=True):
    """Where a reader is in the stream of a run.

    Attributes:
        number: Of the last entry that it has.
        index: Of the last event after that entry, which this process has sent.
        ended: Whether it has the event `end`, which came after that entry.
    """

    number: int = 0
    index: int = 0
    ended: bool = False

    @classmethod
    def read(cls, text: str) -> "Position":
        """Return the position that an event id, or ``?after=``, states: ``12``, ``12.5.`` and the process, ``12.end``.

        Raises:
            ConfigurationError: it is no such text.
        """
        number, _, rest = text.partition(".")
        index, _, boot = rest.partition(".")
        if not (_is_number(number) and (rest in ("", _END) or _is_number(index))):
            raise ConfigurationError(f"after is the id of an event, such as 12, got {text!r:.100}")
        return cls(int(number[:18]), int(index[:18]) if boot == _BOOT else 0, rest == _END)


class EventStream:
    """A response, as an ASGI application: items of a run, from a position on, until the run or the server ends.

    While the run waits, or was interrupted, the stream stays open, and goes on with the run. A reader that stops
    reading stops its own stream, and nothing else: its unread events are dropped beyond a number.

    Args:
        run: The run.
        after: What the reader has; ``None`` if it is unknown here, so that it must begin anew.
        closing: Tells when the server ends.
    """

    def __init__(self, run: AttachedRun[Any], after: Position | None, closing: Closing) -> None:
        self._run = run
        self._after = after
        self._place = after or Position()
        self._closing = closing
        self._sent = False

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Send the stream."""
        await begin(send)
        first = b"retry: 500\n\n" if self._after is not None else b"retry: 500\n\nevent: reset\ndata: {}\n\n"
        await write(send, first)
        pump = asyncio.ensure_future(self._pump(send))
        try:
            await attend(pump, receive, self._closing, partial(self._keep_alive, send))
        finally:
            pump.cancel()
            [outcome] = await asyncio.gather(pump, return_exceptions=True)
        if isinstance(outcome, Exception):
            raise outcome
        if self._closing.closed:
            await write(send, b"event: bye\ndata: {}\n\n")
        await write(send, b"", more=False)

    async def _keep_alive(self, send: Send) -> None:
        if not self._sent:
            await write(send, KEEP_ALIVE)
        self._sent = False

    async def _pump(self, send: Send) -> None:
        try:
            while await self._send_items(send):
                if not await self._run.continued(after=self._place.number):
                    break
        except RunNotFound:  # it was removed meanwhile
            pass
        await write(send, b"id: %d.%b\nevent: end\ndata: {}\n\n" % (self._place.number, _END.encode()))

    async def _send_items(self, send: Send) -> bool:
        """Send items until the run has ended or waits; return whether it may go on."""
        began, waits = self._place, False
        async with aclosing(self._run.events(after=max(0, began.number - 1))) as items:  # again with the last entry
            async for item in items:
                if isinstance(item.what, JournalEntry):
                    waits = isinstance(item.what, Ended) and (item.what.stop == "Suspended" or item.what.interrupted)
                if (item.number, item.index) > (self._place.number, self._place.index):
                    self._place, self._sent = Position(item.number, item.index), True
                    await write(send, _event(item))
        if waits and (self._place is not began or self._place is self._after):
            await write(send, b"event: waiting\ndata: {}\n\n")
        return waits


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _event(item: SubscribedItem) -> bytes:
    what = item.what
    data = write_entry(what) if isinstance(what, JournalEntry) else event_line(what).encode()
    place = f"{item.number}.{item.index}.{_BOOT}" if item.index else str(item.number)
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (place.encode(), type(what).__name__.encode(), data)
