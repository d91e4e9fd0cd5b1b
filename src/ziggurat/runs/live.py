"""Live events: the events of a run, other than its entries, on their way from its process to readers in others."""

import asyncio
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import get_args

from msgspec import Raw, Struct

from ziggurat.core.clock import new_id
from ziggurat.core.codec import decode, encode
from ziggurat.core.errors import JournalCorrupt
from ziggurat.core.event import Event, Skipped
from ziggurat.journal.store import Send
from ziggurat.messages.events import AnyEvent, Delta, ModelStarted, StepEnded, StepStarted
from ziggurat.runs.control import EventBroadcast, SubscribedItem, Unread

PAUSE = 0.02  # seconds between the batches that are sent of one run; events in between go together

_LARGEST = 256 * 1024  # bytes of the events of a batch; those that do not fit are skipped

_KNOWN = frozenset(get_args(AnyEvent))
_SCREENED = frozenset({Delta, ModelStarted, Skipped, StepEnded, StepStarted})
"""The events of a run whose entries are redacted: those with text have passed the filters of deltas."""

_TOO_LARGE = encode(Skipped("", 1))


class _Batch(Struct, frozen=True, array_like=True):
    sender: str
    before: int
    stable: int
    over: bool
    items: list[tuple[int, int, Raw]]
    dropped: int = 0


class EventSender:
    """Sends the events of a run that this process drives, while readers in other processes listen."""

    def __init__(self, broadcast: EventBroadcast) -> None:
        self._broadcast = broadcast
        self._unread = Unread()
        self._over = asyncio.Event()
        self._id = new_id()
        self._sent = 0
        self._stable = 0

    async def run(self, send: Send) -> None:
        journal, readers = self._broadcast.journal, self._broadcast.readers
        readers.append(self._unread)
        try:
            while not self._is_over():
                await journal.changed(self._has_news)
                if not self._has_news():
                    continue
                await send(self._batch())
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._over.wait(), PAUSE)
            await send(self._batch())
        finally:
            readers[:] = [reader for reader in readers if reader is not self._unread]

    def end(self) -> None:
        self._over.set()
        self._broadcast.journal.wake()

    def _is_over(self) -> bool:
        return self._over.is_set() or self._broadcast.journal.closed

    def _has_news(self) -> bool:
        return bool(self._unread.items) or self._broadcast.journal.stable > self._stable or self._is_over()

    def _batch(self) -> bytes:
        unread, sent, size = self._unread, self._sent, 0
        kinds = _SCREENED if self._broadcast.journal.is_screened else _KNOWN
        dropped, unread.dropped = unread.dropped, 0
        items: list[tuple[int, int, Raw]] = []
        while unread.items:
            item = unread.items.popleft()
            if type(item.what) not in kinds:
                continue
            event = _encoded(item.what)
            if size + len(event) > _LARGEST:
                event = _TOO_LARGE
            size += len(event)
            items.append((item.number, item.index, Raw(event)))
        self._sent += dropped + len(items)
        self._stable = self._broadcast.journal.stable
        return encode(_Batch(self._id, sent, self._stable, self._is_over(), items, dropped))


def _encoded(event: object) -> bytes:
    try:
        return encode(event)
    except TypeError:  # it holds a value of the user's that has no JSON form
        return _TOO_LARGE


class LiveEvents:
    """The events of a run as received, in order; `Skipped` stands for those that are missing."""

    def __init__(self) -> None:
        self.items: deque[SubscribedItem] = deque()
        self.stable: int = 0
        self.sent: bool = False
        self._sender = ""
        self._expected = 0

    def read(self, messages: Iterable[bytes]) -> None:
        for message in messages:
            try:
                batch = decode(message, _Batch)
            except JournalCorrupt:  # the rest of a line of which the beginning was before this reader's time
                continue
            missing = batch.dropped
            if batch.sender == self._sender:
                missing += batch.before - self._expected
            self._sender, self._expected = batch.sender, batch.before + batch.dropped + len(batch.items)
            self.stable, self.sent = max(self.stable, batch.stable), not batch.over
            if missing:
                number, index, _ = batch.items[0] if batch.items else (batch.stable, 1, None)
                self.items.append(SubscribedItem(number, max(1, index - 1), Skipped("", missing)))
            self.items.extend(SubscribedItem(number, index, _event(raw)) for number, index, raw in batch.items)

    def next(self, number: int, index: int) -> SubscribedItem | None:
        """Return the event that comes after an item, before the next entry; None if there is none yet."""
        # Those that came too late, because a later entry was delivered without waiting for them, are skipped.
        late = 0
        while self.items and self.items[0].number < number:
            item = self.items.popleft()
            late += item.what.count if isinstance(item.what, Skipped) else 1
        if late:
            return SubscribedItem(number, index + 1, Skipped("", late))
        return self.items.popleft() if self.items and self.items[0].number == number else None


def _event(raw: Raw) -> Event:
    try:
        event: Event = decode(raw, AnyEvent)
    except JournalCorrupt:  # of a newer version
        return Skipped("", 1)
    return event
