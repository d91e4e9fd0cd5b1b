"""The runs that this process drives: their events go to readers in other processes, and what these post is taken in."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import get_args

from msgspec import Raw, Struct

from ziggurat.core.clock import new_id
from ziggurat.core.codec import decode, encode
from ziggurat.core.errors import JournalCorrupt, ZigguratError
from ziggurat.core.event import Event, Skipped
from ziggurat.core.log import logger
from ziggurat.core.tasks import finished
from ziggurat.journal.store import LiveMessages, Send, Store, run_log
from ziggurat.messages.events import AnyEvent, Delta, ModelStarted, StepEnded, StepStarted
from ziggurat.runs.broadcast import EventBroadcast, SubscribedItem, Unread
from ziggurat.runs.control import RunControl

PERIOD = 0.2
"""Seconds between two polls of a store; a run that is shorter costs nothing."""

_LAST_SEND = 1.0
"""Seconds for which the end of a run waits until its last events are sent."""

PAUSE = 0.02
"""Seconds between the batches that are sent of one run; events in between go together."""

_LARGEST = 256 * 1024
"""Bytes of the events of a batch; those that do not fit are skipped."""

_KNOWN = frozenset(get_args(AnyEvent))
_SCREENED = frozenset({Delta, ModelStarted, Skipped, StepEnded, StepStarted})
"""The events of a run whose entries are redacted: those with text have passed the filters of deltas."""

_TOO_LARGE = encode(Skipped("", 1))


class LiveBatch(Struct, frozen=True, array_like=True):
    """Events of one run as they are sent."""

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
        """Send until the run is no longer driven from here, or `end` is called."""
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
        """Send what is left, and end."""
        self._over.set()
        self._broadcast.journal.wake()

    def _is_over(self) -> bool:
        return self._over.is_set() or self._broadcast.journal.closed

    def _has_news(self) -> bool:
        return bool(self._unread.items) or self._broadcast.journal.stable > self._stable or self._is_over()

    def _batch(self) -> bytes:
        """Return what is to be sent next; events that are too many or too large are skipped."""
        unread, sent, size = self._unread, self._sent, 0
        kinds = _SCREENED if self._broadcast.journal.is_screened else _KNOWN
        self._sent += unread.dropped
        before, unread.dropped = self._sent, 0
        items: list[tuple[int, int, Raw]] = []
        while unread.items:
            item = unread.items.popleft()
            if type(item.what) not in kinds:
                continue
            self._sent += 1
            event = _encoded(item.what)
            size += len(event)
            if size > _LARGEST:
                size -= len(event)
                event = _TOO_LARGE
            items.append((item.number, item.index, Raw(event)))
        self._stable = self._broadcast.journal.stable
        return encode(LiveBatch(self._id, sent, self._stable, self._is_over(), items, before - sent))


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
        """Take in messages that have arrived."""
        for message in messages:
            try:
                batch = decode(message, LiveBatch)
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


class DrivenRun:
    """A run that is driven in this event loop."""

    def __init__(self, run_id: str, broadcast: EventBroadcast, control: RunControl) -> None:
        self.id = run_id
        self.broadcast = broadcast
        self._control = control
        self._loop = asyncio.get_running_loop()
        self._reading: asyncio.Task[None] | None = None

    def posted(self) -> None:
        """Read the inbox soon, because something was posted in this process, by any thread."""
        with suppress(RuntimeError):  # the loop is closed, and so the run has ended
            self._loop.call_soon_threadsafe(self._begin_reading)

    def withdraw(self) -> None:
        """Have the run stop as if its process had ended when its task is cancelled, so that it can be recovered."""
        self._control.withdrawn = True

    def _begin_reading(self) -> None:
        self._reading = self._loop.create_task(self.read())

    async def read(self) -> None:
        """Take in what was posted to the run."""
        try:
            await self._control.inbox(self.id, self.broadcast.journal).read()
        except (ZigguratError, OSError) as error:  # it is read again when the run is continued
            logger.warning("what was posted to the run %s cannot be read: %s", self.id, error)


class DrivenRuns:
    """The runs of one store that are driven in one event loop; a poll serves all of them."""

    def __init__(self, store: Store, unused: Callable[[], object]) -> None:
        self._store = store
        self._live: LiveMessages | None = getattr(store, "live", None)
        self._unused = unused
        self._runs: dict[str, DrivenRun] = {}
        self._read: dict[str, int] = {}  # the number of the last item of a run's inbox that was read
        self._senders: dict[str, tuple[EventSender, asyncio.Task[None]]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._polling: asyncio.Task[None] | None = None

    def begin(self, run: DrivenRun) -> None:
        """Serve a run from now on."""
        self._runs[run.id] = run
        if self._timer is None:
            self._wait()

    async def end(self, run_id: str) -> None:
        """Serve a run no longer; what is left of its events is sent first."""
        self._runs.pop(run_id, None)
        self._read.pop(run_id, None)
        try:
            if run_id in self._senders:
                await finished(self._stop_sending(run_id))
        finally:
            if not self._runs:
                if self._timer is not None:
                    self._timer.cancel()
                self._timer = None
                if self._polling is not None:
                    self._polling.cancel()
                self._unused()

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(PERIOD, self._begin_poll)

    def _begin_poll(self) -> None:
        self._polling = asyncio.get_running_loop().create_task(self._poll())

    async def _poll(self) -> None:
        try:
            logs = {run_log(run_id): run_id for run_id in self._runs}
            await self._read_inboxes(logs)
            await self._find_readers(logs)
        except (ZigguratError, OSError) as error:  # the next poll may succeed
            logger.debug("what other processes want of the runs of this one is unknown: %s", error)
        finally:
            self._polling = None
            if self._runs:
                self._wait()

    async def _read_inboxes(self, logs: dict[str, str]) -> None:
        for log, last in (await self._store.arrived()).items():
            run_id = logs.get(log)
            run = None if run_id is None else self._runs.get(run_id)
            if run is not None and run_id is not None and last > self._read.get(run_id, 0):
                self._read[run_id] = last
                await run.read()

    async def _find_readers(self, logs: dict[str, str]) -> None:
        if self._live is None:
            return
        followed = {logs[log] for log in await self._live.watched(list(logs))}
        for run_id in followed & self._runs.keys() - self._senders.keys():
            sender = EventSender(self._runs[run_id].broadcast)
            task = asyncio.get_running_loop().create_task(self._send(run_id, sender))
            self._senders[run_id] = (sender, task)
        for run_id in self._senders.keys() - followed:
            await self._stop_sending(run_id)

    async def _send(self, run_id: str, sender: EventSender) -> None:
        assert self._live is not None  # it has found the readers
        try:
            async with self._live.sending(run_log(run_id)) as send:
                await sender.run(send)
        except (ZigguratError, OSError) as error:
            logger.warning("the events of the run %s are not sent to other processes: %s", run_id, error)

    async def _stop_sending(self, run_id: str) -> None:
        sender, task = self._senders.pop(run_id, (None, None))
        if sender is None or task is None:  # its last reader left, and a poll came first
            return
        sender.end()
        await asyncio.wait([task], timeout=_LAST_SEND)
        task.cancel()
