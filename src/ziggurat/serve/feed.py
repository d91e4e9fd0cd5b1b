"""The events of a run as its readers get them, read and encoded once for all readers of this server."""

import asyncio
import secrets
from collections import deque
from collections.abc import MutableMapping
from contextlib import aclosing, suppress
from typing import Any, TypeAlias

from msgspec import Struct

from ziggurat.agents.handle import RunHandle
from ziggurat.agents.runnable import Runnable
from ziggurat.core.codec import encode
from ziggurat.core.errors import ConfigurationError, RunNotFound, StoreError
from ziggurat.core.tasks import end_all
from ziggurat.journal.entries import Ended, JournalEntry, write_entry
from ziggurat.observe.jsonl import event_line
from ziggurat.runs.control import SubscribedItem
from ziggurat.runs.runs import Runs, runs_of
from ziggurat.serve import sse
from ziggurat.serve.guard import Receive, Send
from ziggurat.serve.requests import first_id

_BOOT: str = secrets.token_hex(4)
"""Names this process: the events between two entries are numbered by the process that sends them."""

END = "end"  # stands in the id of the last event of a run in place of its number
LIMIT = 256 * 1024  # bytes of events that a feed keeps by default
_LOOK = 1.0  # seconds between looks at a run without events, which may have lost its process
_OVERHEAD = 150  # bytes that an event takes besides its text
Place: TypeAlias = tuple[int, int]
"""Where an event stands: the number of the last entry, and its index after that; 0 is the entry itself."""


class _Frame(Struct, frozen=True, gc=False):
    """One event as it is sent; what is not numbered says something of the run at this place."""

    place: Place
    data: bytes
    numbered: bool = True


