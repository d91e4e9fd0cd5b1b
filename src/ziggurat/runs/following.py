"""Follow a run that another process drives: its entries from the store, and its other events as they happen."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any, cast

from ziggurat.core.settings import implements
from ziggurat.core.tasks import first_of
from ziggurat.journal.entries import ConversationReader
from ziggurat.journal.rows import known_run, lines_of, read_rows
from ziggurat.journal.store import LiveMessages, LiveReader, Store, SupportsChangeSignal, run_log
from ziggurat.runs.control import SubscribedItem
from ziggurat.runs.live import LiveEvents
from ziggurat.stores.records import reader_of

POLL = 0.1  # seconds between checks of a run that another process drives

WAIT = 1.0  # the same for stores that notify of writes by other processes

PATIENCE = 0.25  # seconds for which an entry waits for the events before it, which may still be under way


Begun = Callable[[float], Coroutine[Any, Any, bool]]
"""Waits until this process drives the run, at most for some seconds, and returns whether it does."""


class _Follower:
    """Reads the entries of a run, and puts its live events in their places between them."""

    def __init__(self, store: Store, run_id: str, begun: Begun, live: LiveReader | None) -> None:
        self._store, self._run_id, self._begun, self._live = store, run_id, begun, live
        self._signals = implements(store, SupportsChangeSignal)
        self._events = LiveEvents()
        self._rows: deque[SubscribedItem] = deque()  # read, and not yet delivered
        self._read, self._digest = 0, ""
        self._reader: ConversationReader | None = None
        self._place = (0, 0)
        self._ended = False
        self._look = self._blocked = 0.0  # when to look for rows again, and since when something waits for events

    async def look(self) -> None:
        if self._live is not None:
            self._events.read(self._live.take())
        now = asyncio.get_running_loop().time()
        if now < self._look and self._events.stable <= self._read:
            return
        info = await known_run(self._store, self._run_id)
        log = run_log(self._run_id)
        rows = await read_rows(self._store, log, self._read, self._digest)
        for row, line in zip(rows, await lines_of(self._store, log, rows), strict=True):
            if self._reader is None:
                self._reader = await reader_of(self._store, line)
            self._read, self._digest = row.number, row.digest
            self._rows.append(SubscribedItem(row.number, 0, self._reader.entry(line)))
        self._ended = self._read >= info.count and info.status != "running"
        self._look = now + (WAIT if self._signals else POLL)

    def next(self) -> SubscribedItem | None:
        """Return the item that is next, None if there is none yet."""
        item = self._events.next(*self._place)
        if item is None and self._rows and not self._waits_for(self._rows[0].number):
            item = self._rows.popleft()
        if item is not None:
            self._place, self._blocked = (item.number, item.index), 0.0
        return item

    def _waits_for(self, number: int) -> bool:
        """Return whether events may still come that belong before an entry."""
        if not self._events.sent or self._events.stable >= number:
            return False
        now = asyncio.get_running_loop().time()
        self._blocked = self._blocked or now
        if now - self._blocked < PATIENCE:
            return True
        self._events.sent = False  # its sender is gone
        return False

    @property
    def over(self) -> bool:
        """Whether the run has ended, and nothing is left to be delivered."""
        return self._ended and not self._rows and not self._waits_for(self._read + 1)

    async def wait(self) -> None:
        seconds = PATIENCE if self._blocked else (WAIT if self._signals else POLL)
        waits: list[Coroutine[Any, Any, object]] = [self._begun(seconds)]
        if self._signals:
            waits.append(self._changed(seconds))
        if self._live is not None:
            waits.append(self._live.wait(seconds))
        await first_of(*waits)

    async def _changed(self, seconds: float) -> None:
        await cast("SupportsChangeSignal", self._store).changed(run_log(self._run_id), self._read, seconds)
        self._look = 0.0


async def followed(store: Store, run_id: str, begun: Begun, *, live: bool) -> AsyncGenerator[SubscribedItem, None]:
    """Yield the entries of a run, and its other events since now, until it has ended or this process drives it."""
    await known_run(store, run_id)
    async with AsyncExitStack() as stack:
        reader: LiveReader | None = None
        messages: LiveMessages | None = getattr(store, "live", None)
        if live and messages is not None:
            reader = await stack.enter_async_context(messages.listen(run_log(run_id)))
        follower = _Follower(store, run_id, begun, reader)
        while True:
            await follower.look()
            while (item := follower.next()) is not None:
                yield item
            if follower.over or await begun(0.0):
                return
            await follower.wait()
