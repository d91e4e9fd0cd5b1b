"""Where runs are kept, and which of them are in progress in this process; without a store, by reference."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from functools import cached_property
from typing import Unpack
from weakref import WeakValueDictionary

from ziggurat.core import codec, errors
from ziggurat.core.clock import SYSTEM_CLOCK, Clock
from ziggurat.core.tasks import ring
from ziggurat.journal import entries
from ziggurat.journal.journal import LocalJournal
from ziggurat.journal.store import UNFINISHED, InboxItem, LogFilters, LogInfo, Store, run_log
from ziggurat.messages.agent import AgentRequest
from ziggurat.runs import control
from ziggurat.runs.options import Environment
from ziggurat.stores.session_log import RunConditions

_NONE = RunConditions()


def conditions_of(opened: entries.JournalEntry) -> RunConditions:
    """Return the conditions in the first entry of a run; a fork belongs to no session."""
    if not isinstance(opened, entries.Opened) or opened.terms is None:
        return _NONE
    conditions = codec.as_type(opened.terms, RunConditions | None) or _NONE
    return conditions if opened.forked is None else RunConditions(conditions.grants)


def loaded_by(opened: entries.Opened) -> Sequence[object]:
    """Return the messages of a request that are read from the session, which is in the same store as the run."""
    conditions = conditions_of(opened)
    if not conditions.loaded or conditions.elsewhere:
        return ()
    return codec.as_type(opened.request, AgentRequest).messages[: conditions.loaded]


def fingerprint_of(opened: entries.Opened) -> str:
    return codec.digest(codec.as_type(opened.request, AgentRequest))


POLL = 1.0  # seconds between two looks at a run that waits, and that another process may continue

Screening = Callable[[LocalJournal], None]  # sets the functions that redact entries before they are kept


class Runs:
    """Where the runs of agents are kept: only one caller at a time drives a run, anyone can read it.

    Here without a store: in the memory of this process, by reference, and only while they can be continued.
    """

    # Not `StoredRuns` with a store in memory: what is kept by reference is not encoded, which takes most of the time.
    keeps_ended: bool = False
    """Whether a run that completed can still be found by its id."""

    def __init__(self) -> None:
        self._in_progress: dict[str, LocalJournal | None] = {}  # None while a run is being opened or taken over
        self._driven: dict[str, control.RunControl] = {}
        self._waiting: dict[str, list[asyncio.Future[None]]] = {}
        self._journals: dict[str, LocalJournal] = {}  # of the runs that can be continued, the oldest first
        self._fingerprints: dict[str, str] = {}
        self._inboxes: dict[str, list[InboxItem]] = {}
        self._keys: dict[str, set[str]] = {}  # of the items in each inbox

    @cached_property
    def store(self) -> Store:
        """The store of their sessions and, if they outlive the process, of the runs."""
        from ziggurat.stores.local import InMemoryStore

        store = InMemoryStore()
        _BY_STORE[id(store)] = self
        return store

    async def find(self, run_id: str) -> LogInfo | None:
        """Return the status of a run and the digest of its request, None if there is none."""
        journal = self._in_progress.get(run_id) or self._journals.get(run_id)
        return None if journal is None else self._info(run_id, journal)

    async def known(self, run_id: str) -> LogInfo:
        """Return the status of a run that can be read; raise if there is none, or it is in quarantine."""
        return self._info(run_id, self._find(run_id))

    async def newest(self, run_id: str) -> LogInfo | None:
        """Return the status of a run or, if it has continued as new, of the last run of its chain; see `find`."""
        info = await self.find(run_id)
        while info is not None and info.status == "Continued":
            later = await self.find(info.next_id)
            if later is None:  # it was deleted
                break
            info = later
        return info

    async def logs(self, limit: int, **filters: Unpack[LogFilters]) -> Sequence[LogInfo]:
        """Return some of the runs of one agent; see `Store.logs`."""
        filters.pop("agent", None)  # there is no other
        journals = {**self._journals, **self._in_progress}
        infos = [self._info(run_id, journal) for run_id, journal in journals.items() if journal is not None]
        return LogInfo.chosen(infos, limit, **filters)

    async def read(self, run_id: str, clock: Clock = SYSTEM_CLOCK) -> LocalJournal:
        """Return a copy of a run's record; the run may be in progress elsewhere."""
        return LocalJournal(record=self._find(run_id).entries, clock=clock)

    async def read_ended(self, run_id: str, clock: Clock = SYSTEM_CLOCK) -> LocalJournal | None:
        """Return a copy of the record of a run that has ended or waits; None if it goes on by now."""
        known: LogInfo | None = None
        while True:
            journal, info = await self.read(run_id, clock), await self.find(run_id)
            stop = "running" if journal.ended is None else journal.ended.stop
            if info is None or info.status in ("running", stop):
                return None if journal.ended is None else journal
            if info == known:
                raise errors.JournalCorrupt(
                    f"the run {run_id!r} has ended by its status, but not by its entries: its status was changed, or "
                    "its last entries are lost; restore the store from a backup"
                )
            known = info  # it may have gone on between the two

    async def entry(self, run_id: str, number: int) -> entries.JournalEntry | None:
        """Return one entry of a run's record, from 1, without reading the others; None if there is none."""
        record = self._find(run_id).entries
        return record[number - 1] if 0 < number <= len(record) else None

    async def plant(
        self,
        run_id: str,
        agent: str,
        record: Sequence[entries.JournalEntry],
        *,
        fingerprint: str = "",
        due: float | None = None,
        priority: int = 0,
    ) -> None:
        """Create a run from existing entries; take it to continue."""
        self._check_new(run_id)
        self._journals[run_id] = LocalJournal(record=record)

    async def delete(self, run_id: str) -> bool:
        """Remove a run that nobody drives, with all that belongs to it; return whether there was one."""
        if run_id in self._in_progress:
            raise errors.RunInProgress(
                f"the run {run_id!r} is in progress; cancel it and wait for its end before it is deleted"
            )
        self._in_progress[run_id] = None
        try:
            return await self._delete(run_id)
        finally:
            self._end(run_id)

    async def _delete(self, run_id: str) -> bool:
        self._drop(run_id)
        return self._journals.pop(run_id, None) is not None

    async def post(self, run_id: str, key: str, data: bytes) -> bool:
        """Post an item to the inbox of a run, whoever drives it; return whether its key is new."""
        new = await self.put_item(run_id, key, data)
        self.posted(run_id)
        return new

    def posted(self, run_id: str) -> None:
        """Have a driver in this process take in what was posted to a run."""
        driven = self._driven.get(run_id)
        if driven is not None:
            driven.posted()
        elif run_id in self._waiting:
            self._wake(run_id)

    async def put_item(self, run_id: str, key: str, data: bytes) -> bool:
        """Do the same as `post`, without letting a driver in this process know."""
        journal = self._in_progress.get(run_id)
        if journal is None and run_id not in self._in_progress:
            journal = self._find(run_id)
        taken = 0 if journal is None else journal.inbox_taken
        inbox, keys = self._inboxes.setdefault(run_id, []), self._keys.setdefault(run_id, set())
        if key in keys:
            return False
        inbox.append(InboxItem.following(run_log(run_id), len(inbox), taken, key, data))
        keys.add(key)
        return True

    async def inbox(self, run_id: str, after: int = 0) -> Sequence[InboxItem]:
        """Return the items of a run's inbox numbered higher than `after`, in order; without data if it is forged."""
        return self._inboxes.get(run_id, [])[after:]

    def subscribe(self, run_id: str, after: int, *, live: bool = True) -> AsyncGenerator[control.SubscribedItem, None]:
        """Yield the entries and events of a run after an entry, until it has ended and its leases are free."""
        return self._follow(run_id, self._find(run_id), after)

    async def continued(self, run_id: str, count: int) -> bool:
        """Wait until a run that waits, or was interrupted, goes on; return False if it was removed."""
        while not self.is_in_progress(run_id):
            info = await self.find(run_id)
            if info is None:
                return False
            if info.status == "running" or info.count > count:
                break
            await self.begun(run_id, POLL)
        return True

    async def begun(self, run_id: str, seconds: float) -> bool:
        """Wait until a run is in progress in this process, at most for some seconds; return whether it is."""
        with self.changes(run_id) as changed:
            if seconds and not self.is_in_progress(run_id):
                await asyncio.wait([changed], timeout=seconds)
        return self.is_in_progress(run_id)

    async def begin(self, run_id: str, begins: Coroutine[object, object, LocalJournal]) -> LocalJournal:
        """Have only this caller drive a run, which begins with `open` or `take`, until `leave`."""
        if run_id in self._in_progress:
            begins.close()
            raise errors.RunInProgress(f"the run {run_id!r} is already running; wait for its end, or choose another id")
        self._in_progress[run_id] = None
        try:
            journal = self._in_progress[run_id] = await begins
        except BaseException:
            self._end(run_id)
            raise
        if run_id in self._waiting:
            self._wake(run_id)
        return journal

    async def open(
        self,
        opened: entries.Opened,
        fingerprint: str,
        screening: Screening,
        environment: Environment,
        run: control.RunControl | None = None,
    ) -> LocalJournal:
        """Record the first entry of a new run; see `begin`."""
        run_id = opened.run_id
        self._check_new(run_id)
        journal = LocalJournal(clock=environment.clock)
        screening(journal)
        journal.append(opened)
        if fingerprint:
            self._fingerprints[run_id] = fingerprint
        return journal

    async def take(
        self, run_id: str, environment: Environment, epoch: int | None = None, known: LocalJournal | None = None
    ) -> LocalJournal:
        """Take over a run that stopped, or was claimed under the epoch of a lease; see `begin`."""
        # `known` is the record as it was when it was last left here, which is returned if nothing was added since.
        journal = self._find(run_id)
        if journal is not known:
            return LocalJournal(record=journal.entries, clock=environment.clock)
        journal.write_again(None)
        return journal

    async def leave(self, run_id: str, journal: LocalJournal, *, mistaken: bool = False) -> None:
        try:
            await self._leave(run_id, journal, mistaken)
        finally:
            self._end(run_id)

    def is_in_progress(self, run_id: str) -> bool:
        return run_id in self._in_progress

    def is_driven(self, info: LogInfo) -> bool:
        """Return whether a process drives a run, by its description: this one, or another."""
        return bool(info.owner) or self.is_in_progress(info.id)

    def withdraw(self, run_id: str) -> None:
        """Have a run that this process drives stop without an end on record when its task is cancelled."""
        driven = self._driven.get(run_id)
        if driven is not None:
            driven.withdrawn = True

    def announce(self, run: control.RunControl) -> None:
        """Send the events of a run in progress to its subscribers, and have it take in what is posted to it."""
        self._driven[run.run_id] = run
        if run.run_id in self._waiting:
            self._wake(run.run_id)

    async def _leave(self, run_id: str, journal: LocalJournal, mistaken: bool) -> None:
        ended = journal.ended
        if (mistaken or journal.reopened) and not journal.went_on:
            if mistaken and journal.is_new:
                self._journals.pop(run_id, None)
            return
        self._journals.pop(run_id, None)
        if ended is not None and ended.stop not in UNFINISHED:
            self._drop(run_id)
            return
        self._journals[run_id] = journal  # as the newest
        while len(self._journals) > LIMIT:
            oldest = next(iter(self._journals))
            del self._journals[oldest]
            self._drop(oldest)

    def _end(self, run_id: str) -> None:
        self._in_progress.pop(run_id, None)
        self._driven.pop(run_id, None)
        if run_id in self._waiting:
            self._wake(run_id)

    def _wake(self, run_id: str) -> None:
        for waiting in self._waiting.pop(run_id, ()):
            ring(waiting)

    async def _opened(self, run_id: str) -> LocalJournal | None:
        """Return the journal of a run in progress, when its events are announced; None for other runs."""
        await self._wait_while(run_id, lambda: run_id in self._in_progress and run_id not in self._driven)
        return self._in_progress.get(run_id)

    async def _follow(
        self, run_id: str, journal: LocalJournal, after: int
    ) -> AsyncGenerator[control.SubscribedItem, None]:
        """Yield the items of a run of this process, until it has ended and its leases are free."""
        driven = self._driven.get(run_id)
        broadcast = None if driven is None else driven.broadcast
        async with contextlib.aclosing(control.subscribe(journal, broadcast, after=after)) as items:
            async for item in items:
                yield item
        await self.left(run_id, journal)

    async def left(self, run_id: str, journal: LocalJournal) -> None:
        """Wait until the leases of a run are free that has ended in this process."""
        await self._wait_while(run_id, lambda: self._in_progress.get(run_id) is journal)

    async def _wait_while(self, run_id: str, condition: Callable[[], bool]) -> None:
        """Wait until a condition on a run in progress no longer holds; the run may be driven by another thread."""
        while condition():
            with self.changes(run_id) as changed:
                if condition():  # otherwise it changed before we were registered
                    await changed

    @contextlib.contextmanager
    def changes(self, run_id: str) -> "Iterator[asyncio.Future[None]]":
        """Yield what is done when a run begins or ends to be in progress here, or something is posted to it here."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        others = self._waiting.setdefault(run_id, [])
        others.append(waiting)
        try:
            yield waiting
        finally:
            others[:] = [other for other in others if other is not waiting]
            if not others and self._waiting.get(run_id) is others:
                self._waiting.pop(run_id, None)

    def _drop(self, run_id: str) -> None:
        self._fingerprints.pop(run_id, None)
        self._inboxes.pop(run_id, None)
        self._keys.pop(run_id, None)

    def _check_new(self, run_id: str) -> None:
        if run_id in self._journals or self._in_progress.get(run_id) is not None:
            raise errors.RunExists(f"the run {run_id!r} exists; choose another id")

    def _find(self, run_id: str) -> LocalJournal:
        journal = self._in_progress.get(run_id) or self._journals.get(run_id)
        if journal is None:
            raise errors.RunNotFound(f"there is no run {run_id!r}; an agent without a store keeps no finished runs")
        return journal

    def _info(self, run_id: str, journal: LocalJournal) -> LogInfo:
        opened, ended = journal.entries[0], journal.entries[-1]
        assert isinstance(opened, entries.Opened)
        fingerprint = self._fingerprints.get(run_id) or fingerprint_of(opened)
        status = ended.stop if isinstance(ended, entries.Ended) else "running"
        asks, count, labels = journal.index.asks, len(journal.entries), entries.labels_of(opened)
        return LogInfo(run_log(run_id), "", fingerprint, opened.at, status, opened.at, count, asks=asks, labels=labels)


_BY_STORE: "WeakValueDictionary[int, Runs]" = WeakValueDictionary()
"""The runs of each store in use, by its `id()`: one object per store."""

LIMIT = 1000  # how many runs that can be continued are kept; beyond that the oldest are dropped


def runs_of(store: str | Store | None) -> Runs:
    """Return the runs of a store, to find, read, copy or delete records without the agent that made them.

    ::

        runs = runs_of("sqlite:///agents.db")
        record = await runs.read("r-17")
        await runs_of("sqlite:///copy.db").plant("r-17", "clerk", record.entries)

    Args:
        store: A URL or a store; None for the runs of this process, which are kept while they can be continued.

    Raises:
        ConfigurationError: the URL is of no known kind.
        RunNotFound: of what reads a run: the store has no such run.
    """
    if store is None:
        return Runs()
    from ziggurat.runs.stored import StoredRuns
    from ziggurat.stores.addresses import shared

    store = shared(store)
    runs = _BY_STORE.get(id(store))  # runs keep their store alive, so its id is not reused
    if runs is None:
        runs = _BY_STORE[id(store)] = StoredRuns(store)
    return runs