class Feed:
    def __init__(self, run: RunHandle[Any], runs: Runs, start: Place, feeds: "Feeds") -> None:
        self.run = run
        self.start: Place = start
        self.count: int = 0
        self.state: bytes = b""
        self.ended: bool = False
        self.error: Exception | None = None
        self._feeds = feeds
        self._runs = runs
        self._place = start
        self._frames: deque[_Frame] = deque()
        self._size = 0
        self._look: asyncio.Task[None] | None = None
        self._beat = 0  # how many events there were at the last look
        self._readers: set[EventFeed] = set()
        self._waiting: set[EventFeed] = set()
        loop = asyncio.get_running_loop()
        self._silent = 0.0  # seconds without an event
        self._pause = min(_LOOK, feeds.heartbeat)
        self._timer = loop.call_later(self._pause, self._keep_alive)
        self._pump = loop.create_task(self._read())

    # -- its readers ---------------------------------------------------------------------------------------------

    def add(self, reader: "EventFeed") -> None:
        self._readers.add(reader)

    def wait(self, reader: "EventFeed") -> None:
        """Wake a reader when there is something new; what all have read is no longer kept."""
        self._waiting.add(reader)
        if len(self._waiting) == len(self._readers):
            self._drop(0)

    async def remove(self, reader: "EventFeed") -> None:
        self._readers.discard(reader)
        self._waiting.discard(reader)
        if not self._readers:
            self._end()
            await end_all([self._pump])

    def close(self) -> None:
        for reader in list(self._readers):
            reader.close()

    def behind(self, place: Place) -> int:
        """Return how many of the last events follow the place of a reader, which must not be before `start`."""
        behind = 0
        for number, frame in enumerate(reversed(self._frames), 1):
            if frame.numbered and frame.place <= place:
                break
            if frame.numbered:
                behind = number
        return behind

    def latest(self, count: int, place: Place) -> tuple[bytes, Place]:
        """Return what of the last events is after a place, or says something of the run, and the place behind it."""
        frames = [self._frames[-number] for number in range(count, 0, -1)]
        fresh = [frame.data for frame in frames if frame.place > place or not frame.numbered]
        return b"".join(fresh), max(place, frames[-1].place) if frames else place

    def keeps(self, count: int) -> bool:
        return count <= len(self._frames)

    # -- the run -------------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        try:
            while await self._read_on():
                if not await self._runs.continued(self.run.id, self._place[0]):
                    break
        except RunNotFound:  # it was removed meanwhile
            pass
        except Exception as error:  # noqa: BLE001  each reader raises it, where the server logs it
            self.error = error
        if self.error is None:
            self._append_state(b"id: %d.%b\nevent: end\ndata: {}\n\n" % (self._place[0], END.encode()))
        self._end()
        self._wake()

    async def _read_on(self) -> bool:
        waits, stop = True, ""  # without an end on record it was interrupted
        number = max(0, self._place[0] - 1)
        async with aclosing(self.run.events(after=number)) as items:  # again with the last entry
            async for item in items:
                if isinstance(item.what, JournalEntry):
                    waits, stop = not _is_end(item.what), getattr(item.what, "stop", "")
                if (item.number, item.index) > self._place:
                    self._place, self.state = (item.number, item.index), b""
                    self._append(_event_bytes(item), numbered=True)
                if stop == "Continued":  # the next run has a stream of its own
                    break
        if waits and not self.state:
            self._append_state(self._waiting_event())
        return waits

    def _waiting_event(self) -> bytes:
        reason = self._feeds.failures.get(first_id(self.run.id))
        return b"event: waiting\ndata: %b\n\n" % encode({} if reason is None else {"error": reason})

    def _append_state(self, data: bytes) -> None:
        self.state = data
        self._append(data)

    def _append(self, data: bytes, *, numbered: bool = False) -> None:
        self._frames.append(_Frame(self._place, data, numbered))
        self.count += 1
        self._size += len(data) + _OVERHEAD
        self._drop(self._feeds.limit)
        self._wake()

    def _drop(self, limit: int) -> None:
        """Keep no more than some bytes, and the last event while a limit allows any."""
        while self._size > limit and len(self._frames) > (limit > 0):
            dropped = self._frames.popleft()
            self.start = dropped.place
            self._size -= len(dropped.data) + _OVERHEAD

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, set()
        for reader in waiting:
            reader.wake()

    def _keep_alive(self) -> None:
        self._silent = self._silent + self._pause if self._beat == self.count else 0.0
        if self._silent:
            if self._silent >= self._feeds.heartbeat:
                self._silent = 0.0
                self._append(sse.KEEP_ALIVE)
            if (
                self.state == _WAITING != (state := self._waiting_event())
            ):  # the reason is known when the task of the run ends
                self._append_state(state)
            elif not self.state:
                self._look = asyncio.get_running_loop().create_task(self._look_for_process())
        self._beat = self.count
        self._timer = asyncio.get_running_loop().call_later(self._pause, self._keep_alive)

    async def _look_for_process(self) -> None:
        with suppress(StoreError):  # reading the run meets it as well
            count, info = self.count, await self._runs.find(self.run.id)
            driven = info is None or self._runs.is_driven(info)  # of one that is gone the end is told
            if not driven and not self.state and not self.ended and count == self.count:
                self._append_state(self._waiting_event())

    def _end(self) -> None:
        self.ended = True
        self._timer.cancel()
        if self._look is not None:
            self._look.cancel()
        self._feeds.remove(self.run.id, self)


class Feeds:
    def __init__(
        self,
        closing: sse.Closing,
        limit: int = LIMIT,
        heartbeat: float = sse.HEARTBEAT,
        failures: dict[str, str] | None = None,
    ) -> None:
        self.closing = closing
        self.failures: dict[str, str] = {} if failures is None else failures
        self.heartbeat = heartbeat
        self.limit = limit
        self._feeds: dict[str, Feed] = {}

    def open(self, run: RunHandle[Any], runs: Runs, place: Place) -> Feed:
        feed = self._feeds.get(run.id)
        if feed is None:
            feed = self._feeds[run.id] = Feed(run, runs, place, self)
            self.closing.streams.add(feed.close)
        return feed

    def remove(self, run_id: str, feed: Feed) -> None:
        self.closing.streams.discard(feed.close)
        if self._feeds.get(run_id) is feed:
            del self._feeds[run_id]


