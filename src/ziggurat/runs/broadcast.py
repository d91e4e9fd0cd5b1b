"""Subscriptions to one run, for many readers: recorded entries by number, other events as they happen."""

from collections import deque
from collections.abc import AsyncGenerator

from msgspec import Struct, field

from ziggurat.core.event import Emit, Event, Passing, Skipped
from ziggurat.journal.entries import JournalEntry
from ziggurat.journal.journal import LocalJournal


class SubscribedItem(Struct, frozen=True):
    """One item that a subscriber receives.

    Attributes:
        number: The entry's number, from 1 and without gaps; for an event, the number of the last entry before it.
        index: 0 for an entry; events after it are counted from 1.
        what: An event; or an entry of the record that is no event, such as `Opened` and `Ended`.
    """

    number: int
    index: int
    what: JournalEntry | Event


class Unread(Struct, eq=False):
    """The unread events of one reader; beyond a number the oldest are dropped."""

    limit: int = 1000
    items: deque[SubscribedItem] = field(default_factory=deque)
    dropped: int = 0

    def append(self, item: SubscribedItem) -> None:
        """Add an event."""
        self.items.append(item)
        if len(self.items) > self.limit:
            self.items.popleft()
            self.dropped += 1

    def skipped(self, number: int, index: int) -> SubscribedItem:
        """Return the item that stands for what was dropped, to come after another item, and forget it."""
        count, self.dropped = self.dropped, 0
        return SubscribedItem(number, index + 1, Skipped("", count))


class EventBroadcast(Passing):
    """An `Emit` that also delivers the events of a run to its subscribers, who never make it wait."""

    def __init__(
        self,
        journal: LocalJournal,
        outer: Emit,
        *,
        pieces: bool = False,
        recorded: tuple[type[Event], ...] = (),
    ) -> None:
        super().__init__(outer)
        self.journal = journal
        self.pieces = pieces
        self.recorded = recorded
        self.readers: list[Unread] = []
        self._latest = Unread()  # the events since the last entry, for who subscribes now
        self._number = 0
        self._index = 0

    def listens(self, kind: type[Event], /) -> bool:
        """Return whether there is a subscriber, or `outer` listens to this kind of event."""
        if self.outer.listens(kind) or (self.pieces and kind.piece):
            return True
        return bool(self.readers) and kind not in self.recorded

    async def __call__(self, event: Event, /) -> None:
        """Deliver an event to all readers, then to `outer`."""
        if (self.readers or self.pieces) and not isinstance(event, self.recorded):
            number = self.journal.stable
            if number != self._number:
                self._number, self._index, self._latest = number, 0, Unread()
            self._index += 1
            item = SubscribedItem(number, self._index, event)
            if self.pieces:
                self._latest.append(item)
            for reader in self.readers:
                reader.append(item)
            self.journal.wake()
        if self.outer.listens(type(event)):
            await self.outer(event)

    def subscribed(self) -> Unread:
        """Return the unread events of a new reader, at first those since the last entry."""
        unread = Unread()
        if self.journal.stable == self._number:
            for item in self._latest.items:
                unread.append(item)
            unread.dropped += self._latest.dropped
        self.readers.append(unread)
        return unread


async def subscribe(
    journal: LocalJournal,
    broadcast: EventBroadcast | None = None,
    *,
    after: int = 0,
    unread: Unread | None = None,
) -> AsyncGenerator[SubscribedItem, None]:
    """Yield the recorded entries of a run after number `after`, then new items, until the run has ended."""
    # A reader gets all entries in order, whenever it joins. Events that are not recorded, such as pieces of a reply,
    # arrive only while it is subscribed, with those since the last entry; when it is too many events behind,
    # the oldest are dropped, and a `Skipped` says how many.
    if unread is None:
        unread = Unread() if broadcast is None else broadcast.subscribed()
    number, index = after, 0

    def over() -> bool:
        return journal.closed or (journal.ended is not None and number >= len(journal.entries))

    def news() -> bool:
        return bool(unread.items) or number < journal.stable or over()

    try:
        while True:
            while unread.items and unread.items[0].number <= number:
                item = unread.skipped(number, index) if unread.dropped else unread.items.popleft()
                index = item.index
                yield item
            if number < journal.stable:
                number, index = number + 1, 0
                yield SubscribedItem(number, 0, journal.entries[number - 1])
            elif over():
                return
            else:
                await journal.changed(news)
    finally:
        if broadcast is not None:
            broadcast.readers[:] = [reader for reader in broadcast.readers if reader is not unread]
