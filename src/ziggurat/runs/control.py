"""RunControl: how a run that is driven is cancelled, steered and followed, by its handle and by others."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from typing import TypeVar

from msgspec import Struct, field

from ziggurat.calls.inbox import Inbox
from ziggurat.core.context import Key
from ziggurat.core.errors import ConfigurationError, Denied, ZigguratError
from ziggurat.core.event import Emit, Event, Passing, Skipped
from ziggurat.core.log import logger
from ziggurat.core.tasks import Interruption
from ziggurat.journal.entries import JournalEntry
from ziggurat.journal.journal import LocalJournal
from ziggurat.messages.conversation import Verb
from ziggurat.messages.message import Message
from ziggurat.messages.posted import Inboxes, PostedCancel, PostedMessages

T = TypeVar("T")


class SubscribedItem(Struct, frozen=True):
    """One item that a subscriber receives."""

    number: int  # of the entry, from 1 and without gaps; of an event, that of the last entry before it
    index: int  # 0 for an entry; events after it are counted from 1
    what: JournalEntry | Event  # an entry where it is no event, such as `Opened` and `Ended`


class Unread(Struct, eq=False):
    """The unread events of one reader; beyond a number the oldest are dropped."""

    limit: int = 1000
    items: deque[SubscribedItem] = field(default_factory=deque)
    dropped: int = 0

    def append(self, item: SubscribedItem) -> None:
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
        if self.outer.listens(kind) or (self.pieces and kind.piece):
            return True
        return bool(self.readers) and kind not in self.recorded

    async def __call__(self, event: Event, /) -> None:
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


class SteeringAct(Struct, frozen=True, eq=False):
    """An act of steering that has not taken effect yet; see `Steer`."""

    verb: Verb
    messages: tuple[Message, ...] = ()
    posted: int = 0

    def check(self, steerable: frozenset[str] | None, agent: str, *, loop: bool) -> None:
        """Refuse it if the agent may not be steered so; `loop` if it takes effect between two steps."""
        if steerable is None:
            if loop:
                raise ConfigurationError(f"{agent} has no loop of its own to be steered in; cancel() stops it at once")
        elif self.verb not in steerable:
            allowed = ", ".join(sorted(steerable)) or "nothing"
            raise Denied(f"{agent} may not be steered by {self.verb} (allowed: {allowed})")


class RunControl:
    """What a run shares with those who control it: the handle that started it, and other processes."""

    def __init__(self, run_id: str, inboxes: Inboxes, depth: int = 0, steerable: frozenset[str] | None = None) -> None:
        self.run_id = run_id
        self.depth = depth  # of the agent that is steered
        self.steerable = steerable
        self.open = True  # whether it can be steered, as it is not about to end
        self.arriving: set[asyncio.Future[bool]] = set()  # what is being posted, and the run takes in before it ends
        self.recorded: asyncio.Event = asyncio.Event()
        self.cancelled: bool = False
        self.stopped: bool = False  # whether what was posted has cancelled it
        self.withdrawn: bool = False  # whether it stops, when its task is cancelled, as if its process had ended
        self.broadcast: EventBroadcast | None = None
        self.whole: list[tuple[tuple[Message, ...], ...]] = []  # messages as they are posted from here, and as they are
        self.readers: list[Unread] = []  # those that follow the run since before it was opened
        self._inboxes = inboxes
        self._inbox: Inbox | None = None
        self._acts: deque[SteeringAct] = deque()
        self._interruption: Interruption | None = None  # of what a redirect cancels
        self._driving: Interruption | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._reading: asyncio.Future[bool] | None = None  # held, or it could be collected

    def follow(self, broadcast: EventBroadcast) -> None:
        """Have the run, which this task drives from now on, reached by those who read or control it, until `end`."""
        broadcast.readers, self.broadcast = self.readers, broadcast
        self._loop = asyncio.get_running_loop()
        self._driving = Interruption()

    def events(self) -> AsyncGenerator[SubscribedItem, None]:
        """Return the items of the run from its start, and its other events from now on; read them when it is opened."""
        unread = Unread() if self.broadcast is None else None
        if unread is not None:
            self.readers.append(unread)
        return self._events(unread)

    async def _events(self, unread: Unread | None) -> AsyncGenerator[SubscribedItem, None]:
        assert self.broadcast is not None
        async with aclosing(subscribe(self.broadcast.journal, self.broadcast, unread=unread)) as items:
            async for item in items:
                yield item

    def inbox(self, run_id: str, journal: LocalJournal) -> Inbox:
        if self._inbox is None or self._inbox.journal is not journal:  # it is driven on, from its record
            self._inbox = Inbox(self._inboxes, run_id, journal, self.receive)
        return self._inbox

    async def read(self) -> None:
        if self.broadcast is not None and not self.broadcast.journal.closed:  # else it is read when the run is opened
            await self.inbox(self.run_id, self.broadcast.journal).read()

    async def read_posted(self) -> bool:
        """Read what was posted, and return whether it could be read; else the next poll does."""
        try:
            await self.read()
        except (ZigguratError, OSError) as error:
            logger.warning("what was posted to the run %s cannot be read: %s", self.run_id, error)
            return False
        return True

    def posted(self) -> None:
        """Read the inbox soon, because something was posted in this process, by any thread."""
        assert self._loop is not None  # it is driven
        with suppress(RuntimeError):  # the loop is closed, and so the run has ended
            self._loop.call_soon_threadsafe(self._begin_reading)

    def _begin_reading(self) -> None:
        self._reading = asyncio.ensure_future(self.read_posted())

    # -- steering ------------------------------------------------------------------------------------------------

    def put(self, act: SteeringAct) -> bool:
        """Add an act, unless the run ends; a ``"redirect"`` also ends what is `interrupted` by it."""
        if self.open:
            self._acts.append(act)
            if act.verb == "redirect" and self._interruption is not None:
                self._interruption.interrupt()
        return self.open

    async def expect(self, arriving: "asyncio.Future[bool]") -> bool:
        """Have the run take in what is being posted to it before it ends; return whether it was posted."""
        self.arriving.add(arriving)
        arriving.add_done_callback(self.arriving.discard)
        return await asyncio.shield(arriving)

    def take(self, verbs: tuple[str, ...]) -> SteeringAct | None:
        for act in self._acts:
            if act.verb in verbs:
                self._acts.remove(act)
                return act
        return None

    async def unless_redirected(self, begin: Callable[[], Awaitable[T]]) -> T | None:
        """Begin and await some work, unless the run was redirected; cancel it, and return None, when it is."""
        if any(act.verb == "redirect" for act in self._acts):
            return None
        self._interruption = interruption = Interruption()
        try:
            return await begin()
        except asyncio.CancelledError as error:
            if not interruption.end(error):
                raise
            return None
        finally:
            self._interruption = None
            interruption.end()

    # -- from elsewhere ------------------------------------------------------------------------------------------

    def receive(self, number: int, posted: PostedCancel | PostedMessages, end: int) -> bool:
        """Do what others have posted, unless the run has ended since, with this entry; return whether it waits."""
        act = self._act_of(number, posted)
        at_once = isinstance(posted, PostedCancel) and not posted.after_step
        try:
            act.check(self.steerable, "the agent", loop=not at_once)
        except (Denied, ConfigurationError) as error:
            logger.warning("what was posted to the run %s as number %d is refused: %s", self.run_id, number, error)
            return False
        if isinstance(posted, PostedCancel) and posted.entries < end:
            return False
        if at_once:
            self.stopped = self.cancelled = True
            if self._driving is not None:
                self._driving.interrupt()
        elif all(each.posted != number for each in self._acts):  # else it is read once more, as the run is driven on
            self.put(act)
        return not at_once

    def _act_of(self, number: int, posted: PostedCancel | PostedMessages) -> SteeringAct:
        if isinstance(posted, PostedCancel):
            return SteeringAct("cancel", posted=number)
        mine = next((each for each in self.whole if each[0] == posted.messages), None)
        if mine is not None:
            self.whole.remove(mine)
        return SteeringAct(posted.verb, posted.messages if mine is None else mine[1], number)

    def end(self, error: asyncio.CancelledError | None = None) -> bool:
        """Let the task be cancelled no more; return whether an error that ended the run cancels only the run."""
        return self._driving is not None and self._driving.end(error)


STEERING = Key[RunControl]("steering")  # how the agent of a run is steered; absent if nobody can