def _event_bytes(item: SubscribedItem) -> bytes:
    what = item.what
    data = write_entry(what) if isinstance(what, JournalEntry) else event_line(what).encode()
    place = f"{item.number}.{item.index}.{_BOOT}" if item.index else str(item.number)
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (place.encode(), type(what).__name__.encode(), data)


def _is_end(entry: JournalEntry) -> bool:
    """Return whether a run goes on after an entry only if somebody resumes one that has failed, or the like."""
    return isinstance(entry, Ended) and entry.stop != "Suspended" and not entry.interrupted


class Position(Struct, frozen=True):
    number: int = 0
    index: int = 0
    ended: bool = False

    @classmethod
    def read(cls, text: str) -> "Position":
        number, _, rest = text.partition(".")
        index, _, boot = rest.partition(".")
        if not (_is_number(number) and (rest in ("", END) or _is_number(index))):
            raise ConfigurationError(f"after is the id of an event, such as 12, got {text!r:.100}")
        return cls(int(number[:18]), int(index[:18]) if boot == _BOOT else 0, rest == END)


class EventFeed:
    """A response, as an ASGI application: items of a run, from a position on, until the run or the server ends."""

    __slots__ = ("_error", "_feed", "_feeds", "_place", "_read", "_resets", "_run", "_runs", "_send", "_writing")

    def __init__(self, feeds: Feeds, agent: Runnable[Any], run_id: str, after: Position | None) -> None:
        self._feeds = feeds
        self._run = agent.attach(run_id)
        self._runs = runs_of(agent.store)
        self._resets = after is None
        self._place: Place = (0, 0) if after is None else (after.number, after.index)
        self._read = -1  # events of the feed that it has; -1 if it reads the record by itself
        self._writing: asyncio.Task[None] | None = None
        self._error: Exception | None = None
        self._feed: Feed
        self._send: Send

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        self._send = send
        await sse.begin(send)
        await sse.write(send, b"retry: 500\n\nevent: reset\ndata: {}\n\n" if self._resets else b"retry: 500\n\n")
        self._feed = self._feeds.open(self._run, self._runs, self._place)
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
        if not self._feeds.closing.closed:
            self._writing = asyncio.get_running_loop().create_task(self._write())

    def close(self) -> None:
        if self._writing is not None:
            self._writing.cancel()
        self._writing = asyncio.get_running_loop().create_task(sse.write(self._send, _BYE, more=False))

    async def _write(self) -> None:
        feed = self._feed
        try:
            while (behind := await self._behind()) or feed.ended:
                ends = feed.ended
                data, self._place = feed.latest(behind, self._place)
                self._read = feed.count
                await sse.write(self._send, data, more=not ends)
                if ends:
                    return
            self._writing = None
            feed.wait(self)
        except Exception as error:  # noqa: BLE001  raised again in the task that the server looks at
            self._error = error
            await sse.write(self._send, b"", more=False)

    async def _behind(self) -> int:
        feed = self._feed
        while self._read < 0 or not feed.keeps(feed.count - self._read):
            if self._place < feed.start:
                await self._write_record()
            else:
                behind = feed.behind(self._place)
                self._read = feed.count - behind
                if feed.state and not behind:  # as those were told who were here before
                    await sse.write(self._send, feed.state)
        return feed.count - self._read

    async def _write_record(self) -> None:
        feed, self._read = self._feed, -1
        with suppress(RunNotFound):  # it was removed meanwhile, as the feed tells
            async with aclosing(self._run.events(after=max(0, self._place[0] - 1))) as items:
                async for item in items:
                    if (item.number, item.index) > self._place:
                        self._place = (item.number, item.index)
                        await sse.write(self._send, _event_bytes(item))
                    if self._place >= feed.start:
                        return
        self._place = max(self._place, feed.start)


_WAITING = b"event: waiting\ndata: {}\n\n"
_BYE = b"event: bye\ndata: {}\n\n"


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
