"""Many readers of one run, also late ones: recorded entries by number, other events as they happen."""

__all__ = ["Broadcast", "Heard", "subscribe"]

from collections import deque
from collections.abc import AsyncGenerator

from msgspec import Struct

from ziggurat.core.entries import Entry
from ziggurat.core.event import Emit, Event
from ziggurat.core.journal import MemoryJournal


class Heard(Struct, frozen=True):
    """One thing a reader hears.

    Attributes:
        number: The entry's number, from 1 and without gaps; of an event, that of the last entry before it.
        index: 0 for an entry; events after it are counted from 1.
        what: An entry of the record, or an event that was passing.
    """

    number: int
    index: int
    what: Entry | Event


class _Reader:
    """What one reader has not taken yet; when it is slow the oldest passing events are lost, entries never."""

    __slots__ = ("passing",)

    def __init__(self, buffer: int) -> None:
        self.passing: deque[Heard] = deque(maxlen=buffer)


class Broadcast:
    """The way out (an Emit) for events of a run that may be subscribed to.

    Args:
        journal: The run's record.
        outer: Where events go besides.
    """

    def __init__(self, journal: MemoryJournal, outer: Emit) -> None:
        self.journal = journal
        self.outer = outer
        self.readers: list[_Reader] = []
        self._number = 0
        self._index = 0

    @property
    def blocked(self) -> float:
        """As of the outer way; subscribers never make a run wait."""
        return self.outer.blocked

    def listens(self, kind: type[Event], /) -> bool:
        """Return whether a subscriber or anybody further out wants it."""
        return bool(self.readers) or self.outer.listens(kind)

    async def __call__(self, event: Event, /) -> None:
        """Hand an event to all readers, then further out."""
        if self.readers:
            number = self.journal.stable
            self._index = self._index + 1 if number == self._number else 1
            self._number = number
            heard = Heard(number, self._index, event)
            for reader in self.readers:
                reader.passing.append(heard)
            self.journal.wake()
        if self.outer.listens(type(event)):
            await self.outer(event)


async def subscribe(
    journal: MemoryJournal, broadcast: Broadcast | None = None, *, after: int = 0, buffer: int = 1000
) -> AsyncGenerator[Heard, None]:
    """Yield what is on record of a run after entry number `after`, then what happens, until the run has ended.

    Entries come all and in order, whenever one joins; events that are not recorded, such as pieces of a reply, only
    while one listens, and when a reader is more than `buffer` of them behind the oldest are lost.
    """
    reader = _Reader(buffer)
    if broadcast is not None:
        broadcast.readers.append(reader)
    number = after

    def over() -> bool:
        return journal.refusing or (journal.ended is not None and number >= len(journal.entries))

    def news() -> bool:
        return bool(reader.passing) or number < journal.stable or over()

    try:
        while True:
            while reader.passing and reader.passing[0].number <= number:
                yield reader.passing.popleft()
            if number < journal.stable:
                number += 1
                yield Heard(number, 0, journal.entries[number - 1])
            elif over():
                return
            else:
                await journal.changed(news)
    finally:
        if broadcast is not None:
            broadcast.readers.remove(reader)
